// SPDX-License-Identifier: Apache-2.0
#include "suites/train/parts_judgement.h"

#include <ATen/ATen.h>

#include <cmath>

#include "engine/nn/deferred.h"
#include "engine/nn/init.h"
#include "engine/nn/layers.h"
#include "engine/optim/optimizer.h"
#include "engine/tensor/dtensor.h"
#include "engine/values/error.h"
#include "oracle/ownership/compare.h"
#include "oracle/ownership/ownership.h"
#include "oracle/random/random_simulation.h"
#include "oracle/reference/parts.h"
#include "oracle/reference/update.h"
#include "suites/core/engine_threw.h"

namespace lockstep::suites {
namespace {

using nn::Tensors;

// In the order of oracle::reference_inits().
constexpr at::Tensor& (*kInits[])(at::Tensor&) = {
    [](at::Tensor& w) -> at::Tensor& { return nn::kaiming_uniform_(w, 0.2); },
    [](at::Tensor& w) -> at::Tensor& { return nn::kaiming_normal_(w, 0.2); },
    [](at::Tensor& w) -> at::Tensor& { return nn::xavier_uniform_(w, 2); },
    [](at::Tensor& w) -> at::Tensor& { return nn::xavier_normal_(w, 2); },
    [](at::Tensor& w) -> at::Tensor& { return nn::orthogonal_(w, 1.5); },
    [](at::Tensor& w) -> at::Tensor& { return nn::trunc_normal_(w, 0.5, 2, -1, 3); },
    [](at::Tensor& w) -> at::Tensor& { return nn::trunc_normal_(w); },
};

constexpr optim::SgdOptions kRules[] = {
    {.lr = 0.1},
    {.lr = 0.1, .momentum = 0.9, .dampening = 0.5},
    {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
};

oracle::UpdateRule rule_of(const optim::SgdOptions& o) {
  return {.update = oracle::Update::kSgd,
          .lr = o.lr,
          .weight_decay = o.weight_decay,
          .momentum = o.momentum,
          .dampening = o.dampening,
          .nesterov = o.nesterov};
}
oracle::UpdateRule rule_of(const optim::AdamWOptions& o) {
  return {.lr = o.lr, .weight_decay = o.weight_decay, .beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps};
}

std::string name_of(const optim::SgdOptions& o) {
  return concat("SGD with momentum ", o.momentum, ", dampening ", o.dampening,
                o.nesterov ? ", nesterov" : "");
}
std::string name_of(const optim::AdamWOptions& o) {
  return concat("AdamW with weight decay ", o.weight_decay);
}

// The whole value, put together by the oracle.
at::Tensor whole(const at::Tensor& tensor) {
  return is_dtensor(tensor) ? oracle::assemble(local_tensors(tensor), spec(tensor)).global : tensor;
}

class Parts {
 public:
  explicit Parts(const TrainOptions& options)
      : options_(options),
        mesh_(init_device_mesh(options.mesh->shape(), options.mesh->names(), options.world)) {}

  FormulaJudgement judge() {
    for (size_t i = 0; i < std::size(kInits); ++i)
      for (const auto& shape : {Shape{5, 3}, Shape{3, 5}, Shape{4, 3, 2}}) compare_init(i, shape);
    for (const bool bias : {false, true}) compare_linear(bias);
    for (const auto& rule : kRules) compare_updates<optim::Sgd>(rule);
    for (const double decay : {0.0, 0.01})
      compare_updates<optim::AdamW>(optim::AdamWOptions{.lr = 0.1, .weight_decay = decay});
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf})
      for (const double limit : {0.5, 100.0}) compare_clipping(dtype, limit);
    return found_;
  }

 private:
  using Shape = std::vector<int64_t>;

  void differ(const std::string& question, const std::string& text) {
    if (found_.holds()) found_ = {question, text};
  }

  void compare_bits(const std::string& question, const std::string& what, const at::Tensor& expected,
                    const at::Tensor& mine) {
    const auto d = oracle::compare(expected, whole(mine.detach()));
    if (!d.equal()) differ(question, concat(what, ": ", oracle::describe(d, expected.scalar_type())));
  }

  void begin() const {
    manual_seed(options_.seed);
    generator().device = options_.device;
  }

  // Of one device: the simulation draws.
  template <class F>
  auto drawn(const F& f) {
    begin();
    const RandomScope scope(source_);
    return f();
  }

  Tensors normal(const std::vector<Shape>& shapes, int64_t number) {
    manual_seed(options_.seed + 1000 * static_cast<uint64_t>(number));
    generator().device = options_.device;
    const RandomScope scope(source_);
    Tensors tensors;
    for (const auto& shape : shapes) tensors.push_back(at::empty(shape).normal_());
    return tensors;
  }

  // Cut along one dimension or another, or not.
  Placements placements(size_t number) const {
    static const Placement kKinds[] = {Shard{0}, Replicate{}, Shard{1}};
    Placements all;
    for (int64_t d = 0; d < mesh_.mesh.ndim(); ++d)
      all.push_back(kKinds[(number + static_cast<size_t>(d)) % std::size(kKinds)]);
    return all;
  }

  Tensors placed(const Tensors& tensors) const {
    Tensors all;
    for (size_t i = 0; i < tensors.size(); ++i)
      all.push_back(distribute_tensor(tensors[i], mesh_, placements(i)));
    return all;
  }

  void compare_init(size_t number, const Shape& shape) {
    const auto& [name, reference] = oracle::reference_inits()[number];
    const auto expected = drawn([&, run = reference] {
      auto weight = at::empty(shape);
      run(weight);
      return weight;
    });
    const auto after = generator().state;
    const auto check = [&](const char* where, const at::Tensor& mine) {
      const auto what = concat(name, " of ", at::IntArrayRef(shape), where);
      compare_bits("first values", what, expected, mine);
      if (generator().state != after) differ("first values", what + ": the random stream ends elsewhere");
    };
    check(" on one device", drawn([&] {
            return in_engine([&] {
              auto weight = at::empty(shape);
              return kInits[number](weight);
            });
          }));
    begin();
    check(" on the mesh", in_engine([&] {
            auto weight = lockstep::zeros(shape, mesh_, placements(number));
            return kInits[number](weight);
          }));
  }

  void compare_linear(bool bias) {
    const auto reference = drawn([&] { return oracle::reference_linear(6, 5, bias); });
    const auto x = normal({{4, 6}}, 1)[0];
    const auto expected = at::linear(x, reference.weight, reference.bias);
    const auto make = [&] { return bias ? linear_of(6, 5) : linear_of(6, 5, false); };
    const auto check = [&](nn::Linear& linear, const at::Tensor& input) {
      const auto what = concat("a linear layer ", bias ? "with" : "without", " bias, ");
      compare_bits("layer", what + "weight", reference.weight, linear.parameter("weight"));
      if (bias) compare_bits("layer", what + "bias", reference.bias, linear.parameter("bias"));
      compare_bits("layer", what + "output", expected, in_engine([&] { return linear(input); }));
    };
    const auto plain = drawn([&] {
      return in_engine([&] {
        const auto linear = nn::deferred_init(make);
        nn::reset_parameters(*linear);
        return linear;
      });
    });
    check(*plain, x);
    const auto replicated = Placements(static_cast<size_t>(mesh_.mesh.ndim()), Replicate{});
    begin();
    const auto distributed = in_engine([&] {
      const auto linear = nn::deferred_init(make);
      nn::materialize(*linear, mesh_, {});
      return linear;
    });
    check(*distributed, distribute_tensor(x, mesh_, replicated));
    try {
      nn::deferred_init([&] { return plain; });
      differ("deferred", "a model that has memory is taken for a deferred one");
    } catch (const Error&) {  // as it must
    }
  }

  template <class... Args>
  static std::shared_ptr<nn::Linear> linear_of(Args... args) {
    return std::make_shared<nn::Linear>(args...);
  }

  // Several steps; in the second one parameter has no gradient.
  template <class Optimizer, class Options>
  void compare_updates(const Options& rule) {
    const std::vector<Shape> shapes = {{5, 3}, {3, 4}};
    const auto start = normal(shapes, 1);
    Tensors reference, plain, distributed;
    for (const auto& value : start) {
      reference.push_back(value.clone());
      plain.push_back(value.clone());
    }
    for (const auto& value : placed(start)) distributed.push_back(parameter(value));
    oracle::ReferenceOptimizer theirs(reference, rule_of(rule));
    Optimizer mine(plain, rule), on_mesh(distributed, rule);
    for (int64_t step = 1; step <= 3; ++step) {
      auto gradients = normal(shapes, 1 + step);
      const auto parts = placed(gradients);
      for (size_t i = 0; i < shapes.size(); ++i) {
        const bool has = step != 2 || i == 0;
        reference[i].mutable_grad() = has ? gradients[i].clone() : at::Tensor();
        plain[i].mutable_grad() = has ? gradients[i].clone() : at::Tensor();
        distributed[i].mutable_grad() = has ? parts[i] : at::Tensor();
      }
      theirs.step();
      in_engine([&] {
        mine.step();
        on_mesh.step();
      });
      const auto what = concat(name_of(rule), ", step ", step);
      for (size_t i = 0; i < shapes.size(); ++i) {
        compare_bits("update", what, reference[i], plain[i]);
        compare_bits("update", what + " on the mesh", reference[i], distributed[i]);
      }
    }
  }

  void compare_clipping(c10::ScalarType dtype, double limit) {
    Tensors before;
    for (const auto& gradient : normal({{5, 3}, {3, 4}}, 1)) before.push_back(gradient.to(dtype));
    double squares = 0, terms = 8;  // a few roundings beside those of the sum
    for (const auto& gradient : before) {
      squares += gradient.to(at::kDouble).square().sum().item<double>();
      terms += static_cast<double>(gradient.numel());
    }
    const double norm = std::sqrt(squares), scale = std::min(1.0, limit / (norm + 1e-6));
    for (const bool on_mesh : {false, true}) {
      auto gradients = on_mesh ? placed(before) : before;
      Tensors parameters;
      for (auto& gradient : gradients) {
        if (!on_mesh) gradient = gradient.clone();
        parameters.push_back(at::zeros_like(gradient));
        parameters.back().mutable_grad() = gradient;
      }
      const auto got = in_engine([&] { return optim::clip_grad_norm_(parameters, limit); });
      const auto what = concat("gradients of ", dtype_name(dtype), on_mesh ? " on the mesh" : "", ": ");
      if (got.scalar_type() != at::kFloat)
        differ("clipping", concat(what, "their norm is of ", dtype_name(got.scalar_type())));
      const double far = std::abs(whole(got).item<double>() - norm);
      if (!(far <= terms * 0x1p-24 * norm))
        differ("clipping", concat(what, "the norm is farther by ", far, " than ", norm));
      for (size_t i = 0; i < gradients.size(); ++i) {
        const auto expected = before[i].to(at::kDouble) * scale;
        const auto off = (whole(gradients[i]).to(at::kDouble) - expected).abs();
        if (!off.le(expected.abs() * rounding_of(dtype, terms)).all().item<bool>())
          differ("clipping", concat(what, "scaled otherwise than by ", scale));
      }
    }
  }

  // The product's own, and what the norm brings.
  static double rounding_of(c10::ScalarType dtype, double terms) {
    const double unit = dtype == at::kBFloat16 ? 0x1p-8 : dtype == at::kHalf ? 0x1p-11 : 0x1p-24;
    return unit + 2 * terms * 0x1p-24;
  }

  const TrainOptions& options_;
  const MeshInWorld mesh_;
  oracle::SimulatedSource source_;
  FormulaJudgement found_;
};

}  // namespace

FormulaJudgement judge_parts(const TrainOptions& options) {
  const ForkRng keep;
  return Parts(options).judge();
}

}  // namespace lockstep::suites
