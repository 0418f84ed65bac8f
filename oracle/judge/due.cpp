// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/due.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/ragged.h"
#include "oracle/judge/licence.h"
#include "oracle/judge/rule_question.h"

namespace lockstep::oracle {
namespace {

constexpr size_t kMost = 4000;     // combinations
constexpr int64_t kFewFlags = 16;  // of so many it may be by chance that they are the same, or lie alike

class Search {
 public:
  Search(const RecordedOp& op, const Recording& recording, const std::vector<SpecPtr>& placed)
      : recording_(recording), shadow_(recording), q_{op, entry_, effects(op), {}, {}, {}, Lane::kExact} {
    inputs_.resize(op.inputs.size());
    outputs_.resize(q_.effects.size());
    for (size_t i = 0; i < placed.size(); ++i) inputs_[i].spec = placed[i];
    find_what_stays();
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].spec != nullptr && !stays_[i]) vary(inputs_[i], *inputs_[i].spec);
    moves_ = !varied_.empty();
    for (size_t k = 0; k < outputs_.size(); ++k) vary_output(k);
    find_items();
  }

  Due run() {
    if (pends_on_draws()) return {Due::Answer::kYes, ""};
    if (!is_asked(q_.op) || any_ == nullptr || too_many()) return {};
    if (!some_are_true()) return {Due::Answer::kYes, ""};
    const Due no{Due::Answer::kNo, text()};
    return by_chance() || of_averages() ? Due{} : no;
  }

 private:
  struct Varied {
    TensorRecord* record;
    std::vector<SpecPtr> candidates;
  };

  // What says nothing of the rest and is asked of by itself.
  struct Item {
    std::vector<TensorRecord*> records;
    std::vector<size_t> varied;
  };

  void find_what_stays() {
    stays_.assign(inputs_.size(), false);
    for (const Effect& e : q_.effects)
      if (e.input >= 0) stays_[as_size(e.input)] = true;
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (stays_[i] && inputs_[i].spec != nullptr) any_ = inputs_[i].spec;
  }

  // Item k of a list op is the k-th of each list; a single tensor beside longer lists is every item's. 0:
  // none.
  int64_t list_length() const {
    const auto& name = q_.op.op->name;
    if (!name.starts_with("aten::_foreach_") && !name.starts_with("aten::_fused_")) return 0;
    const auto& counts = q_.op.tensors_per_arg;
    const int64_t n = counts.empty() ? 0 : counts[0];
    return std::all_of(counts.begin(), counts.end(), [n](auto c) { return c == 0 || c == n; }) ? n : 0;
  }

  void find_items() {
    const int64_t n = list_length();
    std::vector<TensorRecord*> all;
    for (auto* records : {&inputs_, &outputs_})
      for (auto& record : *records) all.push_back(&record);
    const auto item_of = [&](const TensorRecord* record) {
      const bool read = record >= inputs_.data() && record < inputs_.data() + inputs_.size();
      const auto k = record - (read ? inputs_.data() : outputs_.data());
      const int64_t i = read ? k : q_.effects[as_size(k)].input;
      return n > 0 && i >= 0 ? i % n : 0;
    };
    items_.resize(as_size(std::max<int64_t>(n, 1)));
    for (auto* record : all) items_[as_size(item_of(record))].records.push_back(record);
    for (size_t v = 0; v < varied_.size(); ++v)
      items_[as_size(item_of(varied_[v].record))].varied.push_back(v);
    if (n > 0 || moves_ || varied_.size() < 2) return;
    // Where nothing may move, one result says nothing of another.
    const Item whole = items_[0];
    items_.clear();
    for (size_t v = 0; v < varied_.size(); ++v) {
      Item item{{}, {v}};
      for (auto* record : whole.records)
        if (record == varied_[v].record || !is_varied(record)) item.records.push_back(record);
      items_.push_back(std::move(item));
    }
  }
  bool is_varied(const TensorRecord* record) const {
    return std::any_of(varied_.begin(), varied_.end(), [&](auto& v) { return v.record == record; });
  }

  bool too_many() const {
    return std::any_of(items_.begin(), items_.end(), [&](const Item& item) {
      size_t combinations = 1;
      for (const size_t v : item.varied)
        if ((combinations *= varied_[v].candidates.size()) > kMost) return true;
      return false;
    });
  }

  bool some_are_true() {
    return std::all_of(items_.begin(), items_.end(), [&](const Item& item) { return is_true_of(item); });
  }
  bool is_true_of(const Item& item) {
    std::vector<std::pair<TensorRecord*, SpecPtr>> others;
    for (auto* records : {&inputs_, &outputs_})
      for (auto& record : *records)
        if (std::find(item.records.begin(), item.records.end(), &record) == item.records.end())
          others.emplace_back(&record, std::exchange(record.spec, nullptr));
    const bool found = try_from(item, 0);
    for (auto& [record, spec] : others) record->spec = std::move(spec);
    return found;
  }

  // Every rank draws the values of the whole, so that no terms of a sum or product come of a draw.
  bool pends_on_draws() const {
    if (!q_.op.op->random) return false;
    return std::any_of(q_.effects.begin(), q_.effects.end(), [&](const Effect& e) {
      if (e.input < 0 || !e.written || inputs_[as_size(e.input)].spec == nullptr) return false;
      const Spec& spec = *inputs_[as_size(e.input)].spec;
      for (int64_t d = 0; d < spec.mesh().ndim(); ++d) {
        const Placement& p = spec.placements()[as_size(d)];
        const bool pends = is_partial(p, ReduceOp::kSum) || is_partial(p, ReduceOp::kProduct);
        if (pends && spec.mesh().size(d) > 1) return e.window.numel() > 0;
      }
      return false;
    });
  }

  // Whether some rank has no more than one element.
  static bool holds_one(const TensorRecord& record) {
    if (record.spec == nullptr) return false;
    const SlicingPtr plan = slicing_of(*record.spec);
    return std::any_of(plan->shapes.begin(), plan->shapes.end(),
                       [](const auto& shape) { return c10::multiply_integers(shape) <= 1; });
  }

  // What was found is true because averages pend, and of no sum: a constant may be added to each term.
  bool of_averages() {
    auto inputs = inputs_, outputs = outputs_;
    bool any = false;
    for (auto* records : {&inputs, &outputs})
      for (auto& record : *records) {
        if (record.spec == nullptr) continue;
        auto placements = record.spec->placements();
        for (auto& p : placements)
          if (is_partial(p, ReduceOp::kAvg)) p = Partial{ReduceOp::kSum}, any = true;
        record.spec = std::make_shared<const Spec>(
            record.spec->with_placements(std::move(placements), record.spec->order()));
      }
    return any && !is_true(inputs, outputs);
  }

  // Whether all elements are one number, or NaN.
  static bool is_constant(const at::Tensor& t) {
    const at::Tensor numbers = t.masked_select(at::isnan(t).logical_not_());
    return t.numel() > 0 &&
           (numbers.numel() == 0 || same_bits(numbers, numbers[0].expand_as(numbers).contiguous()));
  }

  // Whether no number is another; a zero or a NaN may be.
  static bool same_numbers(const at::Tensor& a, const at::Tensor& b) {
    return a.sizes() == b.sizes() && same_value(a, b).all().item<bool>();
  }

  // Of few elements and of one rank much is true that no rule would say: all placements of them are one. And
  // what an op leaves as it was, or fills with one number, is so anywhere: a sum with 0, a triangle that is
  // everything or nothing.
  bool by_chance() const {
    for (const Effect& e : q_.effects) {
      if (e.window.defined() && e.window.numel() <= (e.window.dtype == at::kBool ? kFewFlags : 1))
        return true;
      if (e.input < 0) continue;
      const at::Tensor before = recording_.read(q_.op.inputs[as_size(e.input)]);
      if (!e.written && is_constant(before)) return true;
      if (!e.written) continue;
      const at::Tensor after = recording_.read(e.window);
      if (is_constant(after) || same_numbers(before, after)) return true;
    }
    if (steps_by_chance() || pieces_by_chance()) return true;
    if (std::any_of(outputs_.begin(), outputs_.end(), [](auto& o) { return holds_one(o); })) return true;
    if (std::any_of(outputs_.begin(), outputs_.end(), [](auto& o) { return nests(o); })) return true;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].spec == nullptr) continue;
      const Spec& spec = *inputs_[i].spec;
      if (!stays_[i] && !spec.all_replicate() && holds_one(inputs_[i])) return true;
      if (!stays_[i]) continue;
      if (has_ragged(spec.placements()) && (meets_one_row(spec) || is_thin(spec))) return true;
      for (int64_t d = 0; d < spec.mesh().ndim(); ++d)
        if (spec.mesh().size(d) == 1 && !is_replicate(spec.placements()[as_size(d)])) return true;
      if (holds_one(inputs_[i]) || nests(inputs_[i])) return true;
    }
    return false;
  }

  // Whether Shards leave no rank more than one of a dimension: its order in memory then says nothing.
  static bool is_thin(const Spec& spec) {
    std::vector<int64_t> parts(as_size(spec.ndim()), 1);
    for (int64_t d = 0; d < spec.mesh().ndim(); ++d) {
      const int64_t cut = shard_dim(spec.placements()[as_size(d)]);
      if (cut >= 0 && spec.shape()[as_size(cut)] <= (parts[as_size(cut)] *= spec.mesh().size(d))) return true;
    }
    return false;
  }

  // Of what is written and what it is written with, pieces of other lengths that happen to meet.
  bool pieces_by_chance() const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!stays_[i] || inputs_[i].spec == nullptr) continue;
      for (const TensorRecord& other : inputs_)
        for (int64_t d = 0; other.spec != nullptr && d < other.spec->mesh().ndim(); ++d) {
          const auto length = [d](const Spec& spec) {
            const int64_t cut = shard_dim(spec.placements()[as_size(d)]);
            return cut < 0 ? -1 : spec.shape()[as_size(cut)];
          };
          const int64_t mine = length(*inputs_[i].spec), its = length(*other.spec);
          if (mine >= 0 && its >= 0 && mine != its) return true;
        }
    }
    return false;
  }

  // Pieces that happen to begin where a step does, though they are not a whole number of steps each; and
  // every other element of a flat local, which is contiguous.
  bool steps_by_chance() const {
    if (q_.op.op->name != "aten::slice.Tensor" || q_.op.args.at(4).toInt() == 1 || inputs_[0].spec == nullptr)
      return false;
    if (has_ragged(inputs_[0].spec->placements())) return true;
    const SlicingPtr plan = slicing_of(*inputs_[0].spec);
    const bool even = std::all_of(plan->shapes.begin(), plan->shapes.end(),
                                  [&](const auto& shape) { return shape == plan->shapes[0]; });
    return !even || q_.effects.at(0).window.numel() * q_.op.args[4].toInt() != q_.op.inputs[0].numel();
  }

  // Where one mesh dimension leaves no rank more than one of a dimension, another goes on to cut what lies in
  // it; a rule is asked of one mesh dimension at a time.
  static bool nests(const TensorRecord& record) {
    if (record.spec == nullptr || !is_thin(*record.spec)) return false;
    const auto& placements = record.spec->placements();
    return std::count_if(placements.begin(), placements.end(), [](auto& p) { return !is_replicate(p); }) > 1;
  }

  // A flat local meets a tensor of another shape, or a view of its own, but only where no rank has more than
  // a row of it: then it lies as a local that is not flat.
  bool meets_one_row(const Spec& spec) const {
    const SlicingPtr plan = slicing_of(spec);
    const auto at_most = [&](int64_t row) {
      return std::all_of(plan->shapes.begin(), plan->shapes.end(),
                         [&](const auto& shape) { return c10::multiply_integers(shape) <= row; });
    };
    if (at_most(spec.numel() / std::max<int64_t>(spec.shape()[0], 1))) return true;
    return std::any_of(inputs_.begin(), inputs_.end(), [&](const TensorRecord& other) {
      return other.spec != nullptr && other.spec->shape() != spec.shape() &&
             at_most(c10::multiply_integers(other.spec->shape()));
    });
  }

  // What is written is placed as it was, unless it is another shape then.
  void vary_output(size_t k) {
    const Effect& e = q_.effects[k];
    if (!e.window.defined() || any_ == nullptr) return;
    const std::vector<int64_t> shape(e.window.shape.begin(), e.window.shape.end());
    const std::vector<int64_t> stride(e.window.stride.begin(), e.window.stride.end());
    const Spec& self =
        e.input >= 0 && inputs_[as_size(e.input)].spec ? *inputs_[as_size(e.input)].spec : *any_;
    if (e.written && self.shape() == shape)
      outputs_[k].spec = std::make_shared<const Spec>(self.with_tensor(shape, stride, e.window.dtype));
    else
      vary(outputs_[k], Spec(self.mesh(), Placements(as_size(self.mesh().ndim()), Replicate{}), shape, stride,
                             e.window.dtype));
  }

  static std::vector<int64_t> first_dims(int64_t n) {
    std::vector<int64_t> dims(as_size(n));
    std::iota(dims.begin(), dims.end(), 0);
    return dims;
  }

  // One tensor on one mesh dimension: whole, cut along any dimension, in the manner of what stays, in its
  // blocks of any leading dimensions, or pending as it does.
  Placements on(const Spec& spec, int64_t mesh_dim) const {
    const bool alone = spec.mesh().size(mesh_dim) == 1;
    Placements list{Replicate{}};
    for (int64_t k = 0; k < spec.ndim() && !alone; ++k) list.emplace_back(Shard{k});
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!stays_[i] || inputs_[i].spec == nullptr) continue;
      const Placement& p = inputs_[i].spec->placements()[as_size(mesh_dim)];
      if (is_partial(p)) list.push_back(p);
      if (const auto* ragged = std::get_if<RaggedShard>(&p); ragged != nullptr && !alone)
        for (int64_t k = 0; k <= spec.ndim(); ++k)
          list.emplace_back(RaggedShard{first_dims(k), ragged->units, ragged->lists});
      for (int64_t k = 0; is_scattered(p) && k < spec.ndim() && !alone; ++k) list.push_back(with_dim(p, k));
    }
    return list;
  }

  void vary(TensorRecord& record, const Spec& spec) {
    if (any_ == nullptr) return;  // nothing stays: not asked
    std::vector<Placements> all{{}};
    for (int64_t d = 0; d < spec.mesh().ndim(); ++d) {
      std::vector<Placements> longer;
      for (const auto& begun : all)
        for (const auto& p : on(spec, d)) {
          longer.push_back(begun);
          longer.back().push_back(p);
        }
      all = std::move(longer);
      if (all.size() > kMost) break;
    }
    Varied varied{&record, {}};
    for (auto& placements : all) {
      try {
        varied.candidates.push_back(
            std::make_shared<const Spec>(spec.with_placements(std::move(placements), any_->order())));
      } catch (const Error&) {  // no Spec of this tensor
      }
    }
    varied_.push_back(std::move(varied));
  }

  bool try_from(const Item& item, size_t begin) {
    if (begin == item.varied.size()) return is_true(inputs_, outputs_);
    const Varied& varied = varied_[item.varied[begin]];
    for (const auto& candidate : varied.candidates) {
      varied.record->spec = candidate;
      if (try_from(item, begin + 1)) return true;
    }
    return false;
  }

  bool is_true(const std::vector<TensorRecord>& inputs, const std::vector<TensorRecord>& outputs) {
    q_.inputs.clear(), q_.outputs.clear(), q_.renditions.clear();
    for (size_t i = 0; i < inputs.size(); ++i) {
      q_.inputs.push_back(inputs[i].spec != nullptr ? &inputs[i] : nullptr);
      q_.renditions.push_back(rendition(i, inputs[i].spec));
    }
    for (const auto& o : outputs) q_.outputs.push_back(o.spec != nullptr ? &o : nullptr);
    try {
      if (!unlicensed(q_, recording_).empty()) return false;
      ask_rule(q_, recording_, shadow_);
      return true;
    } catch (const Mismatched&) {
      return false;
    }
  }

  // Any terms will do: the question is asked of ordinary numbers.
  RenditionPtr rendition(size_t i, const SpecPtr& spec) const {
    const Window& window = q_.op.inputs[i];
    if (spec == nullptr || !spec->has_partial()) return Shadow::plain();
    const SlicingPtr plan = slicing_of(*spec);
    return shadow_.rendition(window, Tensors(as_size(plan->terms), recording_.read(window)), *plan);
  }

  static std::string text(const std::vector<TensorRecord>& records) {
    std::string result;
    for (const auto& r : records)
      if (r.spec != nullptr) result += concat(result.empty() ? "" : ", ", to_string(*r.spec));
    return result;
  }
  std::string text() const { return concat(text(inputs_), " -> ", text(outputs_)); }

  const Recording& recording_;
  Shadow shadow_;
  const TimelineEntry entry_{};
  OpInQuestion q_;
  std::vector<TensorRecord> inputs_, outputs_;  // of which the Specs alone are read
  std::vector<bool> stays_;
  SpecPtr any_;
  std::vector<Varied> varied_;
  std::vector<Item> items_;
  bool moves_ = false;  // some input is varied
};

}  // namespace

Due refusal_due(const RecordedOp& op, const Recording& recording, const std::vector<SpecPtr>& placed) {
  const at::NoGradGuard no_grad;
  const at::DisableRecordFunctionGuard unseen;
  const at::AutoDispatchBelowADInplaceOrView below;
  return Search(op, recording, placed).run();
}

}  // namespace lockstep::oracle
