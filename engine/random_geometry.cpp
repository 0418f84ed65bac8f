// SPDX-License-Identifier: Apache-2.0
// The launch rules of stock CUDA kernels: TensorIterator's element order, 32-bit splitting, dropout's vector
// widths.
#include "engine/random_geometry.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "engine/values/error.h"
#include "engine/values/spec.h"

namespace lockstep {
namespace {

constexpr int64_t kBlockSize = 256;
constexpr uint64_t kWordsPerDraw = 4;

struct Dim {
  int64_t size, stride;
};

const char* op_name(RandomKind kind) {
  switch (kind) {
    case RandomKind::kUniform:
      return "uniform_";
    case RandomKind::kNormal:
      return "normal_";
    case RandomKind::kRandint:
      return "random_";
    case RandomKind::kBernoulli:
      return "bernoulli_";
    case RandomKind::kDropoutMask:
      return "native_dropout";
    default:
      break;
  }
  throw Broken("an unknown random operator");
}

int64_t numel(const RandomCall& call) {
  return std::accumulate(call.shape.begin(), call.shape.end(), int64_t{1}, std::multiplies<>());
}

// The dimensions longer than 1, fastest in memory first: TensorIterator's order.
std::vector<size_t> memory_order(const RandomCall& call) {
  std::vector<size_t> order;
  for (size_t d = 0; d < call.shape.size(); ++d)
    if (call.shape[d] > 1) order.push_back(d);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t x, size_t y) { return call.stride[x] < call.stride[y]; });
  return order;
}

// Elements of `order`'s dimensions follow each other without gaps or overlap.
bool is_dense(const RandomCall& call, const std::vector<size_t>& order) {
  int64_t expected = 1;
  for (size_t d : order) {
    if (call.stride[d] != expected) return false;
    expected *= call.shape[d];
  }
  return true;
}

std::vector<int64_t> rank_strides(const RandomCall& call, const std::vector<size_t>& order) {
  std::vector<int64_t> result(call.shape.size(), 0);
  int64_t next = 1;
  for (size_t d : order) {
    // Dropout reads such a tensor by logical index and writes its mask elsewhere.
    const bool written = call.kind != RandomKind::kDropoutMask && numel(call) > 0;
    LOCKSTEP_CHECK(!written || call.stride[d] != 0, "[", op_name(call.kind), "] dimension ", d,
                   " of a tensor of shape ", shape_text(call.shape),
                   " has stride 0: several elements share memory. Call contiguous() first.");
    result[d] = next;
    next *= call.shape[d];
  }
  return result;
}

int64_t threads(int64_t count, const DeviceModel& device) {
  const int64_t resident = device.sm_count * (device.threads_per_sm / kBlockSize);
  return kBlockSize * std::min(resident, (count - 1) / kBlockSize + 1);
}

// What one launch takes from the generator.
uint64_t increment(int64_t count, int64_t thread_count, int64_t lanes) {
  return kWordsPerDraw * static_cast<uint64_t>((count - 1) / (thread_count * lanes) + 1);
}

// Byte offsets fit into 32 bits.
bool fits_32_bits(const std::vector<Dim>& dims, int64_t item_size) {
  int64_t count = 1, extent = 1;
  for (const Dim& d : dims) {
    count *= d.size;
    extent += (d.size - 1) * d.stride * item_size;
  }
  return std::max(count, extent) <= std::numeric_limits<int32_t>::max();
}

// Splits along the dimension of largest extent until every part fits. Where strides nest, that is the
// outermost one, so that parts are consecutive in the stream.
void split(std::vector<Dim> dims, int64_t item_size, std::vector<int64_t>& counts) {
  while (!dims.empty() && dims.back().size == 1) dims.pop_back();
  if (fits_32_bits(dims, item_size)) {
    counts.push_back(std::accumulate(dims.begin(), dims.end(), int64_t{1},
                                     [](int64_t n, const Dim& d) { return n * d.size; }));
    return;
  }
  std::vector<Dim> low = dims, high = std::move(dims);
  low.back().size /= 2;
  high.back().size -= low.back().size;
  split(std::move(low), item_size, counts);
  split(std::move(high), item_size, counts);
}

// TensorIterator's view of the tensor: fastest dimension first, joined where memory allows.
std::vector<Dim> coalesced(const RandomCall& call, const std::vector<size_t>& order) {
  std::vector<Dim> dims;
  for (size_t d : order) {
    const Dim next{call.shape[d], call.stride[d]};
    if (!dims.empty() && next.stride == dims.back().size * dims.back().stride)
      dims.back().size *= next.size;
    else
      dims.push_back(next);
  }
  return dims;
}

void check_nested(const RandomCall& call, const std::vector<Dim>& dims) {
  for (size_t i = 1; i < dims.size(); ++i)
    if (dims[i].stride < dims[i - 1].size * dims[i - 1].stride)
      throw NotBuilt(concat("[", op_name(call.kind), "] a tensor above 2 GiB of shape ",
                            shape_text(call.shape), " with interlaced strides. Call contiguous() first."));
}

// A tensor beyond 32-bit indexing consumes one increment for nothing and is then launched part by part.
void plan_grid_stride(const RandomCall& call, const DeviceModel& device, const std::vector<size_t>& order,
                      RandomGeometry& out) {
  const int64_t lanes = lanes_per_block(call), n = numel(call);
  const auto item_size = static_cast<int64_t>(c10::elementSize(call.dtype));
  const std::vector<Dim> dims = coalesced(call, order);
  std::vector<int64_t> counts;
  if (fits_32_bits(dims, item_size)) {
    counts = {n};
  } else {
    check_nested(call, dims);
    split(dims, item_size, counts);
    out.advance = increment(n, threads(n, device), lanes);
  }
  int64_t first = 0;
  for (int64_t count : counts) {
    const int64_t thread_count = threads(count, device);
    out.launches.push_back({first, count, thread_count, out.advance});
    out.advance += increment(count, thread_count, lanes);
    first += count;
  }
}

// The widest vector of 16 bytes or less that divides the number of elements; 1 for tensors that are not
// dense.
int64_t dropout_width(const RandomCall& call, bool dense) {
  if (!dense) return 1;
  int64_t width = 16 / static_cast<int64_t>(c10::elementSize(call.dtype));
  while (numel(call) % width != 0) width /= 2;
  return width;
}

// One launch of any size. The generator moves as for a width of 4, even where wider or narrower vectors draw
// more: then the next call uses blocks again. Stock does so; this reproduces it. p == 1 draws nothing.
void plan_dropout(const RandomCall& call, const DeviceModel& device, bool dense, RandomGeometry& out) {
  const int64_t n = numel(call), thread_count = threads(n, device);
  out.vector_width = dropout_width(call, dense);
  if (out.vector_width == 1)
    out.rank_stride = contiguous_strides(call.shape);  // the logical index, not memory's
  out.launches = {{0, n, thread_count, 0}};
  out.advance = call.a == 1 ? 0 : increment(n, thread_count, 4);
}

// Integers beyond those that a floating dtype holds exactly: stock moves the bounds, with a warning.
void check_integers_fit(const RandomCall& call) {
  if (!c10::isFloatingType(call.dtype)) return;
  const int digits = call.dtype == c10::kDouble  ? 53
                     : call.dtype == c10::kFloat ? 24
                     : call.dtype == c10::kHalf  ? 11
                                                 : 8;
  const int64_t largest = int64_t{1} << digits;
  LOCKSTEP_CHECK(call.low >= -largest && call.high - 1 <= largest, "[random_] [", call.low, ", ", call.high,
                 ") holds integers that ", dtype_name(call.dtype), " cannot represent; stay within ",
                 -largest, " and ", largest, " or draw as i64 and cast.");
}

}  // namespace

int64_t lanes_per_block(const RandomCall& call) {
  if (call.kind == RandomKind::kDropoutMask) return 4;
  if (call.kind == RandomKind::kRandint)
    return static_cast<uint64_t>(call.high) - static_cast<uint64_t>(call.low) < (uint64_t{1} << 28) ? 4 : 2;
  return call.dtype == c10::kDouble ? 2 : 4;
}

void check_random_call(const RandomCall& call) {
  const char* op = op_name(call.kind);
  const bool any_dtype = call.kind == RandomKind::kRandint || call.kind == RandomKind::kBernoulli;
  LOCKSTEP_CHECK(any_dtype || c10::isFloatingType(call.dtype), "[", op, "] takes a floating dtype, not ",
                 dtype_name(call.dtype), ".");
  LOCKSTEP_CHECK(call.kind != RandomKind::kUniform || call.a <= call.b, "[uniform_] from (", call.a,
                 ") must not exceed to (", call.b, ").");
  LOCKSTEP_CHECK(call.kind != RandomKind::kNormal || call.b >= 0,
                 "[normal_] std must not be negative, but is ", call.b, ".");
  LOCKSTEP_CHECK((call.kind != RandomKind::kBernoulli && call.kind != RandomKind::kDropoutMask) ||
                     (call.a >= 0 && call.a <= 1),
                 "[", op, "] p must lie within 0 and 1, but is ", call.a, ".");
  if (call.kind != RandomKind::kRandint) return;
  LOCKSTEP_CHECK(call.low < call.high, "[random_] low (", call.low, ") must be less than high (", call.high,
                 ").");
  check_integers_fit(call);
}

RandomGeometry random_geometry(const RandomCall& call, const DeviceModel& device) {
  LOCKSTEP_CHECK(device.sm_count > 0 && device.threads_per_sm >= kBlockSize, "[", op_name(call.kind),
                 "] a device model of ", device.sm_count, "x", device.threads_per_sm,
                 " cannot hold one block of 256 threads.");
  if (call.shape.size() != call.stride.size()) throw Broken("a random call with unlike shape and stride");
  check_random_call(call);
  RandomGeometry out;
  const std::vector<size_t> order = memory_order(call);
  out.rank_stride = rank_strides(call, order);
  if (numel(call) == 0) return out;
  if (call.kind == RandomKind::kDropoutMask)
    plan_dropout(call, device, is_dense(call, order), out);
  else
    plan_grid_stride(call, device, order, out);
  return out;
}

}  // namespace lockstep
