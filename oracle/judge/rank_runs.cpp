// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/rank_runs.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/values/as_size.h"
#include "engine/values/ragged.h"
#include "oracle/judge/replay.h"

namespace lockstep::oracle {
namespace {

void place(const TensorRecord* record, std::vector<SpecPtr>& specs, std::vector<SlicingPtr>& plans) {
  specs.push_back(record != nullptr ? record->spec : nullptr);
  plans.push_back(record != nullptr ? slicing_of(*record->spec) : nullptr);
}

// What a rank holds fits into memory as far apart as it says, and is there when it is read: nothing that is
// declared of a layout is believed.
at::Tensor laid_out(const at::Tensor& term, const Slicing& plan, int64_t position, at::IntArrayRef stride,
                    size_t input) {
  const auto& shape = plan.shapes[as_size(position)];
  const at::Tensor dense = cut(term, plan, position);
  const auto most = static_cast<int64_t>(term.storage().nbytes() / term.element_size());
  int64_t reach = 1;
  bool fits = stride.size() == shape.size();
  for (size_t d = 0; fits && d < shape.size(); ++d) {
    fits = stride[d] >= 0 && (shape[d] <= 1 || stride[d] <= most);
    if (fits && shape[d] > 1) reach += (shape[d] - 1) * stride[d];
  }
  fits = fits && (dense.numel() == 0 || reach <= most);
  const at::Tensor local = fits ? cut(term, plan, position, stride) : at::Tensor();
  if (!fits || !same_bits(local, dense))
    report_mismatch_at(position, Condition::kOp, "input ", input, " cannot lie in memory with strides ",
                       stride, ", as it says: its slice has the shape ", at::IntArrayRef(shape));
  return local;
}

}  // namespace

RankRuns::RankRuns(const OpInQuestion& q, std::vector<Tensors> terms, at::Tensor mask)
    : q_(q), terms_(std::move(terms)), mask_(std::move(mask)) {
  for (const TensorRecord* record : q.inputs) place(record, input_specs_, input_plans_);
  for (const TensorRecord* record : q.outputs) place(record, output_specs_, output_plans_);
  for (const auto& specs : {output_specs_, input_specs_})
    for (const SpecPtr& spec : specs)
      if (spec != nullptr) positions_ = spec->mesh().size();
}

RankRuns RankRuns::in_float64(const OpInQuestion& q, std::vector<Tensors> terms, at::Tensor mask) {
  RankRuns runs(q, std::move(terms), std::move(mask));
  runs.float64_ = true;
  return runs;
}

int64_t RankRuns::twin(int64_t position) const {
  const auto same = [&](int64_t p) {
    for (size_t i = 0; i < input_plans_.size(); ++i) {
      const auto& plan = input_plans_[i];
      if (plan &&
          (plan->first[as_size(p)] != plan->first[as_size(position)] || stride(i, p) != stride(i, position)))
        return false;
    }
    return std::all_of(output_plans_.begin(), output_plans_.end(), [&](const SlicingPtr& plan) {
      return !plan || (plan->shapes[as_size(p)] == plan->shapes[as_size(position)] &&
                       (!exchanges() || plan->first[as_size(p)] == plan->first[as_size(position)]));
    });
  };
  for (int64_t p = 0; p < position; ++p)
    if (same(p)) return p;
  return -1;
}

bool RankRuns::makes_nothing(int64_t position) const {
  return std::all_of(output_plans_.begin(), output_plans_.end(), [&](const SlicingPtr& plan) {
    return !plan || c10::multiply_integers(plan->shapes[as_size(position)]) == 0;
  });
}

size_t RankRuns::same_input(size_t i) const {
  for (size_t k = 0; k < i; ++k)
    if (q_.op.inputs[i].defined() && q_.op.inputs[k] == q_.op.inputs[i] &&
        q_.renditions[k] == q_.renditions[i] && input_plans_[k] == input_plans_[i])
      return k;
  return i;
}

std::optional<at::IntArrayRef> RankRuns::stride(size_t i, int64_t position) const {
  const auto& all = q_.inputs[i]->strides;
  if (float64_ || all.empty() || all.at(as_size(position)).empty()) return std::nullopt;
  return all[as_size(position)];
}

at::Tensor RankRuns::part(size_t i, int64_t position) const {
  const Slicing& plan = *input_plans_[i];
  const at::Tensor& term = terms_[i][as_size(plan.term[as_size(position)])];
  const auto own = stride(i, position);
  return own ? laid_out(term, plan, position, *own, i) : cut(term, plan, position);
}

bool RankRuns::flat_view() const {
  if (!flat_view_) {
    const SpecPtr& output = output_specs_.at(0);
    flat_view_ = output && has_ragged(output->placements()) && keeps_order(q_.op, q_.effects);
  }
  return *flat_view_;
}

bool RankRuns::exchanges() const {
  const auto cuts_rows = [](const SpecPtr& spec) {
    const auto last = spec->ndim() - 1;
    const auto& placements = spec->placements();
    return std::any_of(placements.begin(), placements.end(), [&](const Placement& p) {
      return lockstep::is_ragged(p) || (lockstep::is_shard(p) && lockstep::shard_dim(p) != last);
    });
  };
  return q_.op.op->name == "experts::permute_rows" && terms_[0].size() == 1 &&
         (cuts_rows(input_specs_[0]) || cuts_rows(output_specs_[0]));
}

Tensors RankRuns::run(int64_t position) const {
  Tensors inputs;
  if (exchanges()) {
    for (const Tensors& terms : terms_) inputs.push_back(terms.at(0));
    const auto whole = float64_ ? apply_f64(q_.op, q_.effects, inputs) : apply(q_.op, q_.effects, inputs);
    return {cut(whole.at(0), *output_plans_.at(0), position)};
  }
  for (size_t i = 0; i < terms_.size(); ++i) {
    if (const size_t same = same_input(i); same < i) {
      inputs.push_back(inputs[same]);
    } else if (terms_[i].empty()) {
      inputs.emplace_back();
    } else {
      inputs.push_back(input_plans_[i] ? part(i, position) : terms_[i][0].clone());
      if (q_.op.inputs[i].number && !float64_) inputs.back().unsafeGetTensorImpl()->set_wrapped_number(true);
    }
  }
  if (mask_.defined()) inputs.push_back(cut(mask_, *output_plans_.at(1), position));
  try {
    return apply_local(q_.op, q_.effects, std::move(inputs),
                       {input_specs_, output_specs_, position, float64_, flat_view()});
  } catch (const std::exception& e) {
    const auto* c10 = dynamic_cast<const c10::Error*>(&e);
    report_mismatch_at(position, Condition::kRule, "the op is refused on the slices that it says it ran on: ",
                       c10 != nullptr ? c10->what_without_backtrace() : e.what());
  }
}

}  // namespace lockstep::oracle
