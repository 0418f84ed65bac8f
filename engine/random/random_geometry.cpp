// SPDX-License-Identifier: Apache-2.0
// The launch rules of stock CUDA kernels: TensorIterator's element order, 32-bit splitting, dropout's vector
// widths, and the kernels that have rules of their own.
#include "engine/random/random_geometry.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/random/random_check.h"
#include "engine/values/error.h"
#include "engine/values/spec.h"

namespace lockstep {
namespace {

constexpr int64_t kBlockSize = 256;
constexpr uint64_t kWordsPerDraw = 4;
constexpr int64_t kLargestGridY = 65535;

struct Dim {
  int64_t size, stride;
};

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
    // Dropout and rrelu read such a tensor by logical index and write elsewhere.
    const bool reads = call.kind == RandomKind::kDropoutMask || call.kind == RandomKind::kRreluNoise;
    const bool written = !reads && numel(call) > 0;
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

// Four consecutive elements a thread, one block each, as many threads as that takes; in memory order if the
// tensor is dense, else logically. The generator moves by what the kernel asks for, 10 words, rounded up.
void plan_bernoulli(const RandomCall& call, bool dense, RandomGeometry& out) {
  constexpr int64_t kBlock = 512, kWidth = 4;
  const int64_t n = numel(call);
  if (!dense) out.rank_stride = contiguous_strides(call.shape);
  out.vector_width = kWidth;
  out.launches = {{0, n, kBlock * ((n - 1) / (kBlock * kWidth) + 1), 0}};
  out.advance = 12;
}

// One launch of any size over the logical index.
void plan_rrelu(const RandomCall& call, const DeviceModel& device, RandomGeometry& out) {
  const int64_t n = numel(call), thread_count = threads(n, device);
  out.rank_stride = contiguous_strides(call.shape);
  out.launches = {{0, n, thread_count, 0}};
  out.advance = increment(n, thread_count, lanes_per_block(call));
}

// Threads along the samples; blocks along the distributions, each of which is served by one block for every
// kLargestGridY distributions, one draw after the other.
void plan_multinomial(const RandomCall& call, RandomGeometry& out) {
  constexpr int64_t kBlock = 128;
  const int64_t dists = call.shape[0], samples = call.shape[1];
  const int64_t row_threads = kBlock * ((samples - 1) / kBlock + 1), rows = std::min(dists, kLargestGridY);
  out.rank_stride = contiguous_strides(call.shape);
  for (int64_t d = 0; d < dists; ++d)
    out.launches.push_back({d * samples, samples, row_threads,
                            kWordsPerDraw * static_cast<uint64_t>(d / rows),
                            static_cast<uint64_t>(d % rows * row_threads)});
  out.advance = increment(dists, rows, 1);
}

// The keys, then a word for each element that may share its key with others.
void plan_permutation(const RandomCall& call, const DeviceModel& device, RandomGeometry& out) {
  out = random_geometry(permutation_keys(call), device);
  out.shuffle_offset = out.advance;
  out.advance += increment(call.shape[0], 1, 4);
}

bool takes_two_words(const RandomCall& call) {
  switch (call.kind) {
    case RandomKind::kRandint:
      return static_cast<uint64_t>(call.high) - static_cast<uint64_t>(call.low) >= uint64_t{1} << 28;
    case RandomKind::kRandomBits:
      return true;
    case RandomKind::kRandom:
      return call.dtype == c10::kLong || call.dtype == c10::kDouble;
    default:
      return call.dtype == c10::kDouble;
  }
}

}  // namespace

int64_t lanes_per_block(const RandomCall& call) {
  return takes_two_words(call) ? 2 : 4;
}

int permutation_key_bits(int64_t n) {
  // So many that equal keys are expected in less than one of ten permutations.
  const double count = static_cast<double>(n);
  const double keys = count - (6 * count * count + 1) / (12 * std::log(0.9));
  return std::min(64, static_cast<int>(std::ceil(std::log2(keys))));
}

RandomCall permutation_keys(const RandomCall& call) {
  const bool narrow = permutation_key_bits(call.shape[0]) <= 32;
  RandomCall keys = call;
  keys.kind = RandomKind::kRandint;
  keys.dtype = narrow ? c10::kInt : c10::kLong;
  keys.low = narrow ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min();
  keys.high = narrow ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int64_t>::max();
  return keys;
}

RandomGeometry random_geometry(const RandomCall& call, const DeviceModel& device) {
  LOCKSTEP_CHECK(device.sm_count > 0 && device.threads_per_sm >= kBlockSize, "[", op_name(call.kind),
                 "] a device model of ", device.sm_count, "x", device.threads_per_sm,
                 " cannot hold one block of 256 threads.");
  check_random_call(call);
  RandomGeometry out;
  const std::vector<size_t> order = memory_order(call);
  out.rank_stride = rank_strides(call, order);
  if (numel(call) == 0) return out;
  switch (call.kind) {
    case RandomKind::kDropoutMask:
      plan_dropout(call, device, is_dense(call, order), out);
      break;
    case RandomKind::kBernoulliUniform:
      plan_bernoulli(call, is_dense(call, order), out);
      break;
    case RandomKind::kRreluNoise:
      plan_rrelu(call, device, out);
      break;
    case RandomKind::kMultinomialUniform:
      plan_multinomial(call, out);
      break;
    case RandomKind::kRandperm:
      plan_permutation(call, device, out);
      break;
    default:
      plan_grid_stride(call, device, order, out);
  }
  return out;
}

RandomGeometry indexed_geometry(const RandomCall& call) {
  check_random_call(call);
  RandomGeometry out;
  out.indexed = true;
  out.rank_stride = contiguous_strides(call.shape);
  const int64_t n = numel(call);
  if (n == 0) return out;
  out.launches = {{0, n, 1, 0}};
  out.advance = 4;
  return out;
}

}  // namespace lockstep
