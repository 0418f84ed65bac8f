// SPDX-License-Identifier: Apache-2.0
#include "oracle/program/values_terms.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/values/error.h"
#include "oracle/program/values_elements.h"

namespace lockstep::oracle {
namespace {

using Reals = std::vector<double>;
using Integers = std::vector<int64_t>;
using Words = std::vector<uint64_t>;

// Where the random choices of one split come from, and among how many ranks.
struct Split {
  uint64_t seed;
  uint64_t purpose;  // another for each column that is split
  ReduceOp op;
  int64_t ranks;
  int64_t grain;  // of an exact sum: what it and its terms are multiples of

  int64_t owner(int64_t element) const { return hash_below(seed, purpose * 256 + 255, element, ranks); }
  uint64_t of(int64_t rank) const { return purpose * 256 + static_cast<uint64_t>(rank % 128); }
  int64_t below(int64_t rank, int64_t element, int64_t bound) const {
    return hash_below(seed, of(rank), element, bound);
  }
  double unit(int64_t rank, int64_t element) const { return hash_unit(seed, of(rank) + 128, element); }
};

int64_t wrapping_product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// Sums: running sums that wander with changing sign and end at x.
void split_real_sum(const Split& s, double x, int64_t element, Reals& terms) {
  double before = 0, left = 1;
  for (int64_t r = 0; r < s.ranks; ++r) {
    left *= 0.4;  // shares of 60, 24, 9.6 … percent
    const bool last = r + 1 == s.ranks;
    const double running = last ? x : x * (1 - left) + 4 * s.unit(r, element) - 2;
    terms[static_cast<size_t>(r)] = running - before;
    before = running;
  }
}

void split_exact_sum(const Split& s, int64_t x, int64_t magnitude, int64_t element, Integers& terms) {
  uint64_t before = 0;  // unsigned: sums of extremes wrap, as the reduction of integers does
  for (int64_t r = 0; r < s.ranks; ++r) {
    const bool last = r + 1 == s.ranks;
    const auto running = static_cast<uint64_t>(last ? x : s.below(r, element, 2 * magnitude + 1) - magnitude);
    terms[static_cast<size_t>(r)] = static_cast<int64_t>(running - before);
    before = running;
  }
}

Reals split_real(const Split& s, double x, int64_t element) {
  Reals terms(static_cast<size_t>(s.ranks));
  const auto owner = s.owner(element);
  double others = 1;  // the product of what the other ranks hold
  switch (s.op) {
    case ReduceOp::kSum:
      split_real_sum(s, x, element, terms);
      break;
    case ReduceOp::kAvg:
      split_real_sum(s, x * static_cast<double>(s.ranks), element, terms);
      break;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      for (int64_t r = 0; r < s.ranks; ++r) {
        const double worse = r == owner || s.below(r, element, 4) == 0 ? 0 : s.unit(r, element);
        terms[static_cast<size_t>(r)] = s.op == ReduceOp::kMax ? x - worse : x + worse;
      }
      break;
    case ReduceOp::kProduct:
      for (int64_t r = 0; r < s.ranks; ++r) {
        static constexpr double kPowers[] = {0.5, 1, 2, -0.5, -1, -2};
        terms[static_cast<size_t>(r)] = kPowers[s.below(r, element, 6)];
        if (r != owner) others *= terms[static_cast<size_t>(r)];
      }
      terms[static_cast<size_t>(owner)] = x / others;
      break;
  }
  return terms;
}

// The sum of bools is their disjunction, the product their conjunction: one rank decides, the others do as
// they like.
Integers split_bool(const Split& s, int64_t x, int64_t element) {
  const bool conjunction = s.op == ReduceOp::kMin || s.op == ReduceOp::kProduct;
  Integers terms(static_cast<size_t>(s.ranks), x);
  if (x == (conjunction ? 1 : 0)) return terms;
  for (int64_t r = 0; r < s.ranks; ++r)
    if (r != s.owner(element)) terms[static_cast<size_t>(r)] = s.below(r, element, 2);
  return terms;
}

Integers split_exact(const Split& s, int64_t x, int64_t magnitude, int64_t element, c10::ScalarType dtype) {
  if (dtype == c10::ScalarType::Bool) return split_bool(s, x, element);
  Integers terms(static_cast<size_t>(s.ranks));
  const bool is_integer = c10::isIntegralType(dtype, false);
  const auto owner = s.owner(element);
  int64_t sign = 1;
  switch (s.op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg: {
      split_exact_sum(s, x / s.grain, magnitude / s.grain, element, terms);
      const int64_t multiple = s.op == ReduceOp::kAvg ? s.grain * s.ranks : s.grain;
      for (auto& term : terms) term = wrapping_product(term, multiple);
      break;
    }
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      for (int64_t r = 0; r < s.ranks; ++r) {
        int64_t worse = r == owner ? 0 : s.below(r, element, 4);
        const bool is_max = s.op == ReduceOp::kMax;
        const bool fits =
            !is_integer || (is_max ? x >= lowest_integer(dtype) + 3 : x <= highest_integer(dtype) - 3);
        if (!fits) worse = 0;
        terms[static_cast<size_t>(r)] = is_max ? x - worse : x + worse;
      }
      break;
    case ReduceOp::kProduct:
      for (int64_t r = 0; r < s.ranks; ++r) {
        const bool negative = r != owner && dtype != c10::ScalarType::Byte && s.below(r, element, 2) == 1;
        terms[static_cast<size_t>(r)] = negative ? -1 : 1;
        if (negative) sign = -sign;
      }
      terms[static_cast<size_t>(owner)] = wrapping_product(x, sign);
      break;
  }
  return terms;
}

// Given bits: one rank has them, the others the neutral element; of an average, all have them.
Words split_bits(const Split& s, uint64_t x, int64_t element, c10::ScalarType dtype) {
  if (s.op == ReduceOp::kAvg) return Words(static_cast<size_t>(s.ranks), x);
  Words terms(static_cast<size_t>(s.ranks), identity_bits(s.op, dtype));
  terms[static_cast<size_t>(s.owner(element))] = x;
  return terms;
}

struct Level {
  ReduceOp op;
  int64_t ranks;
  // The ranks of the averages that are folded later: sums and averages are folded in any order, so the terms
  // of each sum have to be multiples of what an average divides by.
  int64_t grain = 1;
};
std::vector<Level> partial_levels(const Spec& spec) {
  std::vector<Level> levels;
  for (int64_t d = 0; d < spec.mesh().ndim(); ++d)
    if (const auto* p = std::get_if<Partial>(&spec.placements()[static_cast<size_t>(d)]))
      levels.push_back({p->op, spec.mesh().size(d)});
  int64_t grain = 1;
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    level->grain = grain;
    if (level->op == ReduceOp::kAvg) grain *= level->ranks;
  }
  return levels;
}

// Splits a column over the Partial mesh dimensions: the one folded last first, so that the order of the
// result is row-major over their coordinates.
template <class T, class Divide>
std::vector<std::vector<T>> spread(std::vector<T> column, const std::vector<Level>& levels, uint64_t seed,
                                   const Divide& divide) {
  std::vector<std::vector<T>> columns{std::move(column)};
  uint64_t purpose = 1024;
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    const size_t before = columns.size(), ranks = static_cast<size_t>(level->ranks);
    std::vector<std::vector<T>> next(before * ranks, std::vector<T>(columns[0].size()));
    for (size_t c = 0; c < before; ++c) {
      const Split split{seed, ++purpose, level->op, level->ranks, level->grain};
      const auto divide_one = divide(split, columns[c]);
      for (size_t e = 0; e < columns[c].size(); ++e) {
        const auto terms = divide_one(columns[c][e], static_cast<int64_t>(e));
        for (size_t r = 0; r < ranks; ++r) next[r * before + c][e] = terms[r];
      }
    }
    columns = std::move(next);
  }
  return columns;
}

template <class T>
at::Tensor to_tensor(const std::vector<T>& column, const Input& input) {
  constexpr auto kFrom = std::is_same_v<T, double> ? at::kDouble : at::kLong;
  const auto whole = at::from_blob(const_cast<T*>(column.data()), input.shape, at::TensorOptions(kFrom));
  return whole.to(input.dtype, /*non_blocking=*/false, /*copy=*/true);
}

at::Tensor bits_to_tensor(const Words& column, const Input& input) {
  const auto result = at::empty(input.shape, at::TensorOptions(input.dtype));
  const auto size = c10::elementSize(input.dtype);
  auto* bytes = static_cast<char*>(result.data_ptr());
  for (size_t i = 0; i < column.size(); ++i) std::memcpy(bytes + i * size, &column[i], size);
  return result;
}

template <class Columns, class ToTensor>
std::vector<at::Tensor> to_tensors(const Columns& columns, const ToTensor& to_one) {
  std::vector<at::Tensor> result;
  for (const auto& column : columns) result.push_back(to_one(column));
  return result;
}

template <class T, class Element>
std::vector<T> fill_column(int64_t count, const Element& element) {
  std::vector<T> column(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) column[static_cast<size_t>(i)] = element(i);
  return column;
}

std::vector<at::Tensor> real_terms(const Input& input, int64_t count, const std::vector<Level>& levels) {
  const auto divide = [](const Split& s, const Reals&) {
    return [s](double x, int64_t element) { return split_real(s, x, element); };
  };
  const auto base =
      fill_column<double>(count, [&](int64_t i) { return real_element(input.values, input.dtype, i); });
  return to_tensors(spread(base, levels, input.values.seed, divide),
                    [&](const Reals& column) { return to_tensor(column, input); });
}

std::vector<at::Tensor> exact_terms(const Input& input, int64_t count, const std::vector<Level>& levels) {
  const bool is_float = c10::isFloatingType(input.dtype);
  const auto divide = [&](const Split& s, const Integers& column) {
    constexpr int64_t kMost = int64_t{1} << 20;  // of how far running sums wander beyond extremes
    int64_t magnitude = 1;
    for (const auto x : column) magnitude = std::max(magnitude, std::abs(std::clamp(x, -kMost, kMost)));
    return [s, magnitude, &input](int64_t x, int64_t element) {
      return split_exact(s, x, magnitude, element, input.dtype);
    };
  };
  const auto base = fill_column<int64_t>(count, [&](int64_t i) {
    return is_float ? static_cast<int64_t>(real_element(input.values, input.dtype, i))
                    : integer_element(input.values, input.dtype, i);
  });
  return to_tensors(spread(base, levels, input.values.seed, divide),
                    [&](const Integers& column) { return to_tensor(column, input); });
}

std::vector<at::Tensor> given_terms(const Input& input, int64_t count, const std::vector<Level>& levels) {
  LOCKSTEP_CHECK(std::ssize(input.values.bits) == count, "[values] ", input.values.bits.size(),
                 " words of bits for ", count, " elements of shape ", shape_text(input.shape));
  const auto divide = [&](const Split& s, const Words&) {
    return [s, &input](uint64_t x, int64_t element) { return split_bits(s, x, element, input.dtype); };
  };
  return to_tensors(spread(input.values.bits, levels, input.values.seed, divide),
                    [&](const Words& column) { return bits_to_tensor(column, input); });
}

// Special values are special in every term: their fold is whatever it is.
std::vector<at::Tensor> special_terms(const Input& input, int64_t count, const std::vector<Level>& levels) {
  uint64_t terms = 1;
  for (const auto& level : levels) terms *= static_cast<uint64_t>(level.ranks);
  std::vector<at::Tensor> result;
  for (uint64_t t = 0; t < terms; ++t)
    result.push_back(
        bits_to_tensor(fill_column<uint64_t>(
                           count, [&](int64_t i) { return special_bits(input.values, input.dtype, t, i); }),
                       input));
  return result;
}

}  // namespace

std::vector<at::Tensor> make_terms(const Input& input, const Spec& spec) {
  const auto levels = partial_levels(spec);
  const auto count = spec.numel();
  const bool is_float = c10::isFloatingType(input.dtype);
  switch (input.values.kind) {
    case ValueKind::kBits:
      return given_terms(input, count, levels);
    case ValueKind::kSpecial:
      if (is_float) return special_terms(input, count, levels);
      break;
    case ValueKind::kNormal:
    case ValueKind::kUniform:
      if (is_float) return real_terms(input, count, levels);
      break;
    default:
      break;
  }
  return exact_terms(input, count, levels);
}

double term_bound(double magnitude, const Spec& spec) {
  double bound = std::max(magnitude, 1.0);
  const auto levels = partial_levels(spec);
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) switch (level->op) {
      case ReduceOp::kSum:
        bound *= 2;
        break;
      case ReduceOp::kAvg:
        bound *= 2 * static_cast<double>(level->ranks);
        break;
      case ReduceOp::kMin:
      case ReduceOp::kMax:
        bound += 3;
        break;
      case ReduceOp::kProduct:
        break;
    }
  return bound;
}

}  // namespace lockstep::oracle
