// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <algorithm>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "oracle/judge/judge_op.h"
#include "oracle/ownership/reduce.h"

namespace lockstep::oracle {
namespace {

// Terms with their Partial mesh dimensions, as they are folded one after another.
struct Pending {
  std::vector<int64_t> dims;
  std::vector<ReduceOp> ops;
  std::vector<int64_t> sizes;
  Tensors terms;  // row-major over sizes

  size_t stride(size_t d) const {
    size_t n = 1;
    for (size_t i = d + 1; i < sizes.size(); ++i) n *= as_size(sizes[i]);
    return n;
  }
};

// Where the order's mesh dimensions stand among those that pend.
std::vector<int64_t> places_of(const ReductionOrder& order, const Pending& p) {
  std::vector<int64_t> places;
  for (const int64_t mesh_dim : order.mesh_dims) {
    const auto found = std::find(p.dims.begin(), p.dims.end(), mesh_dim);
    if (found == p.dims.end())
      report_mismatch(Condition::kOp, "its order reduces over mesh dimension ", mesh_dim,
                      ", where nothing pends");
    places.push_back(found - p.dims.begin());
  }
  return places;
}

// Numbers are reduced in a dtype that holds them all, and each term is divided, on its way to the root, by
// what the averages that pend divide by.
void check_node(const ReductionOrder::Node& node, c10::ScalarType dtype, double above, double wanted) {
  if (node.kind == ReductionOrder::Kind::kTerm) {
    if (above != wanted)
      report_mismatch(Condition::kOp, "its order divides a term by ", above,
                      " where what pends is divided by ", wanted);
    return;
  }
  if (c10::promoteTypes(node.dtype, dtype) != node.dtype ||
      c10::isFloatingType(node.dtype) != c10::isFloatingType(dtype))
    report_mismatch(Condition::kOp, "its order reduces ", dtype_name(dtype), " in ", dtype_name(node.dtype),
                    ", which does not hold every one of its numbers");
  for (const auto& child : node.children)
    check_node(child, dtype, above * static_cast<double>(node.divisor), wanted);
}

// Nothing of an order is believed: it reduces what pends, as it pends, each term of each pass once.
void check_order(const ReductionOrder& order, const std::vector<Pending>& passes) {
  const Pending& p = passes.front();
  if (order.mesh_dims.empty() && !order.empty())
    report_mismatch(Condition::kOp, "its order reduces over no mesh dimension");
  ReduceOp op = ReduceOp::kSum;
  int64_t ranks = 1;
  double divisor = 1;
  for (const int64_t d : places_of(order, p)) {
    ranks *= p.sizes[as_size(d)];
    if (p.ops[as_size(d)] == ReduceOp::kAvg)
      divisor *= static_cast<double>(p.sizes[as_size(d)]);
    else
      op = p.ops[as_size(d)];
  }
  try {
    validate(order, ranks, std::ssize(passes), p.terms.front().numel());
  } catch (const Error& e) {
    report_mismatch(Condition::kOp, "its order is malformed: ", e.what());
  }
  for (const auto& slice : order.slices) {
    if (slice.root.op != op)
      report_mismatch(Condition::kOp, "its order reduces by ", name(slice.root.op), " what pends as ",
                      name(op));
    check_node(slice.root, p.terms.front().scalar_type(), 1, divisor);
  }
}

// The terms of each group become one, of all passes. @param slice_of see reduce.h.
Pending fold_groups(const std::vector<Pending>& passes, const ReductionOrder& order,
                    const at::Tensor& slice_of) {
  Pending p = passes.front();
  if (order.empty()) return p;
  const auto places = places_of(order, p);
  Tensors folded;
  for (const auto& group : groups_along(places, p.sizes))
    folded.push_back(reduce(
        order, [&](int64_t rank, int64_t pass) { return passes[as_size(pass)].terms[group[as_size(rank)]]; },
        slice_of, p.terms.front().scalar_type()));
  p.terms = std::move(folded);
  for (auto d = places.rbegin(); d != places.rend(); ++d) {
    p.dims.erase(p.dims.begin() + *d);
    p.ops.erase(p.ops.begin() + *d);
    p.sizes.erase(p.sizes.begin() + *d);
  }
  return p;
}

// A value becomes terms: coordinate 0 keeps it and the others hold the identity; the kinds for which that is
// not the value (avg), or need not be (min, max), hold it everywhere.
void add_pending(Pending& p, size_t d, int64_t mesh_dim, ReduceOp op, int64_t n) {
  p.dims.insert(p.dims.begin() + static_cast<int64_t>(d), mesh_dim);
  p.ops.insert(p.ops.begin() + static_cast<int64_t>(d), op);
  p.sizes.insert(p.sizes.begin() + static_cast<int64_t>(d), n);
  const bool everywhere = op == ReduceOp::kAvg || op == ReduceOp::kMin || op == ReduceOp::kMax;
  const size_t stride = p.stride(d);
  Tensors spread;
  for (size_t outer = 0; outer < p.terms.size(); outer += stride) {
    for (int64_t c = 0; c < n; ++c) {
      for (size_t inner = 0; inner < stride; ++inner) {
        const at::Tensor& t = p.terms[outer + inner];
        spread.push_back(c == 0 || everywhere ? t : at::full_like(t, identity(op, t.scalar_type())));
      }
    }
  }
  p.terms = std::move(spread);
}

// What pends and is not folded must pend in the target; what pends there anew is made of the value.
void meet_target(Pending& p, const Spec& target) {
  const SlicingPtr plan = slicing_of(target);
  for (size_t d = 0; d < p.dims.size(); ++d) {
    const auto found = std::find(plan->partial_dims.begin(), plan->partial_dims.end(), p.dims[d]);
    if (found == plan->partial_dims.end() ||
        plan->ops[as_size(found - plan->partial_dims.begin())] != p.ops[d])
      report_mismatch(Condition::kOp, "a pending ", name(p.ops[d]), " over mesh dimension ", p.dims[d],
                      " is neither reduced by its order nor still pending");
  }
  for (size_t d = 0; d < plan->partial_dims.size(); ++d)
    if (d >= p.dims.size() || p.dims[d] != plan->partial_dims[d])
      add_pending(p, d, plan->partial_dims[d], plan->ops[d], plan->sizes[d]);
}

// An average of equal terms need not be the term: (v + v + v) / 3. Of other kinds it is.
bool averages_anew(const Rendition& before, const Rendition& after) {
  const auto averages = [](const Rendition& r) {
    return std::count(r.ops.begin(), r.ops.end(), ReduceOp::kAvg);
  };
  return averages(after) > averages(before);
}

RenditionPtr lent(const Rendition& rendition) {
  auto made = std::make_shared<Rendition>(rendition);
  made->lent = true;
  return made;
}

struct Moved {
  RenditionPtr rendition;
  std::optional<Explanation> explanation;
};

// Terms folded in another order, or a value that is made to pend, which need not come back in every bit:
// (v + v + v) / 3.
std::optional<Explanation> judge_fold(const Pending& before, const Pending& after) {
  const at::Tensor plain = fold_terms(before.terms, before.ops, before.sizes);
  const at::Tensor actual = fold_terms(after.terms, after.ops, after.sizes);
  if (same_bits(plain, actual)) return std::nullopt;
  return explain(Why::kReductionOrder, actual, plain);
}

struct Steps {
  Pending reduced;  // by the order
  Pending placed;   // as the target has it
};

void paste_terms(Pending& whole, const Pending& part, const Slicing& slices, int64_t position,
                 const at::Tensor& like) {
  if (whole.terms.empty()) {
    whole = {part.dims, part.ops, part.sizes, {}};
    for (size_t t = 0; t < part.terms.size(); ++t) whole.terms.push_back(at::empty_like(like));
  }
  for (size_t t = 0; t < part.terms.size(); ++t) paste(part.terms[t], slices, position, whole.terms[t]);
}

// Whole terms, or slice by slice: which of two NaNs survives may depend on where the vector body of a kernel
// ends, hence on the slices that the ranks fold.
Steps take_steps(const std::vector<Pending>& before, const TimelineEntry& entry, const Slicing* slices) {
  const at::Tensor& like = before.front().terms.front();
  const at::Tensor numbers = slice_numbers(entry.order, like.sizes());
  const auto run = [&](const std::vector<Pending>& passes, const at::Tensor& slice_of) {
    auto p = fold_groups(passes, entry.order, slice_of);
    Steps steps{p, std::move(p)};
    meet_target(steps.placed, *entry.outputs[0].spec);
    return steps;
  };
  if (slices == nullptr) return run(before, numbers);
  Steps whole;
  for (size_t i = 0; i < slices->shares.size(); ++i) {
    const auto position = static_cast<int64_t>(i);
    auto parts = before;
    for (Pending& part : parts)
      for (at::Tensor& t : part.terms) t = cut(t, *slices, position);
    const Steps steps = run(parts, numbers.defined() ? cut(numbers, *slices, position) : numbers);
    paste_terms(whole.reduced, steps.reduced, *slices, position, like);
    paste_terms(whole.placed, steps.placed, *slices, position, like);
  }
  return whole;
}

// Whole, or where that is not what the ranks have, slice by slice of what they have or had.
Steps steps_of(const std::vector<Pending>& before, const TimelineEntry& entry) {
  const TensorRecord& target = entry.outputs[0];
  Steps steps = take_steps(before, entry, nullptr);
  for (const Spec* spec : {target.spec.get(), entry.inputs[0].spec.get()})
    if (first_mismatch(steps.placed.terms, target) >= 0)
      steps = take_steps(before, entry, slicing_of(*spec).get());
  return steps;
}

Moved move(const Shadow::Sighting& from, const TimelineEntry& entry, const Recording& recording,
           const Shadow& shadow) {
  const TensorRecord& target = entry.outputs[0];
  const Rendition& r = *from.rendition;
  if (!r.pending() && !target.spec->has_partial()) {
    if (!entry.order.empty()) report_mismatch(Condition::kOp, "its order reduces where nothing pends");
    return {from.rendition, std::nullopt};
  }
  const std::vector<Pending> before = {{r.partial_dims, r.ops, r.sizes, shadow.terms(from.window, r)}};
  check_order(entry.order, before);
  const Steps steps = steps_of(before, entry);
  auto explanation = judge_fold(before.front(), steps.reduced);
  const Pending& after = steps.placed;
  if (!explanation) explanation = judge_fold(steps.reduced, after);
  // Nothing is to be explained of what has the plain run's bits.
  const bool is_plain = after.dims.empty() && same_bits(after.terms[0], recording.read(from.window));
  if (is_plain) explanation.reset();
  return {is_plain ? Shadow::plain() : shadow.rendition(from.window, after.terms, *slicing_of(*target.spec)),
          std::move(explanation)};
}

void report_other_bits(int64_t position, const TimelineEntry& entry) {
  report_mismatch_at(position, Condition::kOp, "the rank at position ", position,
                     " does not hold its part of ", *entry.outputs[0].spec, " of what was ",
                     *entry.inputs[0].spec, ", in the order that is declared",
                     entry.order.empty() ? "" : ": ", entry.order.empty() ? "" : to_string(entry.order));
}

// All terms of all passes pend alike, and nothing of their sum does.
std::optional<Explanation> judge_sum(const TimelineEntry& entry, const Recording& recording, Shadow& shadow,
                                     const RecordedOp& op) {
  const TensorRecord& out = entry.outputs[0];
  std::vector<Pending> passes;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const TensorRecord& in = entry.inputs[i];
    const auto found = in.spec == nullptr ? nullptr : shadow.find(op.inputs[i], in);
    if (found == nullptr || *in.spec != *entry.inputs[0].spec)
      report_mismatch(Condition::kClosed, "what it adds up of pass ", i,
                      " is not the gradient that the plain run has there");
    passes.push_back({found->partial_dims, found->ops, found->sizes, shadow.terms(op.inputs[i], *found)});
  }
  if (entry.order.empty() || out.spec->has_partial())
    report_mismatch(Condition::kOp, "it does not say in which order it adds up passes, or leaves some apart");
  check_order(entry.order, passes);
  const Steps steps = steps_of(passes, entry);
  const at::Tensor& sum = steps.placed.terms.at(0);
  if (const auto position = first_mismatch(steps.placed.terms, out); position >= 0)
    report_other_bits(position, entry);
  const Window& to = op.results[0];
  const at::Tensor plain = recording.read(to);
  const bool is_plain = same_bits(sum, plain);
  const RenditionPtr own =
      shadow.set(to, is_plain ? Shadow::plain() : shadow.rendition(to, {sum}, *slicing_of(*out.spec)));
  shadow.learn(to, own, out);
  if (is_plain) return std::nullopt;
  return explain(Why::kReductionOrder, sum, plain);
}

}  // namespace

std::optional<Explanation> judge_redistribution(const TimelineEntry& entry, const Recording& recording,
                                                Shadow& shadow, const RecordedOp* asked) {
  const bool sums = asked != nullptr && asked->sums_passes;
  if (entry.inputs.size() != (sums ? asked->inputs.size() : 1) || entry.outputs.size() != 1)
    report_mismatch(Condition::kSequence, "a redistribution has one input and one result");
  const TensorRecord &in = entry.inputs[0], &out = entry.outputs[0];
  if (in.spec == nullptr || out.spec == nullptr)
    report_mismatch(Condition::kClosed, "it moves an undefined tensor");
  if (sums) return judge_sum(entry, recording, shadow, *asked);
  std::vector<Shadow::Sighting> sightings;
  if (asked == nullptr)
    sightings = shadow.recognise(in);
  else
    sightings.push_back({asked->inputs[0], shadow.find(asked->inputs[0], in)});
  const bool known = !sightings.empty();
  if (asked == nullptr && !known && shadow.is_unset(in)) return std::nullopt;
  std::erase_if(sightings, [](const Shadow::Sighting& s) { return s.rendition->lent; });
  if (known && sightings.empty())
    report_mismatch(
        Condition::kClosed, "it moves on, from ", *in.spec,
        ", what the engine itself had made an average for one op: that need not be the value any more");
  if (sightings.empty())
    report_mismatch(Condition::kClosed, "it reads a value, placed as ", *in.spec,
                    ", that is neither an input of the Program nor the result of an earlier op");
  std::optional<Explanation> explanation;
  for (const auto& sighting : sightings) {
    Moved moved = move(sighting, entry, recording, shadow);
    const int64_t position = first_mismatch(shadow.terms(sighting.window, *moved.rendition), out);
    if (position >= 0) report_other_bits(position, entry);
    if (!explanation) explanation = std::move(moved.explanation);
    if (asked != nullptr) {
      const Window& to = asked->results[0];
      const RenditionPtr own = shadow.copy(sighting.window, to, moved.rendition);
      shadow.set(to, own);
      shadow.learn(to, own, out);
    } else {
      if (entry.implicit && averages_anew(*sighting.rendition, *moved.rendition))
        moved.rendition = lent(*moved.rendition);
      if (moved.rendition != sighting.rendition)
        moved.rendition = shadow.add(sighting.window, std::move(moved.rendition));
      shadow.learn(sighting.window, moved.rendition, out);
    }
  }
  return explanation;
}

}  // namespace lockstep::oracle
