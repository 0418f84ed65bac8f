// SPDX-License-Identifier: Apache-2.0
// The new inputs of the Builder: shapes, dtypes, values, and where they lie.
#include <bit>

#include "generators/program/builder.h"
#include "generators/program/trial.h"
#include "oracle/program/values_elements.h"
#include "oracle/program/values_terms.h"

namespace lockstep::generators {
namespace {

using oracle::Input;
using oracle::Ref;
using oracle::Target;
using oracle::ValueKind;
using oracle::Values;

constexpr c10::ScalarType kByBit[] = {
    c10::ScalarType::Double, c10::ScalarType::Float, c10::ScalarType::BFloat16, c10::ScalarType::Half,
    c10::ScalarType::Long,   c10::ScalarType::Bool,  c10::ScalarType::Int,      c10::ScalarType::Short,
    c10::ScalarType::Char,   c10::ScalarType::Byte};

c10::ScalarType draw_dtype(Random& random, uint32_t allowed) {
  // f32 twice as often as the others; 0 bits fall back to f32.
  std::vector<c10::ScalarType> list;
  for (size_t i = 0; i < std::size(kByBit); ++i)
    if (allowed & (1u << i)) list.insert(list.end(), i == 1 ? 2 : 1, kByBit[i]);
  return list.empty() ? c10::ScalarType::Float : random.pick(list);
}

// Of the sum of the absolute terms, where the input is Partial.
Magnitude input_magnitude(const Input& input, const Target& target, const DeviceMesh& mesh) {
  const auto size = [](int64_t x) { return std::abs(static_cast<double>(x)); };  // the least has no negative
  const auto most = std::max({1.0, size(input.values.low), size(input.values.high)});
  if (!has_partial(target)) return {most, 0};
  const Spec spec(mesh, target.placements, input.shape, input.dtype);
  double bound = oracle::term_bound(most, spec);
  for (int64_t d = 0; d < mesh.ndim(); ++d) {
    const auto& p = target.placements[static_cast<size_t>(d)];
    if (is_partial(p, ReduceOp::kSum) || is_partial(p, ReduceOp::kAvg))
      bound *= static_cast<double>(mesh.size(d));
  }
  return {bound, 0};
}

}  // namespace

uint32_t bit_of(c10::ScalarType dtype) {
  for (size_t i = 0; i < std::size(kByBit); ++i)
    if (kByBit[i] == dtype) return 1u << i;
  return 0;
}

Shape Builder::free_shape(const Want& want) {
  if (settings_.alike && std::ssize(settings_.alike->first) >= want.min_dims &&
      std::ssize(settings_.alike->first) <= want.max_dims)
    return settings_.alike->first;
  const auto fewest = std::min(std::max(want.min_dims, settings_.cut + 1), want.max_dims);
  const auto ndim = fewest == want.max_dims
                        ? fewest
                        : std::clamp(random_.weighted<int64_t>({{4, 0}, {25, 1}, {45, 2}, {22, 3}, {4, 4}}),
                                     fewest, want.max_dims);
  if (settings_.terms == 0 || ndim == 0)
    return draw_shape(random_, settings_.mesh, ndim, settings_.max_numel, want.least);
  auto shape = draw_shape(random_, settings_.mesh, ndim, 6, std::max<int64_t>(want.least, 1));
  shape[static_cast<size_t>(random_.below(ndim))] = settings_.terms;
  return shape;
}

// What is cut along a later dimension is in an operand of fewer dimensions the first of these, or not there.
Shape Builder::broadcastable_shape(const Shape& shape) {
  const bool later = settings_.cut > 0 && settings_.cut < std::ssize(shape);
  if (!later || !random_.chance(50)) return draw_broadcastable(random_, shape);
  return {shape.begin() + (random_.chance(70) ? settings_.cut : std::ssize(shape)), shape.end()};
}

Shape Builder::fresh_shape(const Want& want) {
  if (!want.shape) return free_shape(want);
  auto shape = want.broadcasts ? broadcastable_shape(*want.shape) : *want.shape;
  for (auto& n : shape)
    if (n < 0) n = std::min<int64_t>(draw_size(random_, settings_.mesh, want.least), 16);
  return shape;
}

Values Builder::draw_values(c10::ScalarType dtype, const Target& target) {
  Values values;
  values.seed = static_cast<uint64_t>(random_.below(100000));
  const auto integers = [&](int64_t low, int64_t high) {
    values.kind = ValueKind::kIntegers;
    values.low = low;
    values.high = high;
  };
  if (dtype == c10::ScalarType::Bool) {
    integers(0, 1);
  } else if (!settings_.integer_lane && !c10::isFloatingType(dtype) && !has_partial(target) &&
             random_.chance(20)) {
    // All of them, and now and then the ends alone. The least is its own negative: stock kernels wrap around.
    integers(oracle::lowest_integer(dtype), oracle::highest_integer(dtype));
    if (random_.chance(60)) values.kind = ValueKind::kSpecial;
  } else if (settings_.integer_lane || !c10::isFloatingType(dtype)) {
    const int64_t wide = integer_limit(dtype) > 4096 && random_.chance(25) ? 9 : 3;
    integers(random_.chance(25) || dtype == c10::ScalarType::Byte ? 0 : -wide, wide);
  } else if (settings_.specials && random_.chance(has_partial(target) ? 15 : 50)) {
    values.kind = ValueKind::kSpecial;
  } else {
    values.kind = random_.weighted<ValueKind>({{78, ValueKind::kNormal},
                                               {12, ValueKind::kUniform},
                                               {2, ValueKind::kOnes},
                                               {1, ValueKind::kZeros},
                                               {7, ValueKind::kIntegers}});
    if (values.kind == ValueKind::kIntegers) integers(-4, 4);
  }
  return values;
}

c10::ScalarType Builder::fresh_dtype(const Want& want) {
  const uint32_t allowed = want.dtypes & settings_.dtypes;
  const auto dtype =
      draw_dtype(random_, allowed                                ? allowed
                          : want.dtypes & (kWide | kI64 | kBool) ? want.dtypes & (kWide | kI64 | kBool)
                                                                 : want.dtypes);
  const bool any_integer =
      dtype == c10::ScalarType::Long && std::popcount(want.dtypes) > 1 && !settings_.integer_lane;
  return any_integer && !want.values && random_.chance(15) ? draw_dtype(random_, kNarrow) : dtype;
}

// Often beside the last value whose placement is known: ranks then have what they need of both. Mostly so
// where all are to be cut, since what is cut stands elsewhere in an operand of fewer dimensions.
Target Builder::fresh_target(const Input& input, uint32_t kinds) {
  if (settings_.alike)
    return beside(settings_.alike->second, settings_.alike->first, input.shape, input.dtype, kinds);
  const auto last = std::find_if(values_.rbegin(), values_.rend(),
                                 [](const Value& v) { return v.placement.has_value() && v.trial.defined(); });
  if (last != values_.rend() && random_.chance(settings_.cut >= 0 ? 65 : 35))
    return beside(*last->placement, last->trial.sizes().vec(), input.shape, input.dtype, kinds);
  auto target = draw_target(random_, settings_.mesh, input.shape, input.dtype, kinds);
  const bool has_it = settings_.cut >= 0 && settings_.cut < std::ssize(input.shape);
  if (has_it && !shards(target, settings_.cut)) {
    target.placements[static_cast<size_t>(random_.below(settings_.mesh.ndim()))] = Shard{settings_.cut};
    target.order.clear();
  }
  return target;
}

Ref Builder::fresh(const Want& want) {
  Input input;
  input.dtype = fresh_dtype(want);
  input.shape = fresh_shape(want);
  const bool meets = !outside_ && !want.writable && !want.placement && !values_.empty() &&
                     c10::multiply_integers(input.shape) == 1;
  if (meets && random_.chance(plain_)) {
    auto beside = want;
    beside.grad = false;
    go_outside(true);
    const Ref plain = add_input(std::move(input), beside);
    go_outside(false);
    return plain;
  }
  return add_input(std::move(input), want);
}

Ref Builder::add_input(Input input, const Want& want) {
  uint32_t kinds = settings_.placements;
  if (want.values || want.writable || (bit_of(input.dtype) & kNarrow)) kinds &= ~kPartials;
  if (want.plain_zeros && settings_.integer_lane) kinds &= ~kProducts;  // its terms have signs
  auto target = outside_ ? Target{} : want.placement ? *want.placement : fresh_target(input, kinds);
  input.values = want.values ? *want.values : draw_values(input.dtype, target);
  // Terms of many ranks may leave the integer lane no room for any op; the value itself fits.
  if (settings_.integer_lane && !want.placement && !outside_ &&
      !exact(input_magnitude(input, target, settings_.mesh), input.dtype))
    target = draw_target(random_, settings_.mesh, input.shape, input.dtype, kinds & ~kPartials);
  if (want.values) input.values.seed = static_cast<uint64_t>(random_.below(100000));
  if (settings_.strided && !want.dense)
    input.memory_order = draw_memory_order(random_, std::ssize(input.shape));
  input.requires_grad = settings_.backward && gradients_.empty() && want.grad && !want.writable &&
                        !want.values && c10::isFloatingType(input.dtype) && random_.chance(75);
  const auto tensor = trial_input(input);
  if (input.requires_grad) leaves_.push_back(tensor);
  add_value(tensor, input_magnitude(input, target, settings_.mesh),
            outside_ ? std::nullopt : std::optional(target), true);
  values_.back().plain = outside_;
  values_.back().input = std::ssize(program_.inputs);
  // Indices that were written to would lead out of bounds.
  values_.back().writable = input.values.kind != ValueKind::kIndex;
  groups_.back().leaf = input.requires_grad;
  for (const auto& p : target.placements)
    groups_.back().signed_zero = groups_.back().signed_zero || is_partial(p, ReduceOp::kProduct);
  program_.inputs.push_back(std::move(input));
  placements_.push_back(std::move(target));
  return {std::ssize(values_) - 1};
}

}  // namespace lockstep::generators
