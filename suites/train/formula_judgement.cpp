// SPDX-License-Identifier: Apache-2.0
#include "suites/train/formula_judgement.h"

#include <ATen/ATen.h>

#include <cmath>

#include "engine/stream/random_source.h"
#include "engine/values/error.h"
#include "oracle/ownership/compare.h"
#include "oracle/reference/model.h"
#include "oracle/reference/update.h"
#include "suites/core/engine_threw.h"
#include "suites/train/trainer.h"

namespace lockstep::suites {
namespace {

using nn::Named;
using nn::Tensors;

oracle::ModelSizes sizes_of(const ModelOptions& m) {
  return {m.hidden,    m.layers,   m.heads,   m.kv_heads, m.mlp,     m.vocabulary,
          m.rope_base, m.norm_eps, m.dropout, m.head,     m.experts, m.top_k};
}

oracle::UpdateRule rule_of(const TrainOptions& o) {
  return {.update = is_sgd(o.optimizer)                        ? oracle::Update::kSgd
                    : o.optimizer == OptimizerKind::kAdamW8bit ? oracle::Update::kAdamW8bit
                                                               : oracle::Update::kAdamW,
          .lr = o.lr,
          .weight_decay = o.weight_decay,
          .beta1 = 0.9,
          .beta2 = 0.95,
          .eps = 1e-8,
          .momentum = 0.9,
          .tile = o.block_size,
          .least = o.min_8bit_size};
}

oracle::UpdateRule muon_rule_of(const TrainOptions& o) {
  return {.update = oracle::Update::kMuon,
          .lr = o.lr,
          .weight_decay = o.weight_decay,
          .eps = 1e-7,
          .momentum = 0.95,
          .nesterov = true,
          .coefficients = {3.4445, -4.7750, 2.0315},
          .iterations = 5,
          .by_rms = true};
}

// Which matrices Muon steps, by the architecture: those within layers.
std::vector<std::unique_ptr<oracle::ReferenceOptimizer>> references(const TrainOptions& o,
                                                                    const Named<at::Tensor>& named,
                                                                    const Tensors& values) {
  std::vector<std::unique_ptr<oracle::ReferenceOptimizer>> all;
  Tensors by_muon, others;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool hidden = named[i].first.find("layers.") == 0 && values[i].dim() == 2;
    (hidden && o.optimizer == OptimizerKind::kMuon ? by_muon : others).push_back(values[i]);
  }
  all.push_back(std::make_unique<oracle::ReferenceOptimizer>(others, rule_of(o)));
  if (!by_muon.empty()) all.push_back(std::make_unique<oracle::ReferenceOptimizer>(by_muon, muon_rule_of(o)));
  return all;
}

Tensors values_of(const Named<at::Tensor>& named) {
  Tensors values;
  for (const auto& [name, value] : named) values.push_back(value.detach());
  return values;
}

Tensors gradients_of(const Tensors& parameters) {
  Tensors all;
  for (const auto& parameter : parameters) all.push_back(parameter.grad());
  return all;
}

double largest(const at::Tensor& tensor) {
  return tensor.numel() == 0 ? 0 : tensor.detach().abs().max().item<double>();
}

double largest(const Tensors& tensors) {
  double most = 0;
  for (const auto& tensor : tensors) most = std::max(most, largest(tensor));
  return most;
}

// How far n roundings of float64 take a sum of terms, relative to them (Higham 2002, section 3.1).
double gamma(double n) {
  constexpr double kUnit = 0x1p-53;
  return n * kUnit / (1 - n * kUnit);
}

// The roundings on the longest way from a parameter to the loss, and back to a gradient: as many as each dot
// product, sum and mean on it has terms, a few for each function. Backward, each product is differentiated by
// both its factors.
double roundings(const ModelOptions& m, int64_t sequence, int64_t tokens) {
  constexpr int64_t kFunctions =
      64;  // norms, rotation, softmax, gate, router, dropout, residual sums of a layer
  const int64_t attention =
      m.hidden + (m.head > 0 ? (m.heads + 1) * m.head : m.hidden + m.hidden / m.heads) + 2 * sequence;
  const int64_t layer = attention + 3 * m.hidden + m.mlp + m.experts + kFunctions;
  const int64_t forward = m.layers * layer + 2 * m.hidden + m.vocabulary + tokens + kFunctions;
  return static_cast<double>(3 * forward + tokens);
}

class Formulas {
 public:
  Formulas(const TrainOptions& options, std::string_view text)
      : options_(options),
        text_(text),
        model_(model_options(options)),
        subject_(options),
        reference_(sizes_of(model_), options.dtype),
        values_(values_of(reference_.parameters())) {}

  FormulaJudgement judge() {
    manual_seed(options_.seed);
    generator().device = options_.device;
    reference_.init();
    in_engine([&] { subject_.init(); });
    compare_names();
    compare_bits("first values", "");
    optimizers_ = references(options_, reference_.parameters(), values_);
    for (int64_t step = 1; step <= options_.steps && found_.holds(); ++step) compare_step(step);
    if (found_.holds() && is_wide())
      found_.text =
          concat("loss, gradients and update in float64: the farthest at ", farthest_, " of the bound");
    return found_;
  }

 private:
  bool is_wide() const { return options_.dtype == at::kDouble; }

  void differ(const std::string& question, const std::string& text) {
    if (found_.holds()) found_ = {question, concat(dtype_name(options_.dtype), ": ", text)};
  }

  void compare_names() {
    const auto mine = subject_.model().named_parameters();
    const auto& theirs = reference_.parameters();
    for (size_t i = 0; i < std::max(mine.size(), theirs.size()); ++i) {
      const auto described = [i](const Named<at::Tensor>& all) {
        return i < all.size() ? concat(all[i].first, " ", all[i].second.sizes()) : std::string("nothing");
      };
      if (described(mine) != described(theirs))
        return differ("parameters", concat("number ", i, " is ", described(mine), "; the architecture has ",
                                           described(theirs)));
    }
  }

  void compare_bits(const std::string& question, const std::string& when) {
    if (!found_.holds()) return;
    const auto mine = subject_.model().named_parameters();
    for (size_t i = 0; i < mine.size(); ++i) {
      const auto d = oracle::compare(values_[i], mine[i].second.detach());
      if (!d.equal())
        return differ(question, concat(when, mine[i].first, ": ", oracle::describe(d, options_.dtype)));
    }
  }

  // Each of the first within gamma(n) of the largest element of all of the second.
  void compare_near(const std::string& question, const std::string& when, const Tensors& mine,
                    const Tensors& theirs, double n, double least = 0) {
    const double bound = gamma(n) * std::max(largest(theirs), least);
    for (size_t i = 0; i < mine.size(); ++i) {
      if (!mine[i].defined() || !theirs[i].defined()) {
        if (mine[i].defined() != theirs[i].defined())
          differ(question, when + reference_.parameters()[i].first + ": there is none on one side");
        continue;
      }
      const double distance = largest(mine[i] - theirs[i]);
      if (bound > 0) farthest_ = std::max(farthest_, distance / bound);
      if (!(distance <= bound))
        differ(question,
               concat(when, mine.size() == 1 ? "" : reference_.parameters()[i].first + ": ", "farther by ",
                      distance, " than the formulas' answer, whose largest element is ", largest(theirs),
                      "; roundings reach ", bound));
    }
  }

  // The reference's are the subject's.
  void take_parameters() {
    const auto parameters = values_of(subject_.model().named_parameters());
    for (size_t i = 0; i < values_.size(); ++i) values_[i].copy_(parameters[i]);
  }

  void compare_step(int64_t step) {
    const auto when = concat("step ", step, ": ");
    take_parameters();
    const auto batch = subject_.batch(text_, step);
    const auto before = generator();
    const auto result = in_engine([&] { return subject_.step(batch); });
    if (is_wide()) compare_gradients(when, batch, before, result);
    compare_update(step, when);
    if (is_wide()) compare_evaluation(when, batch);
  }

  void compare_gradients(const std::string& when, const Batch& batch, const Generator& before,
                         const Trainer::Result& result) {
    const auto after = generator().state;
    generator() = before;
    Tensors leaves;
    for (const auto& [name, leaf] : reference_.parameters()) {
      leaf.mutable_grad() = at::Tensor();
      leaves.push_back(leaf);
    }
    const auto loss = reference_.loss(batch.tokens, batch.targets);
    loss.backward();
    const auto norm = oracle::clip_by_norm(leaves, options_.max_norm);
    if (generator().state != after)
      differ("random stream", concat(when, "it ends at offset ", after.offset, "; the model draws to ",
                                     generator().state.offset));
    const double n = roundings(model_, options_.sequence, batch.tokens.numel());
    compare_near("loss", when, {result.loss}, {loss.detach()}, n);
    compare_near("norm", when, {result.norm}, {norm}, n);
    compare_near("gradient", when, gradients_of(subject_.model().parameters()), gradients_of(leaves), n);
  }

  void compare_evaluation(const std::string& when, const Batch& batch) {
    const at::NoGradGuard no_grad;
    take_parameters();
    const auto before = generator().state;
    const auto loss = in_engine([&] { return subject_.evaluate(batch); });
    if (generator().state != before)
      differ("random stream",
             concat(when, "an evaluation draws from it, to offset ", generator().state.offset));
    compare_near("evaluation", when, {loss}, {reference_.evaluate(batch.tokens, batch.targets)},
                 roundings(model_, options_.sequence, batch.tokens.numel()));
  }

  // Of the subject's own gradients.
  void compare_update(int64_t step, const std::string& when) {
    const auto gradients = gradients_of(subject_.model().parameters());
    for (size_t i = 0; i < values_.size(); ++i)
      values_[i].mutable_grad() = gradients[i].defined() ? gradients[i].detach().clone() : at::Tensor();
    for (const auto& optimizer : optimizers_) optimizer->step();
    if (!is_fused(options_.optimizer)) return compare_bits("update", when);
    if (!is_wide()) return;
    // Some 32 for each step that the moments remember; an update is no larger than a few learning rates, of
    // SGD times the momentum, which is that of ten gradients.
    const double least = options_.lr * (is_sgd(options_.optimizer) ? 10 * largest(gradients) : 1);
    compare_near("update", when, values_of(subject_.model().named_parameters()), values_,
                 32 * static_cast<double>(step), least);
  }

  const TrainOptions& options_;
  std::string_view text_;
  ModelOptions model_;
  Trainer subject_;
  oracle::ReferenceModel reference_;
  Tensors values_;  // of the reference, without history: what its optimizer writes to
  std::vector<std::unique_ptr<oracle::ReferenceOptimizer>> optimizers_;
  FormulaJudgement found_;
  double farthest_ = 0;
};

}  // namespace

FormulaJudgement judge_formulas(const TrainOptions& options, std::string_view text) {
  const ForkRng keep;
  auto narrow = options;
  narrow.mesh.reset();
  narrow.precision = {};
  auto wide = narrow;
  wide.dtype = at::kDouble;
  if (narrow.dtype != at::kDouble)
    if (auto found = Formulas(narrow, text).judge(); !found.holds()) return found;
  return Formulas(wide, text).judge();
}

}  // namespace lockstep::suites
