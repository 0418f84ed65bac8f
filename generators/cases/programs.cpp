// SPDX-License-Identifier: Apache-2.0
#include "generators/cases/programs.h"

#include <algorithm>

#include "engine/values/error.h"
#include "generators/cases/swarm.h"
#include "generators/ops/makers.h"
#include "generators/program/trial.h"
#include "generators/space/meshes.h"
#include "oracle/program/schema.h"

namespace lockstep::generators {
namespace {

using oracle::Arg;
using oracle::Case;
using oracle::Ref;

}  // namespace

Case finished(Builder& b, const char* suite) {
  auto& random = b.random();
  const auto seed = static_cast<uint64_t>(random.below(100000));
  return b.finish(suite, seed, draw_device(random));
}

const OpTemplate* draw_op(Builder& b, bool before_backward) {
  struct Ops {
    std::vector<const OpTemplate*> often, seldom;
  };
  std::array<Ops, std::popcount(kAllFamilies)> by_family;
  std::vector<size_t> present;
  for (const auto& op : op_templates()) {
    if (!op.allowed(b.settings(), before_backward)) continue;
    if (b.is_outside() && op.family == kRandomOps) continue;  // nobody draws for plain tensors
    const auto family = static_cast<size_t>(std::countr_zero(static_cast<uint32_t>(op.family)));
    auto& [often, seldom] = by_family[family];
    if (often.empty() && seldom.empty()) present.push_back(family);
    (op.is_seldom() ? seldom : often).push_back(&op);
  }
  if (present.empty()) return nullptr;
  const auto& [often, seldom] = by_family[b.random().pick(present)];
  const bool other = often.empty() || (!seldom.empty() && b.random().chance(20));
  return b.random().pick(other ? seldom : often);
}

namespace {

void after_backward(Builder& b) {
  if (b.settings().integer_lane) return;
  if (b.random().chance(15)) clip_gradients(b);
  OptimizerState state;
  if (b.random().chance(25)) {
    adam_step(b, state);
  } else if (b.random().chance(33)) {
    b.random().chance(60) ? sgd_step(b, state) : fused_sgd_step(b, state);
  }
}

// The ops one after another, views, whose rules have the most rows, several times; after each round some of
// their other overloads, in turns.
struct Rounds {
  std::vector<const OpTemplate*> often, seldom;

  size_t seldom_in_round() const { return often.size() / 3; }
  size_t size() const { return often.size() + seldom_in_round(); }
  const OpTemplate& operator[](uint64_t index) const {
    const auto round = index / size(), at = index % size();
    if (at < often.size()) return *often[at];
    return *seldom[(round * seldom_in_round() + at - often.size()) % seldom.size()];
  }
};

Rounds rounds_of(uint32_t traits) {
  Rounds rounds;
  for (const auto& op : op_templates())
    if ((op.traits & traits) == traits) {
      auto& list = op.is_seldom() ? rounds.seldom : rounds.often;
      list.insert(list.end(), op.family == kViews ? 3 : 1, &op);
    }
  return rounds;
}

const OpTemplate& op_number(uint64_t index) {
  static const auto rounds = rounds_of(kPlain);
  return rounds[index];
}

// The index-th differentiable op.
const OpTemplate& differentiable_op(uint64_t index) {
  static const auto rounds = rounds_of(kDiff);
  return rounds[index];
}

// Ops that make one number of many.
bool sums_many(const OpTemplate& op) {
  return (op.family & (kReductions | kMatmul | kNeural)) != 0;
}

// So many that a half type rounds each of them away, were they added up in it.
void many_terms(Random& random, Settings& settings) {
  settings.terms = random.between(1000, 10000);
  settings.max_numel = 4 * settings.terms;
  settings.dtypes = kBF16 | kF16;
}

// @param profile of which the integer lane is drawn where the op is exact
Case op_case_in(Profile profile, Random random, const OpTemplate& op) {
  const bool backward = profile.backward > 0;
  if (op.grow == Grow::kInexact || (backward && !(op.traits & kExactBackward))) profile.integer_lane = 0;
  // A try that libtorch or the bound refuses is rare; the next one is drawn afresh.
  for (uint64_t attempt = 0;; ++attempt) {
    Random own = random.split(attempt);
    auto settings = draw_settings(own, profile);
    settings.families = kAllFamilies;
    if (own.chance(30)) settings.cut = own.below(3);
    if (sums_many(op) && !settings.integer_lane && own.chance(3)) many_terms(own, settings);
    Builder b(own, settings);
    Builder::Backward how;
    if (backward && op.in_place()) {
      // An op on a leaf's copy, since leaves themselves cannot be written, or on another view of its memory.
      const bool viewed = b.random().chance(25);
      const auto n = b.random().between(2, 2 * settings.mesh.size());
      const Ref leaf = b.fresh({.dtypes = op.dtypes & kFloats,
                                .shape = viewed ? std::optional(Shape{n, n}) : std::nullopt,
                                .min_dims = 1,
                                .least = 1});
      b.call("aten::clone", {leaf}, {b.magnitude(leaf), {}}, false);
      if (viewed && !b.results().empty()) {
        const Ref copy = b.boxed(b.results()[0]);
        emit(b, template_of("aten::t"), {copy}, {copy});
        // What arrives lies across what is written through.
        if (b.random().chance(60))
          how.seeds = {placed_along(settings.mesh, b.random().below(settings.mesh.ndim()),
                                    b.random().pick<Placement>({Shard{0}, Shard{1}, Partial{}}))};
      }
    }
    bool made = op.make(b, op);
    // A gradient that is known to be zero meets another one, which is new or what the pass began with.
    if (made && backward && op.op == std::string_view("aten::sgn")) {
      const Ref x = std::get<Ref>(b.last().call.args[0]), sign = b.results()[0];
      if (emit(b, template_of(b.random().pick({"aten::neg", "aten::alias"})), {x}, {x}))
        emit(b, template_of("aten::add.Tensor"), {sign, b.results()[0]}, {sign, b.results()[0]});
    }
    made = made && (!backward || b.may_be_refused() || b.backward(how));
    if (made || attempt == 19) return finished(b, backward ? "gradient" : "ops");
  }
}

}  // namespace

void add_ops(Builder& b, int64_t count, bool before_backward, int64_t plain) {
  const auto enough = b.calls() + static_cast<size_t>(count);
  for (int64_t tries = 0; b.calls() < enough && tries < 3 * count && !b.may_be_refused(); ++tries) {
    if (b.size() > 0 && b.random().chance(12)) {
      const Ref ref{b.random().below(std::ssize(b))};
      if (b.tensor(ref).defined()) b.redistribute(ref);
      continue;
    }
    const auto* op = draw_op(b, before_backward);
    if (op == nullptr) continue;
    // Nobody draws for plain tensors, and none stands in a list of DTensors.
    const bool meets = op->family != kRandomOps && !std::string_view(op->op).starts_with("aten::_foreach_");
    b.meet_plain(meets ? plain : 0);
    op->make(b, *op);
    b.meet_plain(0);
  }
  // What the draws leave out is caught here: no case is empty.
  if (b.calls() == 0) b.redistribute(b.operand({.dtypes = kNumbers}));
}

Case op_case(Random random, const OpTemplate& op, bool backward) {
  return op_case_in({.integer_lane = 40,
                     .backward = backward ? 100 : 0,
                     .max_numel = 240,
                     .varied = 40,
                     .outs = backward ? 0 : 12,
                     .refused = 12},
                    random, op);
}

Case exact_op_case(Random random, const OpTemplate& op) {
  // The op itself, and not refused: its rows are asked of.
  return op_case_in({.integer_lane = 100, .max_numel = 240, .varied = 40}, random, op);
}

Case random_case(Random random) {
  auto settings = draw_settings(random, {.integer_lane = 0, .specials = 0, .max_numel = 600, .varied = 0});
  settings.families = kRandomOps;
  settings.placements &= ~kPartials;
  if (random.chance(20)) settings.max_numel = 5000;
  Builder b(random, settings);
  add_ops(b, b.random().between(1, 4), true);
  return finished(b, "random");
}

namespace {

// One input and nothing done with it.
Case layout_case(Random random) {
  auto settings = draw_settings(random, {.max_ranks = 16, .max_numel = 400});
  settings.placements = kAllPlacements;
  Builder b(random, settings);
  b.fresh({.dtypes = kAllDtypes, .max_dims = 4});
  return finished(b, "layout");
}

// Elements of any bits, signalling NaNs among them, which only what moves bits, or folds them, keeps.
Ref of_any_bits(Builder& b) {
  const auto& settings = b.settings();
  const auto dtype = b.random().pick({at::kFloat, at::kDouble, at::kBFloat16, at::kHalf});
  const auto shape = draw_shape(b.random(), settings.mesh, b.random().between(0, 3), 64);
  const auto width = static_cast<int>(8 * c10::elementSize(dtype));
  const uint64_t exponent = dtype == at::kDouble  ? 0x7ff0'0000'0000'0000
                            : dtype == at::kFloat ? 0x7f80'0000
                            : dtype == at::kHalf  ? 0x7c00
                                                  : 0x7f80;
  oracle::Values values{oracle::ValueKind::kBits, 0, 0, 0, {}};
  for (int64_t i = 0; i < numel(shape); ++i) {
    const uint64_t any = b.random().next() >> (64 - width);
    values.bits.push_back(b.random().chance(70) ? any : exponent | 1);
  }
  const auto target = draw_target(b.random(), settings.mesh, shape, dtype, settings.placements);
  return b.fresh({.dtypes = bit_of(dtype), .shape = shape, .values = values, .placement = target});
}

// One input, redistributed one to four times, with or without a backward.
Case redistribute_case(Random random) {
  auto settings =
      draw_settings(random, {.max_ranks = 16, .integer_lane = 30, .backward = 30, .max_numel = 400});
  settings.placements = kAllPlacements;
  Builder b(random, settings);
  const bool any = !settings.backward && !settings.integer_lane && b.random().chance(15);
  Ref x = any ? of_any_bits(b) : b.fresh({.dtypes = settings.backward ? kFloats : kAllDtypes, .max_dims = 4});
  for (int64_t moves = b.random().between(1, 4); moves > 0; --moves) x = b.redistribute(x);
  // The integer lane has no room for some averages; a plain copy it has always room for.
  if (b.calls() == 0) b.redistribute(x, replicated(settings.mesh));
  if (settings.backward) b.backward();
  return finished(b, "redistribute");
}

// What it makes may be of memory that it fills in place.
bool writes(const OpTemplate& op) {
  return op.in_place() || std::string_view(op.op).find("empty") != std::string_view::npos;
}

// Two to five redistributions, the last one of an input, with ops between them that write nothing: what is
// sent is in flight.
Case overlap_case(Random random) {
  auto settings = draw_settings(random, {.integer_lane = 30, .backward = 25, .refused = 6});
  settings.placements = kAllPlacements;
  Builder b(random, settings);
  const Ref x = b.fresh({.dtypes = settings.backward ? kFloats : kAllDtypes});
  for (int64_t moves = b.random().between(1, 4); moves > 0 && !b.may_be_refused(); --moves) {
    b.redistribute(b.random().chance(40) ? x : b.operand({.dtypes = kNumbers}));
    for (int64_t ops = b.random().below(3); ops > 0 && !b.may_be_refused(); --ops)
      if (const auto* op = draw_op(b, true); op != nullptr && !writes(*op)) op->make(b, *op);
  }
  if (b.may_be_refused()) return finished(b, "overlap");
  if (settings.backward) b.backward();
  b.redistribute(x);
  // The integer lane has no room for some averages; a plain copy it has always room for.
  if (b.calls() == 0) b.redistribute(x, replicated(settings.mesh));
  return finished(b, "overlap");
}

// One redistribution, from blocks or to them.
void add_move(Builder& b) {
  const auto& [shape, blocks] = *b.settings().alike;
  const bool to_blocks = b.random().chance(40);
  auto other =
      draw_target(b.random(), b.settings().mesh, shape, c10::ScalarType::Float, b.settings().placements);
  const auto from = to_blocks ? other : blocks, to = to_blocks ? blocks : other;
  const Ref x = b.fresh({.dtypes = kFloats, .shape = shape, .placement = from});
  b.redistribute(x, to);
  if (b.calls() == 0)
    b.redistribute(x, replicated(b.settings().mesh));  // for which the integer lane has room
}

// Ops on tensors that lie in the same blocks, redistributions from these and to them, a backward pass and a
// step of an optimizer.
Case ragged_case(Random random) {
  auto settings = draw_settings(random, {.backward = 45, .max_numel = 240});
  while (settings.mesh.size() == 1) settings.mesh = draw_mesh(random, 8);
  settings.placements |= kRagged;
  settings.families = kUnary | kBinary | kScalars | kTernary | kInPlace | kLists | kReductions | kRandomOps |
                      kCopies | (random.chance(30) ? kViews : 0u);
  const auto shape = draw_shape(random, settings.mesh, random.between(1, 3), settings.max_numel, 1);
  auto others = draw_target(random, settings.mesh, shape, c10::ScalarType::Float,
                            settings.placements & ~kRagged & ~(random.chance(80) ? kPartials : 0u));
  settings.alike = {shape, with_ragged(random, std::move(others), settings.mesh, shape,
                                       random.below(settings.mesh.ndim()))};
  const bool alone = random.chance(25);
  settings.backward = settings.backward && !alone;
  Builder b(random, settings);
  if (alone)
    add_move(b);
  else
    add_ops(b, b.random().between(1, 4), true);
  if (settings.backward && b.backward()) after_backward(b);
  return finished(b, "ragged");
}

// 1 to 12 ops with reuse, views, in-place and list ops, redistributions, random ops, backward, optimizer
// steps.
Case program_case(Random random, const Profile& profile) {
  const auto settings = draw_settings(random, profile);
  Builder b(random, settings);
  const auto ops = b.random().weighted<int64_t>(
      {{10, 1}, {16, 2}, {20, 3}, {18, 4}, {12, 5}, {10, 6}, {4, 8}, {2, 10}, {1, 12}});
  add_ops(b, ops, true);
  if (settings.backward && !b.may_be_refused()) {
    if (b.backward()) after_backward(b);
    if (b.random().chance(15)) add_ops(b, 2, false);
  }
  return finished(b, "program");
}

// Forged words in so many percent of the Cases that draw; in most of those that pick by cumulative shares,
// which the last word may be beyond.
RandomWords draw_words(Random random, const Case& c, int64_t percent) {
  const auto& calls = c.program.calls;
  const bool picks = std::any_of(calls.begin(), calls.end(), [](const oracle::Call& call) {
    return call.op == "aten::multinomial" && call.args[2] == Arg(true) && call.args[1] != Arg(int64_t{1});
  });
  if (picks && percent > 0 && random.chance(80))
    return random.pick({RandomWords::kOnes, RandomWords::kEdges});
  const bool draws = std::any_of(calls.begin(), calls.end(), [](const oracle::Call& call) {
    return !oracle::is_own(call.op) && oracle::find_operator(call.op).random;
  });
  if (!draws || !random.chance(percent)) return RandomWords::kPhilox;
  return random.weighted<RandomWords>({{2, RandomWords::kZeros},
                                       {2, RandomWords::kOnes},
                                       {2, RandomWords::kEqual},
                                       {3, RandomWords::kEdges}});
}

struct SuiteCases {
  std::string_view suite;
  Case (*make)(Random random, uint64_t index);
  int64_t forged = 0;  // percent
};
constexpr SuiteCases kSuites[] = {
    {"layout", [](Random random, uint64_t) { return layout_case(random); }},
    {"redistribute", [](Random random, uint64_t) { return redistribute_case(random); }},
    {"overlap", [](Random random, uint64_t) { return overlap_case(random); }},
    {"ops", [](Random random, uint64_t index) { return op_case(random, op_number(index)); }},
    {"gradient",
     [](Random random, uint64_t index) { return op_case(random, differentiable_op(index), true); }},
    {"random", [](Random random, uint64_t index) { return random_suite_case(random, index); }, 16},
    {"program", [](Random random, uint64_t) { return program_case(random, {.backward = 55, .refused = 5}); },
     6},
    {"metamorphic",
     [](Random random, uint64_t) { return program_case(random, {.backward = 55, .exact_terms = true}); }},
    {"ragged", [](Random random, uint64_t) { return ragged_case(random); }},
    {"cache", [](Random random, uint64_t) { return cache_case(random); }},
    {"edges", [](Random random, uint64_t) { return edge_case(random); }},
    {"faults", [](Random random, uint64_t) { return program_case(random, {.backward = 55}); }},
    {"canary", [](Random random, uint64_t) { return program_case(random, {.backward = 55}); }},
};

}  // namespace

Case generate(const std::string& suite, uint64_t run_seed, uint64_t index) {
  std::string known;
  for (const auto& entry : kSuites) {
    known += concat(" ", entry.suite);
    if (entry.suite != suite) continue;
    const auto random = random_of_case(run_seed, suite, index);
    auto made = entry.make(random, index);
    made.suite = suite;
    made.words = draw_words(random.split("words"), made, entry.forged);
    return made;
  }
  throw Error("[generate] no cases are generated for the suite '" + suite + "'; there are" + known);
}

}  // namespace lockstep::generators
