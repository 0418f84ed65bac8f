// SPDX-License-Identifier: Apache-2.0
#include "generators/random/random_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "engine/values/error.h"
#include "generators/space/placements.h"

namespace lockstep::generators {
namespace {

using c10::ScalarType;
using oracle::Arg;
using oracle::None;
using oracle::Ref;
using oracle::Target;
using oracle::ValueKind;
using oracle::Values;

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

std::vector<Arg> with(const Operand& x, std::vector<Arg> rest) {
  rest.insert(rest.begin(), x.ref);
  return rest;
}

using Args = std::vector<Arg>;

// The operand and one of these lists of arguments.
template <const std::vector<Args>& kChoices>
void one_of(Draft& d, const RandomOp& op, const Operand& x) {
  d.call(op.name, with(x, d.random().pick(kChoices)));
}
const std::vector<Args> kUniform = {{}, {-1.5, 2.0}, {0.25, 0.25}, {-1e-3, 7.0}};
const std::vector<Args> kNormal = {{}, {0.5, 2.0}, {3.0, 0.25}, {-1.0, 0.0}};
const std::vector<Args> kLogNormal = {{}, {0.25, 1.5}};
const std::vector<Args> kCauchy = {{}, {0.5, 2.0}};
const std::vector<Args> kExponential = {{}, {1.5}, {0.01}};
const std::vector<Args> kGeometric = {{0.3}, {0.5}, {0.9}};
const std::vector<Args> kBernoulliNumber = {{0.5}, {0.25}, {0.1}, {0.9}, {0.0}, {1.0}};

void no_arguments(Draft& d, const RandomOp& op, const Operand& x) {
  d.call(op.name, {x.ref});
}
// Ends of ranges [0, to) that the dtype holds; those from 2^28 on take 64-bit words.
int64_t draw_end(Random& random, ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Bool:
      return 2;
    case ScalarType::Char:
      return random.pick<int64_t>({2, 100});
    case ScalarType::Byte:
    case ScalarType::BFloat16:
      return random.pick<int64_t>({2, 100, 200});
    case ScalarType::Half:
    case ScalarType::Short:
      return random.pick<int64_t>({7, 1000, 2000});
    case ScalarType::Int:
      return random.pick<int64_t>({7, 1000, (1 << 28) - 1, 1 << 28, kHighest >> 33});
    case ScalarType::Float:
      return random.pick<int64_t>({7, 1000, 1 << 24, 1 << 28});
    default:
      return random.pick<int64_t>({7, 1000, (1 << 28) - 1, 1 << 28, int64_t{1} << 40, kHighest});
  }
}

// From here on a floating dtype holds one integer in eight.
int64_t least_of_eights(ScalarType dtype) {
  const int digits = dtype == ScalarType::BFloat16 ? 8
                     : dtype == ScalarType::Half   ? 11
                     : dtype == ScalarType::Float  ? 24
                                                   : 53;
  return int64_t{4} << digits;
}

// Bounds that the dtype does not hold: where the next integer is rounded beyond one, stock takes one within.
std::pair<int64_t, Arg> draw_rounded_range(Random& random, ScalarType dtype) {
  const int64_t size = least_of_eights(dtype) + random.between(1, 15);
  const int64_t from = random.chance(50) ? size : -size;
  return {from, from + random.between(17, 40)};
}

// [from, to), or all that the dtype holds from somewhere on.
std::pair<int64_t, Arg> draw_range(Random& random, ScalarType dtype) {
  const bool whole = c10::isIntegralType(dtype, true);
  if (!whole && random.chance(25)) return draw_rounded_range(random, dtype);
  if (dtype == ScalarType::Bool) return {0, random.chance(50) ? Arg(int64_t{1}) : Arg(int64_t{2})};
  if (random.chance(25)) return {random.pick<int64_t>({0, 3}), None{}};
  if (dtype == ScalarType::Byte) return {3, int64_t{200}};
  if (dtype == ScalarType::Long && random.chance(30)) return {kLowest, kHighest};
  const bool wide = dtype == ScalarType::Long || (!whole && dtype != ScalarType::Half);
  if (wide && random.chance(35)) return {kLowest, None{}};
  if ((wide && dtype != ScalarType::BFloat16) || dtype == ScalarType::Int)
    if (random.chance(40)) return {-(int64_t{1} << 29), int64_t{1} << 29};
  return {-5, random.pick<int64_t>({6, 100})};
}

void random_to(Draft& d, const RandomOp& op, const Operand& x) {
  d.call(op.name, {x.ref, draw_end(d.random(), x.dtype)});
}
void random_from(Draft& d, const RandomOp& op, const Operand& x) {
  const auto [from, to] = draw_range(d.random(), x.dtype);
  d.call(op.name, {x.ref, from, to});
}

Values of_kind(ValueKind kind, int64_t low = 0, int64_t high = 0) {
  return {.kind = kind, .low = low, .high = high};
}

// Sometimes after a call that asks for another dtype than the operand's.
void like_floats(Draft& d, const RandomOp& op, const Operand& x) {
  if (d.random().chance(20))
    d.call(op.name, {x.ref, d.random().pick({ScalarType::Double, ScalarType::Half, ScalarType::BFloat16})});
  d.call(op.name, {x.ref});
}
void like_integers(Draft& d, const RandomOp& op, const Operand& x) {
  d.call(op.name, {x.ref, draw_end(d.random(), x.dtype)});
}
// Below a bound that stands in a tensor.
void like_below(Draft& d, const RandomOp& op, const Operand& x) {
  const auto end = draw_end(d.random(), x.dtype);
  oracle::Input bound{
      .dtype = ScalarType::Long, .shape = {}, .values = of_kind(ValueKind::kIntegers, end, end)};
  Args args{x.ref, d.input(std::move(bound), replicated(d.mesh()))};
  if (d.random().chance(30)) args.emplace_back(d.random().pick({ScalarType::Long, ScalarType::Float}));
  d.call(op.name, std::move(args));
}
void like_range(Draft& d, const RandomOp& op, const Operand& x) {
  const int64_t low = x.dtype == ScalarType::Bool || x.dtype == ScalarType::Byte ? 0 : -5;
  d.call(op.name, {x.ref, low, draw_end(d.random(), x.dtype)});
}

// A second input that broadcasts to the operand's shape, placed on its own. Beside flat locals that must stay
// it has the shape itself.
Ref beside(Draft& d, const RandomOp& op, const Operand& x, ScalarType dtype, const Values& values) {
  auto& random = d.random();
  oracle::Input input;
  input.dtype = dtype;
  const bool stays = op.in_place() && has_ragged(x.target);
  input.shape = random.chance(60) || stays ? x.shape : draw_broadcastable(random, x.shape);
  input.values = values;
  input.values.seed = static_cast<uint64_t>(random.below(100000));
  if (random.chance(30)) input.memory_order = draw_memory_order(random, std::ssize(input.shape));
  auto target = draw_target(random, d.mesh(), input.shape, dtype, kShards | kNestedShards | kInterleaved);
  return d.input(std::move(input), std::move(target));
}

void bernoulli_tensor(Draft& d, const RandomOp& op, const Operand& x) {
  const auto dtype = d.random().pick({ScalarType::Float, ScalarType::Double, ScalarType::BFloat16});
  d.call(op.name, {x.ref, beside(d, op, x, dtype, of_kind(ValueKind::kUniform))});
}

void normal_of_means(Draft& d, const RandomOp& op, const Operand& x) {
  d.call(op.name, {x.ref, d.random().pick({1.0, 0.5, 0.0})});
}
void normal_of_stds(Draft& d, const RandomOp& op, const Operand& x) {
  d.call(op.name, {d.random().pick({0.0, -0.7}), x.ref});
}
void normal_of_both(Draft& d, const RandomOp& op, const Operand& x) {
  d.call(op.name, {x.ref, beside(d, op, x, x.dtype, of_kind(ValueKind::kUniform))});
}

// Sometimes after a call that draws nothing: all are kept, or none.
void drop(Draft& d, const RandomOp& op, const Operand& x) {
  const bool native = std::string_view(op.name) == "aten::native_dropout";
  const Arg train = native && d.random().chance(20) ? Arg(None{}) : Arg(true);
  if (d.random().chance(15)) d.call(op.name, {x.ref, d.random().pick({0.0, 1.0}), train}, native ? 2 : 1);
  d.call(op.name, {x.ref, d.random().pick({.5, .1, .25, .9}), train}, native ? 2 : 1);
}

// Sometimes after a call in evaluation, which draws nothing.
void rrelu(Draft& d, const RandomOp& op, const Operand& x) {
  if (d.random().chance(15)) d.call(op.name, {x.ref, 0.125, 0.5, false});
  d.call(op.name, d.random().chance(50) ? Args{x.ref, 0.125, 1.0 / 3, true} : Args{x.ref, -0.3, 0.7, true});
}
// Into noise, which every rank holds where it is written.
void rrelu_with_noise(Draft& d, const RandomOp& op, const Operand& x) {
  Target target = x.target;
  for (auto& p : target.placements)
    if (is_partial(p)) p = Replicate{};
  const Ref noise =
      d.input({.dtype = x.dtype, .shape = x.shape, .values = of_kind(ValueKind::kZeros)}, std::move(target));
  if (d.random().chance(15)) d.call(op.name, {x.ref, noise, 0.125, 0.5, false});
  d.call(op.name, {x.ref, noise, d.random().pick({0.125, -0.3}), 0.75, true});
}

// Without the shares of the last category, and perhaps of the first, or with those of few, which round the
// most: where rounding leaves none for a draw, it falls on the last that has one.
Ref without_ends(Draft& d, const Operand& x) {
  Values ends = of_kind(ValueKind::kBits);
  ends.bits.resize(static_cast<size_t>(x.shape.back()));
  const auto few = static_cast<size_t>(d.random().between(2, 3));
  if (ends.bits.size() > few && d.random().chance(70))
    std::fill(ends.bits.begin() + static_cast<ptrdiff_t>(few), ends.bits.end(), 1);
  ends.bits.back() = 1;
  ends.bits.front() = x.shape.back() > 2 && d.random().chance(30) ? 1 : 0;
  const Ref none =
      d.input({.dtype = ScalarType::Bool, .shape = {x.shape.back()}, .values = ends}, replicated(d.mesh()));
  return d.call("aten::masked_fill.Scalar", {x.ref, none, int64_t{0}});
}
// Rows that are one in memory.
void multinomial_of_one_row(Draft& d, const RandomOp& op, const Operand& x) {
  const Shape row = {1, x.shape[1]};
  const Ref weights =
      d.input({.dtype = x.dtype, .shape = row, .values = of_kind(ValueKind::kIntegers, 1, 200)},
              replicated(d.mesh()));
  d.call(op.name, {d.call("aten::expand", {weights, x.shape, false}), int64_t{1}, false});
}
void multinomial(Draft& d, const RandomOp& op, const Operand& x) {
  if (x.shape.size() == 2 && d.random().chance(15)) multinomial_of_one_row(d, op, x);
  const bool again = d.random().chance(50);
  const bool as_it_lies = !has_partial(x.target) && !has_ragged(x.target);
  if (again && as_it_lies && x.shape.back() > 1 && x.shape.back() <= 64 && d.random().chance(90)) {
    const auto samples = d.random().pick<int64_t>({2, 2 * x.shape.back(), 40});
    d.call(op.name, {without_ends(d, x), samples, again});
    return;
  }
  const auto samples = d.random().pick<int64_t>({1, 1, 2, x.shape.back()});
  d.call(op.name, {x.ref, again ? samples : std::min(samples, x.shape.back()), again});
}

void make_floats(Draft& d, const RandomOp& op, const Operand& x) {
  d.make(op.name, {x.shape, x.dtype}, x.target);
}
void make_normal(Draft& d, const RandomOp& op, const Operand& x) {
  const double mean = d.random().pick({0.0, -1.5}), std = d.random().pick({1.0, 0.25, 0.0});
  d.make(op.name, {mean, std, x.shape, None{}, x.dtype}, x.target);
}
void make_integers(Draft& d, const RandomOp& op, const Operand& x) {
  d.make(op.name, {draw_end(d.random(), x.dtype), x.shape, x.dtype}, x.target);
}
void make_range(Draft& d, const RandomOp& op, const Operand& x) {
  const int64_t low = x.dtype == ScalarType::Bool || x.dtype == ScalarType::Byte ? 0 : -7;
  d.make(op.name, {low, draw_end(d.random(), x.dtype), x.shape, x.dtype}, x.target);
}
void make_permutation(Draft& d, const RandomOp& op, const Operand& x) {
  d.make(op.name, {x.shape[0], x.dtype}, x.target);
}

// ---- initialisers, as the calls that they are made of ----

double fan_in(const Operand& x) {
  return std::max<double>(
      1, static_cast<double>(numel(x.shape)) / std::max<double>(1, static_cast<double>(x.shape[0])));
}
void kaiming_uniform(Draft& d, const RandomOp&, const Operand& x) {
  const double bound = std::sqrt(3.0) / std::sqrt(fan_in(x));
  d.call("aten::uniform_", {x.ref, -bound, bound});
}
void xavier_normal(Draft& d, const RandomOp&, const Operand& x) {
  constexpr double kGain = 0.75;  // the result is never 1, by which points are told from normal_'s
  const double fans = fan_in(x) + static_cast<double>(x.shape[0]);
  d.call("aten::normal_", {x.ref, 0.0, kGain * std::sqrt(2.0 / fans)});
}
void trunc_normal(Draft& d, const RandomOp&, const Operand& x) {
  constexpr double kWithin = 0.95449973610364158;  // of two standard deviations
  d.call("aten::uniform_", {x.ref, -kWithin, kWithin});
  d.call("aten::erfinv_", {x.ref});
  d.call("aten::mul_.Scalar", {x.ref, 0.02 * std::numbers::sqrt2});
  d.call("aten::add_.Scalar", {x.ref, 0.01});
  d.call("aten::clamp_", {x.ref, -0.03, 0.05});
}

// The factor of a normal matrix that every rank holds whole.
void orthogonal(Draft& d, const RandomOp&, const Operand& x) {
  const bool wide = x.shape[0] < x.shape[1];
  const auto matrix = d.make("aten::randn", {x.shape, x.dtype}, replicated(d.mesh()));
  const auto tall = wide ? d.call("aten::t", {matrix}) : matrix;
  const auto q = d.call("aten::linalg_qr", {tall, std::string("reduced")}, 2);
  const auto signs = d.call("aten::sign", {d.call("aten::diagonal", {Ref{q.id + 1}})});
  const auto factor = d.call("aten::mul.Tensor", {q, signs});
  d.call("aten::copy_", {x.ref, wide ? d.call("aten::t", {factor}) : factor});
  d.call("aten::mul_.Scalar", {x.ref, 1.25});
}

using F = RandomForm;
constexpr uint32_t kCounting = kFloats | kIntegers;
constexpr uint32_t kPermuted = kWide | kF16 | kIntegers;

// clang-format off
constexpr RandomOp kOps[] = {
    {"aten::uniform_", F::kInPlace, kFloats, 0, 3, one_of<kUniform>},
    {"aten::uniform", F::kLike, kFloats, 0, 3, one_of<kUniform>},
    {"aten::normal_", F::kInPlace, kFloats, 0, 3, one_of<kNormal>},
    {"aten::normal_functional", F::kLike, kFloats, 0, 3, one_of<kNormal>},
    {"aten::normal.Tensor_float", F::kReads, kFloats, 0, 3, normal_of_means},
    {"aten::normal.float_Tensor", F::kReads, kFloats, 0, 3, normal_of_stds},
    {"aten::normal.Tensor_Tensor", F::kReads, kFloats, 0, 3, normal_of_both},
    {"aten::log_normal_", F::kInPlace, kFloats, 0, 3, one_of<kLogNormal>},
    {"aten::log_normal", F::kLike, kFloats, 0, 3, one_of<kLogNormal>},
    {"aten::exponential_", F::kInPlace, kFloats, 0, 3, one_of<kExponential>},
    {"aten::exponential", F::kLike, kFloats, 0, 3, one_of<kExponential>},
    {"aten::cauchy_", F::kInPlace, kFloats, 0, 3, one_of<kCauchy>},
    {"aten::cauchy", F::kLike, kFloats, 0, 3, one_of<kCauchy>},
    {"aten::geometric_", F::kInPlace, kCounting, 0, 3, one_of<kGeometric>},
    {"aten::geometric", F::kLike, kCounting, 0, 3, one_of<kGeometric>},
    {"aten::random_", F::kInPlace, kAnyDtype, 0, 3, no_arguments},
    {"aten::random_.to", F::kInPlace, kAnyDtype, 0, 3, random_to},
    {"aten::random_.from", F::kInPlace, kAnyDtype, 0, 3, random_from},
    {"aten::random", F::kLike, kAnyDtype, 0, 3, no_arguments},
    {"aten::random.to", F::kLike, kAnyDtype, 0, 3, random_to},
    {"aten::random.from", F::kLike, kAnyDtype, 0, 3, random_from},
    {"aten::bernoulli_.float", F::kInPlace, kAnyDtype, 0, 3, one_of<kBernoulliNumber>},
    {"aten::bernoulli_.Tensor", F::kInPlace, kAnyDtype, 0, 3, bernoulli_tensor},
    {"aten::bernoulli", F::kReads, kFloats, 0, 3, no_arguments},
    {"aten::bernoulli.p", F::kLike, kAnyDtype, 0, 3, one_of<kBernoulliNumber>},
    {"aten::bernoulli.Tensor", F::kLike, kAnyDtype, 0, 3, bernoulli_tensor},
    {"aten::rand_like", F::kLike, kFloats, 0, 3, like_floats},
    {"aten::randn_like", F::kLike, kFloats, 0, 3, like_floats},
    {"aten::randint_like", F::kLike, kAnyDtype, 0, 3, like_integers},
    {"aten::randint_like.Tensor", F::kLike, kAnyDtype, 0, 3, like_below},
    {"aten::randint_like.low_dtype", F::kLike, kAnyDtype, 0, 3, like_range},
    {"aten::native_dropout", F::kReads, kFloats, 0, 3, drop},
    {"aten::dropout", F::kReads, kFloats, 0, 3, drop},
    {"aten::dropout_", F::kInPlace, kFloats, 0, 3, drop},
    {"aten::feature_dropout", F::kReads, kFloats, 2, 4, drop},
    {"aten::feature_dropout_", F::kInPlace, kFloats, 2, 4, drop},
    {"aten::alpha_dropout", F::kReads, kFloats, 0, 3, drop},
    {"aten::alpha_dropout_", F::kInPlace, kFloats, 0, 3, drop},
    {"aten::feature_alpha_dropout", F::kReads, kFloats, 2, 4, drop},
    {"aten::feature_alpha_dropout_", F::kInPlace, kFloats, 2, 4, drop},
    {"aten::rrelu", F::kReads, kFloats, 0, 3, rrelu},
    {"aten::rrelu_", F::kInPlace, kFloats, 0, 3, rrelu},
    {"aten::rrelu_with_noise", F::kReads, kFloats, 0, 3, rrelu_with_noise},
    {"aten::rrelu_with_noise_", F::kInPlace, kFloats, 0, 3, rrelu_with_noise},
    {"aten::multinomial", F::kReads, kFloats, 1, 2, multinomial},
    {"aten::rand", F::kFactory, kFloats, 0, 3, make_floats},
    {"aten::randn", F::kFactory, kFloats, 0, 3, make_floats},
    {"aten::normal.float_float", F::kFactory, kFloats, 0, 3, make_normal},
    {"aten::randint", F::kFactory, kAnyDtype, 0, 3, make_integers},
    {"aten::randint.low", F::kFactory, kAnyDtype, 0, 3, make_range},
    {"aten::randperm", F::kFactory, kPermuted, 1, 1, make_permutation},
    {"init.kaiming_uniform_", F::kInPlace, kFloats, 2, 3, kaiming_uniform},
    {"init.xavier_normal_", F::kInPlace, kFloats, 2, 3, xavier_normal},
    {"init.trunc_normal_", F::kInPlace, kFloats, 1, 3, trunc_normal},
    {"init.orthogonal_", F::kInPlace, kWide, 2, 2, orthogonal},
};
// clang-format on

}  // namespace

bool RandomOp::permutes() const {
  return call == make_permutation;
}

bool RandomOp::needs_last() const {
  return call == multinomial;
}

int64_t RandomOp::most_dims(const oracle::Target& target) const {
  const bool by_channel = std::string_view(name).starts_with("aten::feature_");
  return by_channel && in_place() && has_ragged(target) ? 2 : max_dims;
}

int64_t RandomOp::most_elements(ScalarType dtype) const {
  if (!permutes()) return std::numeric_limits<int64_t>::max();
  if (dtype == ScalarType::Char) return 128;
  if (dtype == ScalarType::Byte) return 256;
  return dtype == ScalarType::Half ? 2049 : int64_t{1} << 15;
}

Values RandomOp::values(Random& random, ScalarType dtype, bool partial) const {
  Values values = of_kind(ValueKind::kNormal);
  const bool whole = !c10::isFloatingType(dtype);
  const bool probabilities = std::string_view(name) == "aten::bernoulli", deviations = call == normal_of_stds;
  // Weights whose sums round, but of what pends, whose terms are to be exact.
  if (call == multinomial)
    values = of_kind(ValueKind::kIntegers, 1,
                     partial || random.chance(30) ? 9
                     : dtype == ScalarType::Half  ? 800
                                                  : 200);
  else if (whole || (partial && (probabilities || deviations)))
    values = of_kind(ValueKind::kIntegers, 0, 1);
  else if (probabilities || deviations)
    values = of_kind(ValueKind::kUniform);
  else if (partial)
    values = of_kind(ValueKind::kIntegers, -4, 4);
  values.seed = static_cast<uint64_t>(random.below(100000));
  return values;
}

std::span<const RandomOp> random_ops() {
  return kOps;
}

const RandomOp* find_random_op(std::string_view name) {
  for (const auto& op : kOps)
    if (name == op.name) return &op;
  return nullptr;
}

}  // namespace lockstep::generators
