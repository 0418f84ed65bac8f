// SPDX-License-Identifier: Apache-2.0
#include "suites/fsdp/microbatches.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/nn/checkpoint.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/world/bits.h"
#include "oracle/ownership/ownership.h"
#include "suites/fsdp/sharded_model.h"

namespace lockstep::suites {
namespace {

using Gradients = std::vector<at::Tensor>;  // by parameter; undefined: none

void add(Gradients& sums, const Gradients& terms) {
  sums.resize(terms.size());
  for (size_t i = 0; i < terms.size(); ++i)
    if (terms[i].defined()) sums[i] = sums[i].defined() ? sums[i] + terms[i] : terms[i];
}

class Microbatches {
 public:
  Microbatches(const Sharding& sharding, const std::vector<at::Tensor>& starts) : s_(sharding) {
    const auto [model, blocks] = make_model(sharding);
    model_ = model;
    if (sharding.recompute != 0)  // then a block's uses of one parameter are added up first
      for (const auto& block : blocks) checkpoint(*block);
    const at::NoGradGuard no_grad;
    nn::make_parameters(*model_, sharding.mesh.device_type());
    for (auto& [value, paths] : model_->parameters_with_paths()) {
      paths_.push_back(paths);
      parameters_.push_back(value);
    }
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].copy_(starts.at(i));
    set_frozen(true);
    optimizer_.emplace(parameters_, optimizer_options(sharding), matrices(parameters_));
  }

  void train(const Batches& batches) {
    for (size_t step = 0; step < batches.size(); ++step) {
      if (step == 1 && s_.thaws != 0) set_frozen(false);
      const auto sums = gradients_of(batches[step]);
      for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = at_index(sums, i);
      optimizer_->step();
    }
  }

  const std::vector<at::Tensor>& parameters() const { return parameters_; }

 private:
  static at::Tensor at_index(const Gradients& gradients, size_t i) {
    return i < gradients.size() ? gradients[i] : at::Tensor();
  }

  void set_frozen(bool on) {
    if (s_.frozen > 0 && s_.frozen <= std::ssize(parameters_))
      parameters_[as_size(s_.frozen - 1)].set_requires_grad(!on);
  }

  c10::ScalarType computed() const { return s_.policy.param_dtype.value_or(s_.dtype); }
  c10::ScalarType reduced_in() const { return s_.policy.reduce_dtype.value_or(computed()); }

  // The model's parameters in the dtype in which it computes, as leaves.
  Gradients cast_parameters() {
    Gradients cast;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      auto& leaf = cast.emplace_back(parameters_[i].detach().to(computed(), false, /*copy=*/true));
      leaf.set_requires_grad(parameters_[i].requires_grad());
      for (const auto& path : paths_[i]) model_->set_parameter(path, leaf, true);
    }
    return cast;
  }

  // Of the rank at this position, added up over passes: as they come, use by use, or pass by pass in the
  // dtype in which they are reduced where that is another.
  Gradients of_rank(int64_t position, const std::vector<at::Tensor>& passes) {
    auto leaves = cast_parameters();
    Gradients gradients(leaves.size());
    const auto take = [&] {
      Gradients came;
      for (auto& leaf : leaves) {
        const auto gradient = std::exchange(leaf.mutable_grad(), at::Tensor());
        came.push_back(gradient.defined() ? gradient.to(reduced_in()) : gradient);
      }
      add(gradients, came);
    };
    for (const auto& batch : passes) {
      const auto input = batch.narrow(0, position * s_.batch, s_.batch).to(computed());
      const auto output = (*model_)(input).to(s_.policy.output_dtype.value_or(computed()));
      const auto each = at::ones_like(output).div(output.numel() * s_.mesh.size());
      (output * output).backward(each);
      if (reduced_in() != computed()) take();
    }
    take();
    return gradients;
  }

  // Terms by position to sums by position: one for all along a mesh dimension.
  std::vector<Gradients> added_along(int64_t dim, const std::vector<Gradients>& terms) const {
    std::vector<Gradients> sums(terms.size());
    for (int64_t position = 0; position < s_.mesh.size(); ++position)
      for (const int64_t other : s_.mesh.line(position, dim))
        add(sums[as_size(position)], terms[as_size(other)]);
    return sums;
  }

  // In the order that is declared, nested: a rank's passes, the ranks of a replica, the replicas.
  Gradients gradients_of(const std::vector<at::Tensor>& passes) {
    if (s_.each == 0) return reduced(scattered(passes));
    if (s_.each == 2) return reduced(added_up(passes));
    Gradients sums;
    for (const auto& batch : passes) add(sums, reduced(scattered({batch})));
    return sums;
  }

  // Of each position the sums of its replica, pass after pass.
  std::vector<Gradients> added_up(const std::vector<at::Tensor>& passes) {
    std::vector<Gradients> sums(as_size(s_.mesh.size()));
    for (const auto& batch : passes) {
      const auto terms = scattered({batch});
      for (size_t p = 0; p < terms.size(); ++p) add(sums[p], terms[p]);
    }
    return sums;
  }

  // Of each position the sums of its replica.
  std::vector<Gradients> scattered(const std::vector<at::Tensor>& passes) {
    std::vector<Gradients> all;
    for (int64_t position = 0; position < s_.mesh.size(); ++position)
      all.push_back(of_rank(position, passes));
    return added_along(s_.mesh.dim_index("fsdp"), all);
  }

  Gradients reduced(std::vector<Gradients> all) const {
    const int64_t first = s_.mesh.dim_index("fsdp");
    for (int64_t d = 0; d < s_.mesh.ndim(); ++d)
      if (d != first) all = added_along(d, all);
    auto sums = all.front();
    for (auto& sum : sums) {
      if (sum.defined() && s_.factor != 1) sum = sum.div(static_cast<double>(s_.factor));
      if (sum.defined()) sum = sum.to(s_.dtype);
    }
    return sums;
  }

  const Sharding& s_;
  std::shared_ptr<nn::Module> model_;
  std::vector<std::vector<std::string>> paths_;  // of each parameter: several of one that is shared
  std::vector<at::Tensor> parameters_;
  std::optional<Optimizer> optimizer_;
};

// A NaN is one whatever its payload, which kernels make as they like.
bool same_numbers(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const auto nan = a.ne(a);
  return nan.equal(b.ne(b)) && same_bits(a.masked_fill(nan, 0), b.masked_fill(nan, 0));
}

}  // namespace

bool has_microbatches(const Sharding& s) {
  const bool adds_inputs_first = s.wrap != 0 && (s.calls != 0 || s.sides != 0);
  return !adds_inputs_first && !has_tp(s.mesh) && s.clip == 0 && s.ignored == 0 && !has_layer(s, "d") &&
         !has_short_norm(s);
}

std::string unlike_microbatches(const Sharding& sharding, const std::vector<at::Tensor>& starts,
                                const Batches& whole, ShardedTraining& trained) {
  Microbatches plain(sharding, starts);
  plain.train(whole);
  const auto placed = trained.model().parameters();
  for (size_t i = 0; i < placed.size(); ++i) {
    const auto& parameter = placed[i];
    const auto& expected = plain.parameters().at(i);
    const auto gathered = [](const at::Tensor& t) {
      return oracle::assemble(local_tensors(t), spec(t)).global;
    };
    if (expected.grad().defined() != parameter.grad().defined() ||
        (expected.grad().defined() && !same_numbers(expected.grad(), gathered(parameter.grad()))))
      return concat("the gradient of parameter ", i,
                    " is not that of one device that takes the ranks' microbatches");
    if (!same_numbers(expected, gathered(parameter)))
      return concat("parameter ", i, " is not that of one device that takes the ranks' microbatches");
  }
  return "";
}

}  // namespace lockstep::suites
