// SPDX-License-Identifier: Apache-2.0
#include "oracle/ownership/reduce.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "oracle/ownership/dtypes.h"
#include "oracle/ownership/exact_sum.h"

namespace lockstep::oracle {
namespace {

using Kind = ReductionOrder::Kind;
using Node = ReductionOrder::Node;
using Tensors = std::vector<at::Tensor>;

// A NaN that arithmetic made of numbers. Of a bfloat16 a vector body and its tail make two; this is the
// tail's.
at::Tensor nan_made(const at::Tensor& value) {
  if (value.scalar_type() != at::kBFloat16) return value;
  const at::Tensor bits = value.contiguous().view(at::kShort);
  return at::where(at::isnan(value), at::full_like(bits, 0x7fc0).view(at::kBFloat16), value);
}

// The operand that is a NaN, the first of two, keeps its bits; elsewhere `value`.
at::Tensor nan_of(const at::Tensor& a, const at::Tensor& b, const at::Tensor& value) {
  if (!value.is_floating_point() || !at::isnan(value).any().item<bool>()) return value;
  return at::where(at::ne(a, a), a, at::where(at::ne(b, b), b, nan_made(value)));
}

// No NaN may depend on where in the tensor its element stands, nor may the sign of a zero: so not
// at::maximum.
at::Tensor combine(const at::Tensor& a, const at::Tensor& b, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return nan_of(a, b, at::add(a, b));
    case ReduceOp::kMin:
      return at::where(at::logical_or(at::lt(a, b), at::isnan(a)), a, b);
    case ReduceOp::kMax:
      return at::where(at::logical_or(at::gt(a, b), at::isnan(a)), a, b);
    case ReduceOp::kProduct:
      return nan_of(a, b, at::mul(a, b));
  }
  throw Broken("[ownership] a ReduceOp out of range");
}

at::Tensor folded(const Tensors& values, ReduceOp op) {
  at::Tensor value = values.at(0);
  for (size_t i = 1; i < values.size(); ++i) value = combine(value, values[i], op);
  return value;
}

// A NaN after a hop of a ring: the first that is one of own, arrived and value, made quiet; of a half only
// its sign is left, and of a bfloat16 nothing.
at::Tensor nan_after_hop(const at::Tensor& own, const at::Tensor& arrived, const at::Tensor& value) {
  const at::Tensor nan =
      at::where(at::isnan(own), own, at::where(at::isnan(arrived), arrived, value)).contiguous();
  switch (value.scalar_type()) {
    case at::kFloat:
      return at::bitwise_or(nan.view(at::kInt), 0x00400000).view(at::kFloat);
    case at::kDouble:
      return at::bitwise_or(nan.view(at::kLong), 0x0008000000000000).view(at::kDouble);
    case at::kHalf:
      return at::bitwise_or(at::bitwise_and(nan.view(at::kShort), -0x8000), 0x7e00).view(at::kHalf);
    case at::kBFloat16:
      return at::full_like(nan.view(at::kShort), 0x7fc0).view(at::kBFloat16);
    default:
      return value;
  }
}

// One hop: what the rank has and what has come to it, as std::max(own, arrived) chooses.
at::Tensor hop(const at::Tensor& own, const at::Tensor& arrived, ReduceOp op) {
  if (op == ReduceOp::kMax) return at::where(at::lt(own, arrived), arrived, own);
  if (op == ReduceOp::kMin) return at::where(at::lt(arrived, own), arrived, own);
  const at::Tensor value = op == ReduceOp::kProduct ? at::mul(own, arrived) : at::add(own, arrived);
  const at::Tensor lost = at::isnan(value);
  return lost.any().item<bool>() ? at::where(lost, nan_after_hop(own, arrived, value), value) : value;
}

at::Tensor around(const Tensors& values, ReduceOp op) {
  at::Tensor value = values.at(0);
  for (size_t i = 1; i < values.size(); ++i) value = hop(values[i], value, op);
  return value;
}

at::Tensor paired(Tensors values, ReduceOp op) {
  while (values.size() > 1) {
    Tensors next;
    for (size_t i = 0; i < values.size(); i += 2)
      next.push_back(i + 1 < values.size() ? combine(values[i], values[i + 1], op) : values[i]);
    values = std::move(next);
  }
  return values.at(0);
}

at::Tensor divided(const at::Tensor& value, int64_t divisor) {
  return divisor == 1 ? value : nan_of(value, value, at::div(value, static_cast<double>(divisor)));
}

// What the tree comes to, in the dtype of its root.
at::Tensor value_of(const Node& node, const TermOf& term) {
  if (node.kind == Kind::kTerm) return term(node.rank, node.microbatch);
  Tensors values;
  for (const Node& child : node.children) values.push_back(value_of(child, term));
  if (node.kind == Kind::kExact) return exact_sum(values, node.divisor, node.dtype);
  for (at::Tensor& v : values) v = v.to(node.dtype);
  const at::Tensor value = node.kind == Kind::kTree   ? paired(std::move(values), node.op)
                           : node.kind == Kind::kRing ? around(values, node.op)
                                                      : folded(values, node.op);
  return divided(value, node.divisor);
}

// For each slice the first one that has its tree: there may be thousands of slices, of few trees.
std::vector<size_t> firsts(const ReductionOrder& order) {
  std::vector<size_t> found, distinct;
  for (size_t i = 0; i < order.slices.size(); ++i) {
    const auto same = std::find_if(distinct.begin(), distinct.end(),
                                   [&](size_t k) { return order.slices[k].root == order.slices[i].root; });
    found.push_back(same == distinct.end() ? i : *same);
    if (same == distinct.end()) distinct.push_back(i);
  }
  return found;
}

}  // namespace

at::Tensor fold(const Tensors& terms, ReduceOp op, c10::ScalarType dtype) {
  Tensors values;
  for (const at::Tensor& t : terms) values.push_back(t.to(dtype));
  return divided(folded(values, op), op == ReduceOp::kAvg ? std::ssize(terms) : 1);
}

at::Tensor fold_terms(std::vector<at::Tensor> terms, const std::vector<ReduceOp>& ops,
                      const std::vector<int64_t>& sizes) {
  for (size_t d = 0; d < ops.size(); ++d) {
    const size_t n = as_size(sizes[d]), rest = terms.size() / n;
    for (size_t i = 0; i < rest; ++i) {
      Tensors line;
      for (size_t c = 0; c < n; ++c) line.push_back(terms[c * rest + i]);
      terms[i] = fold(line, ops[d], line[0].scalar_type());
    }
    terms.resize(rest);
  }
  return terms.at(0);
}

at::Tensor slice_numbers(const ReductionOrder& order, at::IntArrayRef shape) {
  if (order.slices.size() <= 1) return {};
  const auto first = firsts(order);
  std::vector<int64_t> numbers(as_size(c10::multiply_integers(shape)));
  for (size_t i = 0; i < first.size(); ++i) {
    const bool last = i + 1 == first.size();
    std::fill(numbers.begin() + order.slices[i].begin,
              last ? numbers.end() : numbers.begin() + order.slices[i + 1].begin,
              static_cast<int64_t>(first[i]));
  }
  return at::tensor(numbers, at::kLong).view(shape);
}

at::Tensor reduce(const ReductionOrder& order, const TermOf& term, const at::Tensor& slice_of,
                  c10::ScalarType dtype) {
  at::Tensor value = value_of(order.slices.at(0).root, term).to(dtype);
  const auto first = firsts(order);
  for (size_t i = 1; i < first.size(); ++i) {
    if (first[i] != i) continue;
    value = at::where(at::eq(slice_of, static_cast<int64_t>(i)),
                      value_of(order.slices[i].root, term).to(dtype), value);
  }
  return value;
}

at::Scalar identity(ReduceOp op, c10::ScalarType dtype) {
  if (op == ReduceOp::kProduct) return 1;
  return with_type(dtype, [op]<class T>() -> at::Scalar {
    using Limits = std::numeric_limits<T>;
    const bool extreme = op == ReduceOp::kMin || op == ReduceOp::kMax;
    if (!extreme) return Limits::is_integer ? at::Scalar(0) : at::Scalar(-0.0);
    if (Limits::is_integer) return op == ReduceOp::kMax ? Limits::lowest() : Limits::max();
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return op == ReduceOp::kMax ? -kInfinity : kInfinity;
  });
}

std::vector<std::vector<size_t>> groups_along(const std::vector<int64_t>& dims,
                                              const std::vector<int64_t>& sizes) {
  size_t places = 1;
  for (const int64_t n : sizes) places *= as_size(n);
  std::map<size_t, std::vector<size_t>> groups;  // by their first places
  for (size_t place = 0; place < places; ++place) {
    size_t first = place, step = places;
    for (size_t d = 0; d < sizes.size(); ++d) {
      step /= as_size(sizes[d]);
      const bool along = std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
      if (along) first -= place / step % as_size(sizes[d]) * step;
    }
    groups[first].push_back(place);
  }
  std::vector<std::vector<size_t>> result;
  for (auto& [first, places_of_group] : groups) result.push_back(std::move(places_of_group));
  return result;
}

}  // namespace lockstep::oracle
