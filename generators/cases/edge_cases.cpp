// SPDX-License-Identifier: Apache-2.0
// Programs at the edge of their DTensors: full tensors with plain computation behind them, numbers that the
// host reads, plain tensors of one element as operands.
#include "generators/cases/blocks.h"
#include "generators/cases/edges.h"
#include "generators/cases/mesh_maps.h"
#include "generators/cases/programs.h"
#include "generators/cases/swarm.h"
#include "generators/ops/makers.h"
#include "oracle/program/options.h"
#include "oracle/program/statements.h"

namespace lockstep::generators {

Ref fresh_outside(Builder& b, Want want) {
  b.go_outside(true);
  const Ref made = b.fresh(want);
  b.go_outside(false);
  return made;
}

namespace {

// Plain tensors of one element, or numbers, meet a DTensor.
void meet(Builder& b, Ref plain) {
  const auto& op = template_of(
      b.random().pick({"aten::add.Tensor", "aten::sub.Tensor", "aten::le.Tensor", "aten::mul.Tensor",
                       b.settings().integer_lane ? "aten::mul.Tensor" : "aten::div.Tensor"}));
  const Ref x = b.operand({.dtypes = kNumbers});
  const bool first = b.random().chance(30);
  emit(b, op, {first ? plain : x, first ? x : plain}, {first ? plain : x, first ? x : plain});
}

// A value of one element, or of an operand's sum.
Ref one_element(Builder& b) {
  if (b.random().chance(50))
    return b.operand({.dtypes = kNumbers, .shape = b.random().chance(50) ? Shape{} : Shape{1}});
  const Ref x = b.operand({.dtypes = kWide | kI64});
  const auto& sum = template_of("aten::sum");
  return emit(b, sum, {x, None{}}, {x}, b.tensor(x).numel())
             ? b.results()[0]
             : b.fresh({.dtypes = kNumbers, .shape = Shape{}});
}

void read_number(Builder& b) {
  const Ref x = one_element(b);
  if (b.call(oracle::kItem.data(), {x}, {b.magnitude(x), {}}, false)) meet(b, b.results()[0]);
}

// The same; or its magnitudes, which lie as it does, and of which parts are the same; or others.
Ref compared_with(Builder& b, Ref x) {
  if (b.random().chance(60)) return b.redistribute(x);
  if (b.random().chance(50) && emit(b, template_of("aten::abs"), {x}, {x})) return b.results()[0];
  return b.operand({.dtypes = bit_of(b.dtype(x)), .shape = b.shape(x)});
}

void read_equal(Builder& b) {
  const Ref x = b.operand({.dtypes = kAllDtypes});
  const Ref y = compared_with(b, x);
  if (b.call(oracle::kEquality.data(), {x, y}, {}, false)) meet(b, b.results()[0]);
}

void meet_plain(Builder& b) {
  const auto shape = b.random().chance(70) ? Shape{} : Shape{1};
  meet(b, fresh_outside(b, {.dtypes = kNumbers, .shape = shape, .grad = false}));
}

void leave(Builder& b) {
  const Ref x = b.operand({.dtypes = kAllDtypes});
  if (!b.call(oracle::kFullTensor.data(), {x}, {b.magnitude(x), {}}, false)) return;
  b.go_outside(true);
  add_ops(b, b.random().between(1, 3), true);
  b.go_outside(false);
}

// An op on every rank's slices: of one tensor, of two cut alike, of one and a number that all ranks hold, or
// a sum of which each rank has a term.
void on_every_rank(Builder& b) {
  const Ref x = b.operand({.dtypes = kWide, .min_dims = 1});
  auto in = draw_target(b.random(), b.settings().mesh, b.shape(x), b.dtype(x),
                        b.settings().placements & ~(kPartials | kRagged));
  in.order.clear();
  const auto terms = pending_where_cut(in);
  const auto map = [&](const char* op, std::vector<Arg> args, const std::vector<Ref>& operands,
                       const std::vector<oracle::Target>& placed, const Shape& shape, int64_t count) {
    args.insert(args.begin(), std::string(op));
    args.insert(args.end(), placed.begin(), placed.end());
    args.emplace_back(shape);
    b.call(oracle::kLocalMap.data(), std::move(args), grown(b, template_of(op), operands, count));
  };
  const auto kind = b.random().below(4);
  if (kind == 0) return map("aten::neg", {x}, {x}, {in, in, in}, b.shape(x), 1);
  if (kind == 1) return map("aten::sum", {x, None{}}, {x}, {in, in, terms}, {}, b.tensor(x).numel());
  const bool number = kind == 2;
  const Ref y = b.operand({.dtypes = bit_of(b.dtype(x)), .shape = number ? Shape{1} : b.shape(x)});
  const auto whole = replicated(b.settings().mesh);
  map("aten::mul.Tensor", {x, y}, {x, y}, {in, in, number ? whole : in, number ? terms : in, in}, b.shape(x),
      1);
}

void on_meshes(Builder& b) {
  b.settings().mesh.ndim() > 1 ? map_on_meshes(b) : on_every_rank(b);
}

// A tensor of one number that is made where it is to lie, or memory that is filled there.
void make_constant(Builder& b) {
  auto& random = b.random();
  const auto dtype = random.pick(
      {c10::ScalarType::Float, c10::ScalarType::Double, c10::ScalarType::BFloat16, c10::ScalarType::Long});
  const Shape shape = b.shape(b.operand({.dtypes = kNumbers}));
  const auto kind = random.below(4);
  auto target = draw_target(random, b.settings().mesh, shape, dtype, b.settings().placements & ~kPartials);
  if (kind == 3) target.order.clear();  // another order is a move, of what nobody has written
  const Arg none = None{};
  const auto make = [&](const char* op, std::vector<Arg> args, double most) {
    args.insert(args.end(), {dtype, none, target, none});
    return b.call(op, std::move(args), {{most, 0}, {}}, false);
  };
  if (kind == 0) make("aten::zeros", {shape}, 1);
  if (kind == 1) make("aten::ones", {shape}, 1);
  if (kind == 2) make("aten::full", {shape, static_cast<double>(random.between(-3, 3))}, 3);
  if (kind == 3 && make("aten::empty.memory_format", {shape}, 3))
    b.call("aten::fill_.Scalar", {b.results()[0], random.between(-3, 3)}, {{3, 0}, {}}, false);
}

// Ops without a history, between those that have one.
void without_history(Builder& b) {
  if (!b.settings().backward || !b.call(oracle::kSetGradEnabled.data(), {false})) return;
  add_ops(b, b.random().between(1, 2), true);
  const auto made = b.results();
  b.call(oracle::kSetGradEnabled.data(), {true});
  if (made.empty() || !b.tensor(made[0]).defined() || (bit_of(b.dtype(made[0])) & kFloats) == 0) return;
  const Ref other = b.operand({.dtypes = bit_of(b.dtype(made[0])), .shape = b.shape(made[0])});
  emit(b, template_of("aten::mul.Tensor"), {made[0], other}, {made[0], other});
}

// A hook on some value that has a history; in the integer lane one that leaves magnitudes as they are.
void hook(Builder& b) {
  std::vector<Ref> tracked;
  for (int64_t i = 0; i < static_cast<int64_t>(b.size()); ++i)
    if (b.requires_grad(Ref{i})) tracked.push_back({i});
  if (tracked.empty()) return;
  const double by = b.settings().integer_lane ? -1.0 : b.random().pick({-1.0, 0.5, 3.0});
  b.call(oracle::kScaleGradient.data(), {b.random().pick(tracked), by});
}

// Once, twice into the inputs, or through the gradients themselves.
void go_back(Builder& b) {
  const auto kind = b.random().below(10);
  if (kind < 3) {
    if (b.backward({.op = oracle::kAccumulate.data()}))
      b.backward({.op = oracle::kAccumulate.data(), .again = true});
  } else if (kind < 5 && !b.settings().integer_lane) {
    if (b.backward({.graph = true})) b.backward({.again = true});
  } else {
    b.backward();
  }
}

// Several steps of a training: what the parameters have become goes forward, and back, and on.
oracle::Case training_case(Random random) {
  const auto settings = draw_settings(random, {.integer_lane = 0, .backward = 100});
  Builder b(random, settings);
  OptimizerState state;
  const auto step = b.random().pick({adam_step, fused_sgd_step, sgd_step});
  add_ops(b, b.random().between(1, 3), true);
  for (int64_t steps = b.random().between(2, 3); steps > 0 && !b.may_be_refused(); --steps) {
    const char* op = b.random().chance(30) ? oracle::kAccumulate.data() : oracle::kBackward.data();
    bool arrived = false;
    for (int tries = 0; tries < 3 && !arrived; ++tries) arrived = b.backward({.op = op, .again = true});
    if (!arrived || !step(b, state) || steps == 1) break;
    for (const auto& [leaf, gradient] : b.gradients()) {
      const auto& forward = template_of(b.random().pick({"aten::sin", "aten::square", "aten::neg"}));
      emit(b, forward, {leaf}, {leaf});
    }
    add_ops(b, b.random().below(3), true);
  }
  return finished(b, "edges");
}

}  // namespace

oracle::Case edge_case(Random random) {
  if (const Random own = random.split("train"); Random(own).chance(10)) return training_case(own);
  const bool whole = random.split("fallback").chance(15);  // ops without a rule among the others
  const auto settings = draw_settings(random, {.integer_lane = whole ? 0 : 35, .backward = 60});
  Builder b(random, settings);
  const auto add = [&b](int64_t ops) { add_ops(b, ops, true, /*plain=*/25); };
  add(b.random().between(1, 3));
  for (int64_t times = b.random().between(1, 2); times > 0; --times) {
    b.random().weighted<void (*)(Builder&)>({{6, leave},
                                             {2, read_number},
                                             {1, read_equal},
                                             {1, meet_plain},
                                             {3, without_history},
                                             {2, hook},
                                             {2, make_constant},
                                             {3, on_every_rank},
                                             {4, on_meshes},
                                             {1, join_locals},
                                             {1, map_terms},
                                             {1, write_locals},
                                             {2, let_mean_pend},
                                             {1, keep_order}})(b);
    if (whole) call_unruled(b);
    if (b.random().chance(40)) add(1);
  }
  if (settings.backward) go_back(b);
  auto made = finished(b, "edges");
  if (whole) oracle::allow_fallback(made);
  Random own = random.split("checkpoint");
  return own.chance(25) ? with_checkpoint(std::move(made), own) : made;
}

}  // namespace lockstep::generators
