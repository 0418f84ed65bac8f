// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/check.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <deque>
#include <unordered_set>

#include "engine/values/error.h"
#include "oracle/judge/ahead.h"
#include "oracle/judge/bound.h"
#include "oracle/judge/choices.h"
#include "oracle/judge/families.h"
#include "oracle/judge/forgiveness.h"
#include "oracle/judge/judge_op.h"
#include "oracle/judge/malformed.h"
#include "oracle/judge/matching.h"
#include "oracle/judge/places.h"
#include "oracle/judge/same_form.h"
#include "oracle/program/values.h"

namespace lockstep::oracle {
namespace {

class Checker {
 public:
  Checker(const Recording& recording, const Timeline& timeline, Lane numerics, Choices& choices)
      : recording_(recording),
        timeline_(in_one_form(timeline)),
        shadow_(recording),
        numerics_(numerics),
        choices_(choices) {}

  Judgement run(std::span<const Start> starts, std::span<const Final> finals) {
    try {
      const auto* mesh = mesh_of(starts, finals);
      next_ = find_malformed(timeline_, mesh);
      if (!at_end()) report_mismatch(Condition::kMalformed, malformed(entry(), mesh));
      next_ = 0;
      for (const Start& s : starts) start(s);
      for (const Final& f : finals)
        if (f.plain.defined()) places_.hand_in(recording_.window(f.plain), f.record.spec);
      for (size_t k = 0; k < ops_.size(); ++k) {
        cross_until(k);
        if (ops_[k] != nullptr) step(*ops_[k]);
      }
      cross_until(recording_.ops.size());
      finish_timeline();
      result_.equal = true;
      for (size_t i = 0; i < finals.size(); ++i) finish(finals[i], i);
      if (!result_.equal && result_.explained.empty())
        report_mismatch(Condition::kFinal, "a value is not the plain run's, and no op explains it");
    } catch (Mismatched& mismatched) {
      Mismatch& mismatch = result_.mismatch.emplace(std::move(mismatched.mismatch));
      mismatch.entry = next_;
      if (next_ < timeline_.size() && mismatch.op.empty()) mismatch.op = timeline_[next_].op;
      result_.equal = false;
    }
    return std::move(result_);
  }

 private:
  bool at_end() const { return next_ >= timeline_.size(); }
  const TimelineEntry& entry() const { return timeline_[next_]; }

  void start(const Start& s) {
    if (!s.plain.defined()) return;
    Window window = recording_.window(s.plain);
    window.epoch = 0;
    if (s.spec == nullptr) return set_outside(window, Shadow::plain());
    places_.begin(window, s.spec);
    shadow_.set(window, s.locals.empty() ? Shadow::plain() : begun_as(s, window, recording_, shadow_));
  }

  void move() {
    note(judge_redistribution(entry(), recording_, shadow_), entry().op);
    const auto by = entry().implicit ? Places::By::kEngine : Places::By::kProgram;
    for (const auto& sighting : shadow_.recognise(entry().outputs[0]))  // where one place is known, one more
      if (!places_.of(sighting.window).empty()) places_.add(sighting.window, entry().outputs[0].spec, by);
    ++result_.redistributions;
  }

  enum class StopAt { kNone, kUnknown, kAskedFor };  // a value yet to be made; also what was not inserted
  // Redistributions, and what else may stand in the timeline without an op of the plain run.
  void pass_moves(StopAt stop = StopAt::kNone) {
    for (; !at_end() && !is_awaited(entry()); ++next_) {
      if (entry().op == kRedistribute && entry().inputs.size() > 1) return;
      if (entry().op == kRedistribute && !is_vacuous(entry())) {
        if (stop == StopAt::kAskedFor && !entry().implicit) return;
        const auto& moved = entry().inputs.at(0);
        if (stop != StopAt::kNone && shadow_.recognise(moved).empty() && !shadow_.is_unset(moved)) return;
        move();
      } else if (const auto why = passed_over(entry())) {
        forgive(*why, entry().op);
      } else {
        return;
      }
    }
  }

  // ---- outside: plain tensors, which stock libtorch computes with on every rank, and no engine ----

  void set_outside(const Window& window, RenditionPtr rendition) {
    result_.outside.insert(window.id());
    shadow_.set_unseen(window, std::move(rendition));
  }

  void cross_until(size_t op) {
    for (; crossed_ < recording_.crossings.size() && recording_.crossings[crossed_].before <= op;
         ++crossed_) {
      const Crossing& c = recording_.crossings[crossed_];
      c.back ? come_back(c) : leave(c);
    }
  }

  // What came back is what the oracle's own plain values come to, on every rank.
  void come_back(const Crossing& c) {
    Tensors own;
    for (const Window& w : c.from) own.push_back(value_outside(w));
    const Window& to = c.to.at(0);
    const Tensors terms = c.values(own);
    const at::Tensor plain = recording_.read(to);
    const bool is_plain = !c.back->has_partial() && same_bits(terms.at(0), plain);
    shadow_.set_untold(to, is_plain ? Shadow::plain() : shadow_.rendition(to, terms, *slicing_of(*c.back)));
    places_.begin(to, c.back);
    if (!c.back->has_partial()) return;
    // The plain run's terms are its value and zeros, the engine's are others, which add up in another order.
    const at::Tensor sum = folded(to, *shadow_.only(to), shadow_);
    if (!same_bits(sum, plain)) note(explain(Why::kReductionOrder, sum, plain), "lockstep::from_local");
  }

  void leave(const Crossing& c) {
    for (const Window& to : c.to) set_outside(to, Shadow::plain());
    const bool told =
        std::any_of(c.from.begin(), c.from.end(), [&](const Window& w) { return !is_outside(w); });
    if (told) go_to(c.op);
    read(c, told);
    if (told) ++next_;
  }

  // @param told by the next entry
  void read(const Crossing& c, bool told) {
    const auto is_empty = [](const Window& w) { return w.numel() == 0; };
    if (std::all_of(c.to.begin(), c.to.end(), is_empty)) return;
    Tensors own;
    size_t next = 0;
    for (const Window& w : c.from) {
      const Tensors terms = is_outside(w) ? Tensors{value_outside(w)} : terms_read(w, next++, c.pends);
      own.insert(own.end(), terms.begin(), terms.end());
    }
    if (told && next != entry().inputs.size())
      report_mismatch(Condition::kSequence, "it reads ", entry().inputs.size(),
                      " tensors, and the plain run ", next);
    const Tensors values = c.values(own);
    for (size_t i = 0; i < c.to.size(); ++i)
      if (!same_bits(values[i], recording_.read(c.to[i])))
        set_outside(c.to[i], shadow_.rendition(c.to[i], {values[i]}, Slicing()));
  }

  // Whether it says what left, where that is still to come.
  bool is_awaited(const TimelineEntry& e) const {
    const auto& all = recording_.crossings;
    return e.outputs.empty() && std::any_of(all.begin() + static_cast<ptrdiff_t>(crossed_), all.end(),
                                            [&](const Crossing& c) { return !c.back && c.op == e.op; });
  }

  // The next entry that says so; what it passes makes no value that the plain run makes.
  void go_to(const std::string& read) {
    for (; !at_end() && entry().op != read; ++next_) {
      if (entry().op == kRedistribute && !is_vacuous(entry()))
        move();
      else if (const auto why = passed_over(entry()))
        forgive(*why, entry().op);
      else if (alone(entry().op))
        pass_copy();
      else
        break;
    }
    if (at_end() || entry().op != read)
      report_mismatch(Condition::kSequence, "the plain run reads a value on the host here, by ", read);
  }

  // @param pends how they lie; null: what is read is whole
  Tensors terms_read(const Window& window, size_t i, const SpecPtr& pends) {
    if (i >= entry().inputs.size()) report_mismatch(Condition::kSequence, "it does not say what it reads");
    const TensorRecord& record = entry().inputs[i];
    const bool lies_so = record.spec && (pends ? record.spec->placements() == pends->placements()
                                               : !record.spec->has_partial());
    const RenditionPtr found = lies_so ? shadow_.find(window, record) : nullptr;
    if (!found)
      report_mismatch_at(lies_so && !pends ? first_mismatch({recording_.read(window)}, record) : -1,
                         Condition::kClosed,
                         "what the host reads is not the value that the plain run reads here");
    return shadow_.terms(window, *found);
  }

  bool is_outside(const Window& w) const { return result_.outside.contains(w.id()); }
  at::Tensor value_outside(const Window& window) { return shadow_.terms(window, *shadow_.only(window))[0]; }

  // Of plain tensors alone, some of which the engine has had in its hands. What autograd made of nothing may
  // be a gradient of a DTensor all the same.
  bool is_outside(const RecordedOp& op) {
    bool any = false, constant = false;
    for (const Window& w : op.inputs) {
      if (!w.defined()) continue;
      if (is_outside(w))
        any = true;
      else if (constants_.contains(w.id()))
        constant = true;
      else
        return false;
    }
    const auto shown = [&](const auto& record) { return !record.spec || reads(op, record); };
    const bool is_next = any && constant && !at_end() && entry().op == op.op->name &&
                         std::ranges::all_of(entry().inputs, shown);
    return any && !(constant && (is_known_zero(op) || is_next));
  }

  // The oracle runs it on its own values, as every rank does.
  void step_outside(const RecordedOp& op) {
    bool is_plain = true;
    Tensors inputs;
    for (const Window& w : op.inputs) {
      is_plain = is_plain && (!w.defined() || shadow_.only(w)->plain());
      inputs.push_back(w.defined() ? value_outside(w) : at::Tensor());
    }
    const std::vector<Effect> made = effects(op);
    const Tensors values = is_plain ? Tensors() : apply(op, made, fresh_where_written(op, std::move(inputs)));
    for (size_t i = 0; i < made.size(); ++i) {
      const Effect& e = made[i];
      if (!e.window.defined()) continue;
      result_.outside.insert(e.window.id());
      if (e.input >= 0 && !e.written) continue;
      const RenditionPtr base = e.written ? shadow_.only(op.inputs[static_cast<size_t>(e.input)]) : nullptr;
      set_outside(e.window, is_plain ? Shadow::plain()
                                     : shadow_.rendition(e.window, {values[i]}, Slicing(), base.get()));
    }
  }

  // ---- inside ----

  bool reads(const RecordedOp& op, const TensorRecord& record) {
    return record.spec != nullptr && std::any_of(op.inputs.begin(), op.inputs.end(), [&](const Window& w) {
             return w.defined() && shadow_.find(w, record) != nullptr;
           });
  }

  void forgive(Forgiven kind, std::string_view op) { ++result_.forgiven[{kind, std::string(op)}]; }

  void note(const std::optional<Explanation>& why, const std::string& op) {
    if (why) result_.explained.push_back({why->why, next_, op, why->difference});
  }

  // The engine's entry is the one that the Program asked for here: a value of its own, which alone stands for
  // what is read of it. One that moves nothing has none.
  void step_redistribution(const RecordedOp& op) {
    const Window &from = op.inputs[0], &to = op.results[0];
    pass_moves(StopAt::kAskedFor);
    shadow_.copy(from, to);
    if (at_end() || entry().op != kRedistribute || entry().implicit || entry().outputs.size() != 1 ||
        !reads(op, entry().inputs.at(0)))
      return;
    const Spec& got = *entry().outputs[0].spec;
    if (got == got.with_placements(op.target->placements, op.target->order)) take_redistribution(op);
  }

  // Of passes, whose terms the engine has kept apart: in the order that its entry declares.
  void step_sum(const RecordedOp& op) {
    pass_alone();
    if (at_end() || entry().op != kRedistribute || entry().inputs.size() != op.inputs.size())
      report_mismatch(Condition::kSequence, "the plain run adds up the gradients of ", op.inputs.size(),
                      " passes here");
    take_redistribution(op);
  }

  void take_redistribution(const RecordedOp& op) {
    note(judge_redistribution(entry(), recording_, shadow_, &op), entry().op);
    places_.begin(op.results[0], entry().outputs[0].spec);
    ++result_.redistributions;
    ++next_;
  }

  // What a factory makes where the Program says is looked at when an op reads it, and at the end.
  void begin(const RecordedOp& op) {
    const Window& made = op.results.at(0);
    shadow_.set(made, leaves_unset(op.op->name) ? Shadow::unset() : Shadow::plain());
    places_.begin(made, op.placed);
  }

  void step(const RecordedOp& op) {
    if (op.target) return step_redistribution(op);
    if (op.sums_passes) return step_sum(op);
    if (op.placed) return begin(op);
    if (is_outside(op)) return step_outside(op);
    if (op.inputs.empty() && alone(op.op->name)) return skip(op);
    if (const auto made = effects(op); is_vacuous(made)) {
      const bool constant = op.inputs.empty() || reads_constants(op);
      forgive(Forgiven::kVacuous, op.op->name);
      for (const Effect& e : made) {
        if (e.written) shadow_.stay(op.inputs[static_cast<size_t>(e.input)], e.window);
        if (e.input >= 0) continue;
        shadow_.set(e.window, Shadow::plain());
        if (constant) constants_.insert(e.window.id());
      }
      return;
    }
    const bool constant = reads_constants(op) || (copied_by(op) != nullptr && op.op->name != kClone);
    if (constant && (op.op->name == kClone || !is_run(op))) return skip(op);
    const bool skippable = constant || alone(op.op->name);
    const StopAt stop = skippable ? StopAt::kUnknown : StopAt::kNone;
    pass_moves(stop);
    // What autograd copies for two leaves the engine may have moved to one or to each.
    if (!at_end() && may_be(op, entry()) && is_copied_on(op, entry(), ops_, places_) && choices_.next())
      return owed_ = next_, skip(op);
    while (!at_end() && alone(entry().op) && !is_out_of(op, entry()) && !may_be(op, entry())) {
      pass_copy();
      ++next_;
      pass_moves(stop);
    }
    if (!at_end() && entry().op == op.op->name) return judge(op);
    if (fills_nothing(op) || (!at_end() && is_out_of(op, entry())))
      return expand(Forgiven::kOut, op, as_functional(op, recording_));
    if (const auto kind = at_end() ? std::nullopt : composed(op, entry()))
      return expand(*kind, op, as_parts(op, recording_));
    if (skippable) return skip(op);
    report_mismatch(Condition::kSequence, "the plain run does ", op.op->name,
                    at_end() ? " next, and the engine nothing" : " here");
  }

  // Where a sum with zeros reads what a later op does too, the engine's entry may be of either.
  bool is_run(const RecordedOp& op) {
    const auto rest = std::span(timeline_).subspan(next_);
    return begins_with(rest, op, shadow_, is_plain_) && !(copied_by(op) != nullptr && choices_.next());
  }

  // The engine runs the op as these.
  void expand(Forgiven kind, const RecordedOp& op, std::vector<RecordedOp> parts) {
    forgive(kind, op.op->name);
    expanded_.push_back(std::move(parts));
    for (const RecordedOp& part : expanded_.back()) step(part);
  }

  // Of copies of the same value, the one of this op.
  bool may_be(const RecordedOp& op, const TimelineEntry& e) {
    if (e.op != op.op->name) return false;
    if (op.op->name != kClone || e.inputs.size() != 1 || e.outputs.size() != 1) return true;
    return reads(op, e.inputs[0]) &&
           !is_of_another(std::span(timeline_).subspan(next_), op.results.at(0), places_,
                          [&](const TensorRecord& record) { return reads(op, record); });
  }

  void judge(const RecordedOp& recorded) {
    const auto reread = as_read(recorded, std::span(timeline_).first(next_ + 1), shadow_);
    const RecordedOp& op = reread ? *reread : recorded;
    if (reread) forgive(Forgiven::kRead, op.op->name);
    OpInQuestion q{op, entry(), effects(op), {}, {}, {}, numerics_, reread.has_value()};
    for (const std::string& problem :
         {match_inputs(op, entry(), is_plain_, q.inputs), match_arguments(op, entry()),
          match_outputs(op, q.effects, entry(), q.outputs)})
      if (!problem.empty()) report_mismatch(Condition::kSequence, problem);
    if (const auto problem = match_offset(op, entry()); !problem.empty())
      report_mismatch(Condition::kOp, problem);
    for (size_t i = 0; i < op.inputs.size(); ++i) q.renditions.push_back(rendition_of(op, i, q.inputs[i]));
    ++result_.ops;
    for (const size_t i : op.written) constants_.erase(op.inputs[i].id());
    if (leaves_unset(op.op->name)) {
      for (const Effect& e : q.effects) shadow_.set(e.window, Shadow::unset());
    } else {
      check_stays(q, places_);
      note(judge_op(q, recording_, shadow_), entry().op);
    }
    ++next_;
  }

  RenditionPtr rendition_of(const RecordedOp& op, size_t i, const TensorRecord* record) {
    if (!op.inputs[i].defined()) return nullptr;
    if (record == nullptr) return is_outside(op.inputs[i]) ? shadow_.only(op.inputs[i]) : Shadow::plain();
    if (RenditionPtr found = shadow_.find(op.inputs[i], *record)) return found;
    const bool recognised = !shadow_.recognise(*record).empty();
    report_mismatch_at(first_mismatch({recording_.read(op.inputs[i])}, *record), Condition::kClosed, "input ",
                       i, ", placed as ", *record->spec,
                       ", is not the value that the plain run reads here: it is ",
                       recognised ? "another value of the Program, or an older state of this one"
                                  : "no value of the Program at all; it was changed or lost on the way");
  }

  // An op of the engine's alone: a copy has the renditions of its source.
  void pass_copy() {
    if (next_ == owed_) report_mismatch(Condition::kSequence, "no op of the plain run copies this");
    forgive(*alone(entry().op), entry().op);
    if (entry().op != kClone || entry().inputs.size() != 1 || entry().outputs.size() != 1) return;
    const TensorRecord &in = entry().inputs[0], &out = entry().outputs[0];
    for (const auto& sighting : shadow_.recognise(in)) {
      const int64_t position = first_mismatch(shadow_.terms(sighting.window, *sighting.rendition), out);
      if (position >= 0)
        report_mismatch(Condition::kOp, "a copy differs from its source at position ", position);
      shadow_.learn(sighting.window, sighting.rendition, out);
    }
  }

  // What comes of factories without tensor arguments, or is known to be zero, is plain on the engine too.
  bool reads_constants(const RecordedOp& op) const {
    bool any = false;
    for (const Window& w : op.inputs) {
      if (w.defined() && !constants_.contains(w.id())) return is_known_zero(op);
      any |= w.defined();
    }
    return any;
  }

  // An op of the plain run's alone.
  void skip(const RecordedOp& op) {
    forgive(alone(op.op->name).value_or(Forgiven::kFactory), op.op->name);
    if (op.inputs.empty() || reads_constants(op))
      for (const Window& w : op.results) {
        constants_.insert(w.id());
        shadow_.set(w, Shadow::plain());
      }
    if (leaves_unset(op.op->name)) {
      for (const Window& w : op.results) shadow_.set(w, Shadow::unset());
    } else if (const Window* copied = copied_by(op)) {
      shadow_.copy(*copied, op.results.at(0));
    }
  }

  void pass_alone() {
    for (pass_moves(); !at_end() && alone(entry().op); ++next_, pass_moves()) pass_copy();
  }

  void finish_timeline() {
    pass_alone();
    if (!at_end()) report_mismatch(Condition::kSequence, "the plain run has ended before this op");
  }

  void finish(const Final& f, size_t i) {
    const bool defined = f.record.spec != nullptr && !f.record.digests.empty();
    if (defined != f.plain.defined())
      report_mismatch(Condition::kFinal, "value ", i, defined ? " is defined" : " is undefined",
                      ", unlike the plain run's");
    if (result_.finals.emplace_back(); !defined) return;
    const Window window = recording_.window(f.plain);
    const auto rendition = shadow_.find(window, f.record);
    if (!rendition)
      report_mismatch_at(first_mismatch({recording_.read(window)}, f.record), Condition::kFinal, "value ", i,
                         ", placed as ", *f.record.spec, ", is not what the oracle's own values come to");
    auto places = places_.of(window, Places::By::kProgram);
    if (f.is_gradient || places.empty()) places = places_.of(window);
    if (window.numel() > 0 && !places.empty() && !lies_so(places, *f.record.spec))
      report_mismatch(Condition::kFinal, "value ", i, " is handed in as ", *f.record.spec,
                      ", where no op has put it, nor a move that counts; it was last ", *places.back());
    const at::Tensor plain = result_.finals.back() = recording_.read(window);
    if (rendition->plain() || same_bits(folded(window, *rendition, shadow_), plain)) return;
    result_.finals.back() = assembled(window, *rendition, *f.record.spec, shadow_);
    if (!same_bits(result_.finals.back(), plain)) result_.equal = false;
  }

  const Recording& recording_;
  std::deque<RecordedOp> made_;  // of ops_
  const std::vector<const RecordedOp*> ops_ = in_one_form(recording_.ops, made_);
  const Timeline timeline_;
  Shadow shadow_;
  const Lane numerics_;
  Choices& choices_;
  size_t next_ = 0, crossed_ = 0, owed_ = SIZE_MAX;  // entry; of the crossings; entry that a later op takes
  std::unordered_set<const c10::StorageImpl*> constants_;
  const IsPlain is_plain_ = [this](const Window& w) { return constants_.contains(w.id()) || is_outside(w); };
  Places places_;
  std::deque<std::vector<RecordedOp>> expanded_;  // keeps the memory of its values
  Judgement result_;
};

}  // namespace

Judgement check(const Recording& recording, const Timeline& timeline, std::span<const Start> starts,
                std::span<const Final> finals, Lane numerics) {
  const at::NoGradGuard no_grad;
  const at::DisableRecordFunctionGuard unseen;
  const at::AutoDispatchBelowADInplaceOrView below;
  constexpr int kMostWays = 16;
  Choices choices;
  auto judgement = Checker(recording, timeline, numerics, choices).run(starts, finals);
  for (int way = 1; !judgement.passed() && way < kMostWays && choices.go_on(); ++way)
    if (auto other = Checker(recording, timeline, numerics, choices).run(starts, finals); other.passed())
      return other;
  return judgement;
}

}  // namespace lockstep::oracle
