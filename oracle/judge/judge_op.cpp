// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/judge_op.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>

#include <cstring>

#include "engine/values/as_size.h"
#include "engine/values/digest.h"
#include "engine/values/error.h"
#include "oracle/judge/bound.h"
#include "oracle/judge/families.h"
#include "oracle/judge/licence.h"
#include "oracle/judge/places.h"
#include "oracle/judge/rank_runs.h"
#include "oracle/judge/rule_question.h"
#include "oracle/ownership/dtypes.h"
#include "oracle/ownership/reduce.h"
#include "oracle/ownership/share.h"

namespace lockstep::oracle {
namespace {

bool pending(const TensorRecord* record) {
  return record != nullptr && record->spec->has_partial();
}

bool draws_mask(const Operator& op) {
  return op.name == "aten::native_dropout";
}
bool draws_values(const Operator& op) {
  return op.random && !draws_mask(op);
}

// rrelu in evaluation draws no noise and reads none: what it is given stays, be it memory without values.
bool leaves(const RecordedOp& op, const Effect& e) {
  if (!op.op->name.starts_with("aten::rrelu_with_noise") || e.input != 1) return false;
  const auto& args = op.op->args;
  for (size_t a = 0; a < args.size(); ++a)
    if (args[a].name == "training") return !op.args[a].toBool();
  return false;
}

// CUDA's kernel of an index_put that accumulates rounds to 16 bits after each of the terms of an element or
// once, by how much an index takes.
bool rounds_by_index_on_cuda(const RecordedOp& op) {
  const auto key = family_key(op.op->name);
  return op.device.is_cuda() && (key == "index_put" || key == "_index_put_impl") && op.args.at(3).toBool() &&
         at::isReducedFloatingType(op.inputs.at(0).dtype);
}

// ---- results that alias an input ----

void judge_view(const OpInQuestion& q, size_t i, const Shadow& shadow) {
  const Effect& e = q.effects[i];
  const RenditionPtr& r = q.renditions[as_size(e.input)];
  if (r->unset) return;
  const SlicingPtr plan = slicing_of(*q.outputs[i]->spec);
  const bool same_terms = plan->partial_dims == r->partial_dims && plan->ops == r->ops;
  const int64_t position = same_terms ? first_mismatch(shadow.terms(e.window, *r), *q.outputs[i]) : 0;
  if (position < 0) return;
  report_mismatch_at(position, Condition::kOp, "result ", i, ", a view placed as ", *q.outputs[i]->spec,
                     ", is not the view of what it reads");
}

// ---- the whole op on whole values ----

// Every result is the plain run's own: nothing to compute.
bool matches_plain(const OpInQuestion& q, const Recording& recording, const std::vector<size_t>& values) {
  for (const size_t i : values) {
    if (q.outputs[i] == nullptr) continue;
    if (pending(q.outputs[i]) || first_mismatch({recording.read(q.effects[i].window)}, *q.outputs[i]) >= 0)
      return false;
  }
  return true;
}

bool reads_plain_values(const OpInQuestion& q) {
  if (q.reread) return false;
  for (size_t i = 0; i < q.renditions.size(); ++i)
    if (q.renditions[i] && (!q.renditions[i]->plain() || pending(q.inputs[i]))) return false;
  return true;
}

// native_dropout is replayed with the plain run's mask in the place after its input.
Tensors with_mask(const OpInQuestion& q, const Recording& recording, Tensors inputs) {
  if (draws_mask(*q.op.op)) inputs.push_back(recording.read(q.op.results.at(1)));
  return inputs;
}

Tensors whole_inputs(const OpInQuestion& q, const Recording& recording, const Shadow& shadow) {
  Tensors inputs;
  for (size_t i = 0; i < q.op.inputs.size(); ++i)
    inputs.push_back(q.op.inputs[i].defined() ? folded(q.op.inputs[i], *q.renditions[i], shadow)
                                              : at::Tensor());
  return with_mask(q, recording, fresh_where_written(q.op, std::move(inputs)));
}

RenditionPtr own_or_plain(const OpInQuestion& q, size_t i, const Tensors& terms, const Slicing& signature,
                          const Recording& recording, const Shadow& shadow) {
  const Effect& e = q.effects[i];
  const bool one = terms.size() == 1 && signature.partial_dims.empty();
  const RenditionPtr base = e.input >= 0 ? q.renditions[as_size(e.input)] : nullptr;
  const bool beside = base != nullptr && !base->plain() && e.written;
  if (one && !beside && same_bits(terms[0], recording.read(e.window))) return Shadow::plain();
  return shadow.rendition(e.window, terms, signature, base.get());
}

void learn(const OpInQuestion& q, size_t i, RenditionPtr rendition, Shadow& shadow) {
  const auto stands = shadow.set(q.effects[i].window, std::move(rendition));
  if (q.outputs[i] != nullptr) shadow.learn(q.effects[i].window, stands, *q.outputs[i]);
}

// ---- the op on every rank's slices ----

Tensors empty_terms(const Window& window, int64_t count) {
  Tensors terms;
  for (int64_t t = 0; t < count; ++t)
    terms.push_back(at::empty_strided(window.shape, window.stride, at::TensorOptions(window.dtype)));
  return terms;
}

void check_bits(const OpInQuestion& q, size_t i, int64_t position, const at::Tensor& own,
                const Slicing& plan) {
  const TensorRecord& record = *q.outputs[i];
  const Digest& engine = record.digests.at(as_size(position));
  const bool replicas_agree = engine == record.digests[as_size(plan.first[as_size(position)])];
  if (replicas_agree && own.sizes() == at::IntArrayRef(plan.shapes[as_size(position)]) &&
      digest(own) == engine)
    return;
  if (replicas_agree)
    report_mismatch_at(position, Condition::kOp, "result ", i, " of the rank at position ", position,
                       ", placed as ", *record.spec,
                       ", is neither its part of the plain answer nor the op on its own slices");
  report_mismatch_at(position, Condition::kOp, "the replicas of result ", i, " at positions ",
                     plan.first[as_size(position)], " and ", position, " differ, placed as ", *record.spec);
}

// The terms of each effect in `wanted`, as the oracle's own slices give them, which are the engine's.
std::vector<Tensors> replay_all(const OpInQuestion& q, const std::vector<size_t>& wanted,
                                const Recording& recording, const Shadow& shadow) {
  std::vector<Tensors> inputs;
  for (size_t i = 0; i < q.op.inputs.size(); ++i)
    inputs.push_back(q.renditions[i] ? shadow.terms(q.op.inputs[i], *q.renditions[i]) : Tensors());
  const RankRuns runs(q, std::move(inputs),
                      q.op.op->random ? recording.read(q.op.results.at(1)) : at::Tensor());
  std::vector<Tensors> terms(q.effects.size());
  for (const size_t i : wanted) terms[i] = empty_terms(q.effects[i].window, runs.output(i).terms);
  std::vector<Tensors> results(as_size(runs.positions()));
  for (int64_t p = 0; p < runs.positions(); ++p) {
    const int64_t twin = runs.twin(p);
    results[as_size(p)] = twin >= 0 ? results[as_size(twin)] : runs.run(p);
    for (const size_t i : wanted) {
      const Slicing& plan = runs.output(i);
      check_bits(q, i, p, results[as_size(p)].at(i), plan);
      if (plan.first[as_size(p)] == p)
        paste(results[as_size(p)][i], plan, p, terms[i][as_size(plan.term[as_size(p)])]);
    }
  }
  return terms;
}

// ---- what differs from the plain answer ----

// The inputs of an elementwise op with `copies` of what meets in one element of the result, of stretched
// inputs with one if they are to be stretched again; single numbers stay.
Tensors copies_of_element(const Tensors& inputs, at::IntArrayRef shape, int64_t element, int64_t copies,
                          bool stretch) {
  Tensors result;
  for (const at::Tensor& t : inputs) {
    const bool meets = t.defined() && t.dim() > 0 && at::is_expandable_to(t.sizes(), shape);
    const bool one = stretch && meets && t.numel() < c10::multiply_integers(shape);
    result.push_back(meets         ? t.expand(shape).flatten()[element].expand({one ? 1 : copies}).clone()
                     : t.defined() ? t.clone()
                                   : t);
  }
  return result;
}

// Where `actual` is not `plain`, but what the stock kernel gives for such an element alone, in its scalar
// tail, or among its like: in its vector body, or in a tail that the compiler has made vectors of.
at::Tensor follows_a_path(const OpInQuestion& q, size_t i, const at::Tensor& actual, const at::Tensor& plain,
                          const Tensors& inputs) {
  constexpr int64_t kTail = 13, kBody = 64;  // fewer elements than the body takes at once, and more
  const at::Tensor follows = at::zeros({actual.numel()}, at::kBool);
  const at::Tensor mine = actual.flatten(), its = plain.flatten();
  for (int64_t e = 0; e < follows.numel(); ++e) {
    if (same_bits(mine.narrow(0, e, 1), its.narrow(0, e, 1))) continue;
    const auto one = mine.narrow(0, e, 1);
    const auto gives = [&](int64_t copies, bool stretch) {
      const auto all =
          apply(q.op, q.effects, copies_of_element(inputs, actual.sizes(), e, copies, stretch)).at(i);
      bool any = false;
      for (int64_t k = 0; k < copies; ++k) any = any || same_bits(all.narrow(0, k, 1), one);
      return any;
    };
    bool found = gives(1, false);
    for (const int64_t copies : {kTail, kBody})
      for (const bool stretch : {false, true}) found = found || gives(copies, stretch);
    follows[e].fill_(found);
  }
  return follows.reshape(actual.sizes());
}

// Of an op through which nothing pends: the stock kernel may round otherwise on a slice, and the table says
// so.
void check_local_kernel(const OpInQuestion& q, size_t i, const at::Tensor& actual, const Tensors& whole,
                        const Recording& recording, const Shadow& shadow) {
  const OpFamily* family = find_family(q.op.op->name);
  const bool fast = q.numerics == Lane::kFast;
  const bool listed = family != nullptr && !family->local_kernel.empty() && (fast || !family->fast_lane);
  if (listed && family->bound != Bound::kTwoPaths) return;
  if (rounds_by_index_on_cuda(q.op)) return;
  at::Tensor allowed = same_value(actual, whole[i]);
  // The exact lane has no vector bodies.
  if (listed || (fast && is_pointwise(*q.op.op)))
    allowed =
        at::logical_or(allowed, follows_a_path(q, i, actual, whole[i], whole_inputs(q, recording, shadow)));
  if (allowed.all().item<bool>()) return;
  const auto element = at::logical_not(allowed).flatten().nonzero()[0].item<int64_t>();
  const auto number = [&](const at::Tensor& t) {
    return t.flatten()[element].to(at::kDouble).item<double>();
  };
  throw Mismatched{
      {.text = concat("result ", i, ", placed as ", *q.outputs[i]->spec,
                      ", is not the plain answer, and nothing says that the op may round otherwise "
                      "on a slice"),
       .index = unravel(element, actual.sizes()),
       .actual = number(actual),
       .expected = number(whole[i])}};
}

bool anything_pends(const OpInQuestion& q) {
  return std::any_of(q.inputs.begin(), q.inputs.end(), pending) ||
         std::any_of(q.outputs.begin(), q.outputs.end(), pending);
}

// What the engine's terms come to is the plain answer `whole` in bits, or another order gave it.
std::optional<Explanation> judge_terms(const OpInQuestion& q, const std::vector<size_t>& wanted,
                                       const std::vector<Tensors>& terms, const Tensors& whole,
                                       const Recording& recording, const Shadow& shadow) {
  std::optional<Explanation> explanation;
  for (const size_t i : wanted) {
    const SlicingPtr plan = slicing_of(*q.outputs[i]->spec);
    const at::Tensor actual = fold_terms(terms[i], plan->ops, plan->sizes);
    if (same_bits(actual, whole[i])) continue;
    if (!whole[i].is_floating_point())
      report_mismatch(Condition::kOp, "result ", i, ", placed as ", *q.outputs[i]->spec,
                      ", is not the plain answer, and ", dtype_name(whole[i].scalar_type()),
                      " does not round");
    if (!anything_pends(q)) check_local_kernel(q, i, terms[i][0], whole, recording, shadow);
    const auto mine = explain(anything_pends(q) ? Why::kReductionOrder : Why::kLocalKernel, actual, whole[i]);
    if (!explanation || mine.why == Why::kOverflow) explanation = mine;
    explanation->difference = std::max(explanation->difference, mine.difference);
  }
  return explanation;
}

}  // namespace

at::Tensor same_value(const at::Tensor& a, const at::Tensor& b) {
  return at::logical_or(at::eq(a, b), at::logical_and(at::isnan(a), at::isnan(b)));
}

Explanation explain(Why why, const at::Tensor& actual, const at::Tensor& plain) {
  const at::Tensor a = actual.to(at::kDouble), b = plain.to(at::kDouble);
  const at::Tensor finite = at::logical_and(at::isfinite(a), at::isfinite(b));
  const at::Tensor left = at::logical_not(at::logical_or(finite, same_value(a, b)));
  const at::Tensor far = at::where(finite, at::sub(a, b).abs(), at::zeros({}, at::kDouble));
  return {left.any().item<bool>() ? Why::kOverflow : why, 0, "",
          far.numel() > 0 ? far.max().item<double>() : 0};
}

Tensors fresh_where_written(const RecordedOp& op, Tensors inputs) {
  for (const size_t w : op.written) {
    const c10::Storage old = inputs[w].storage();
    const at::Tensor bytes = at::detail::empty_cpu({static_cast<int64_t>(old.nbytes())}, at::kByte);
    if (old.nbytes() > 0) std::memcpy(bytes.mutable_data_ptr(), old.data(), old.nbytes());
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].defined() && inputs[i].storage().is_alias_of(old))
        inputs[i] = tensor_in(bytes.storage(), window_of(inputs[i]));
  }
  return inputs;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

// Whether each element has memory of its own, and perhaps there are gaps.
static bool lies_apart(const Window& window) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // strides and sizes
  for (size_t d = 0; d < window.shape.size(); ++d)
    if (window.shape[d] > 1) dims.emplace_back(window.stride[d], window.shape[d]);
  std::sort(dims.begin(), dims.end());
  int64_t extent = 1;
  for (const auto& [stride, size] : dims) {
    if (stride < extent) return false;
    extent = stride * size;
  }
  return true;
}

// As the window lies: a sum goes through memory as its input does. Where elements share memory each may have
// its own.
at::Tensor folded(const Window& window, const Rendition& rendition, const Shadow& shadow) {
  const auto value = fold_terms(shadow.terms(window, rendition), rendition.ops, rendition.sizes);
  if (value.strides() == at::IntArrayRef(window.stride) || !lies_apart(window)) return value;
  return at::empty_strided(window.shape, window.stride, value.options()).copy_(value);
}

at::Tensor assembled(const Window& window, const Rendition& rendition, const Spec& spec,
                     const Shadow& shadow) {
  const Tensors terms = shadow.terms(window, rendition);
  if (!rendition.pending()) return terms[0];
  const SlicingPtr plan = slicing_of(spec);
  Tensors locals;
  for (size_t p = 0; p < plan->term.size(); ++p)
    locals.push_back(cut(terms[as_size(plan->term[p])], *plan, static_cast<int64_t>(p)));
  return assemble(locals, spec).global;
}

bool are_near(const at::Tensor& a, const at::Tensor& b, c10::ScalarType dtype, double terms) {
  if (!c10::isFloatingType(dtype) || !a.is_floating_point()) return at::equal(a, b);
  const double units = 4 * 2 * std::max(unit_roundoff(dtype), unit_roundoff(a.scalar_type())) +
                       2 * terms * unit_roundoff(dtype);
  // Below the normal numbers a unit has one size.
  const double least =
      with_float(a.scalar_type(), []<class T>() -> double { return std::numeric_limits<T>::denorm_min(); });
  const double fixed = terms == 0 ? 0 : units / unit_roundoff(dtype) * least;
  return at::allclose(a.to(at::kDouble), b.to(at::kDouble), units, fixed, /*equal_nan=*/true);
}

// What is replayed must not stand in for the plain run, as the formula of a dropout, or a ZeroTensor read as
// zeros: on the same values it gives the same bits. Another NaN may survive where the vector body of a kernel
// ends elsewhere.
static std::optional<Explanation> check_replay(const OpInQuestion& q, const Tensors& whole,
                                               const std::vector<size_t>& values,
                                               const Recording& recording) {
  std::optional<Explanation> explanation;
  for (const size_t i : values) {
    const at::Tensor given = recording.read(q.effects[i].window);
    if (same_bits(whole[i], given)) continue;
    const at::Tensor alike = at::logical_and(at::isnan(whole[i]), at::isnan(given));
    if (q.op.op->random || !same_bits(at::where(alike, 0, whole[i]), at::where(alike, 0, given)))
      report_mismatch(Condition::kOp, "result ", i, " is not what the single device ",
                      q.op.op->random ? "draws" : "gives, though it reads the same");
    explanation = explain(Why::kLocalKernel, whole[i], given);
  }
  return explanation;
}

// What another op gave by loops of its own: an out, by where it lies in memory; a norm, by the order of its
// sum.
static std::optional<Explanation> check_loop(const OpInQuestion& q, const Recording& recording) {
  Tensors recorded;
  for (const Window& w : q.op.inputs) recorded.push_back(recording.read(w));
  const auto dtype = recorded.back().scalar_type();
  const at::Tensor given = recording.read(q.effects.at(0).window);
  const at::Tensor mine = apply(q.op, q.effects, fresh_where_written(q.op, std::move(recorded))).at(0);
  if (same_bits(mine, given)) return std::nullopt;
  if (!are_near(mine, given, dtype, *q.op.terms_of_loop))
    report_mismatch(Condition::kOp,
                    "the result of the op of which this is the last part is not what its parts give");
  return explain(Why::kLocalKernel, mine, given);
}

// What is drawn by parameters that a reduction gave, or is multiplied with them, is what the single device
// draws by the same.
static void judge_draw(const OpInQuestion& q, const std::vector<size_t>& values, const Tensors& whole,
                       const Recording& recording, Shadow& shadow) {
  for (const size_t i : values) {
    const TensorRecord* record = q.outputs[i];
    if (record != nullptr && (pending(record) || first_mismatch({whole[i]}, *record) >= 0))
      report_mismatch(Condition::kOp, "what it drew is not what the single device draws");
    learn(q, i, own_or_plain(q, i, {whole[i]}, Slicing(), recording, shadow), shadow);
  }
}

std::optional<Explanation> judge_op(const OpInQuestion& q, const Recording& recording, Shadow& shadow) {
  std::vector<size_t> values;  // effects that are no views
  for (size_t i = 0; i < q.effects.size(); ++i) {
    const Effect& e = q.effects[i];
    if (!e.window.defined()) continue;
    if (leaves(q.op, e)) {
      shadow.stay(q.op.inputs[1], e.window);
    } else if (e.input < 0 || e.written) {
      values.push_back(i);
    } else if (q.outputs[i] != nullptr) {
      judge_view(q, i, shadow);
      shadow.learn(e.window, q.renditions[as_size(e.input)], *q.outputs[i]);
    }
  }
  if (const auto problem = unlicensed(q, recording); !problem.empty())
    report_mismatch(Condition::kRule, problem);
  ask_rule(q, recording, shadow);
  const bool drawn = draws_values(*q.op.op);
  if ((drawn || reads_plain_values(q)) && matches_plain(q, recording, values)) {
    for (const size_t i : values)
      learn(q, i, own_or_plain(q, i, {recording.read(q.effects[i].window)}, Slicing(), recording, shadow),
            shadow);
    return std::nullopt;
  }
  const auto inputs = whole_inputs(q, recording, shadow);
  if (drawn) {
    judge_draw(q, values, draw_again(q.op, q.effects, inputs), recording, shadow);
    return std::nullopt;
  }
  const Tensors whole = apply(q.op, q.effects, inputs);
  std::optional<Explanation> explanation;
  if (q.op.terms_of_loop)
    explanation = check_loop(q, recording);
  else if (reads_plain_values(q))
    explanation = check_replay(q, whole, values, recording);
  std::vector<size_t> wanted;
  for (const size_t i : values) {
    const TensorRecord* record = q.outputs[i];
    if (record != nullptr && (pending(record) || first_mismatch({whole[i]}, *record) >= 0)) {
      wanted.push_back(i);
    } else {
      learn(q, i, own_or_plain(q, i, {whole[i]}, Slicing(), recording, shadow), shadow);
    }
  }
  if (wanted.empty()) return explanation;
  const std::vector<Tensors> terms = replay_all(q, wanted, recording, shadow);
  if (auto mine = judge_terms(q, wanted, terms, whole, recording, shadow)) explanation = std::move(mine);
  for (const size_t i : wanted)
    learn(q, i, own_or_plain(q, i, terms[i], *slicing_of(*q.outputs[i]->spec), recording, shadow), shadow);
  return explanation;
}

void check_stays(const OpInQuestion& q, Places& all) {
  for (const Effect& e : q.effects) {
    if (!e.written && !returns_view(q.op, e)) continue;
    if (q.op.inner || e.input < 0 || q.inputs[static_cast<size_t>(e.input)] == nullptr) continue;
    const Window& from = q.op.inputs[static_cast<size_t>(e.input)];
    if (from.numel() == 0) continue;
    const Spec& now = *q.inputs[static_cast<size_t>(e.input)]->spec;
    const auto places = all.of(from, Places::By::kProgram);
    if (places.empty()) all.add(from, q.inputs[static_cast<size_t>(e.input)]->spec);  // an inner op's
    if (places.empty() || lies_so(places, now)) continue;
    report_mismatch(Condition::kRule, "it moved what it ", e.written ? "writes to" : "views", ", from ",
                    *places.back(), " to ", now, ": it ought to be refused");
  }
  for (size_t k = 0; k < q.effects.size(); ++k)
    if (q.outputs[k] != nullptr && !q.op.in_backward) all.add(q.effects[k].window, q.outputs[k]->spec);
}

}  // namespace lockstep::oracle
