// SPDX-License-Identifier: Apache-2.0
#include "oracle/random/random_launches.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/values/error.h"

namespace lockstep::oracle {
namespace {

// TensorIterator: dimensions by stride, fastest first; neighbours without a gap are one.
std::vector<Launch::Axis> iterator_axes(const RandomCall& call) {
  std::vector<Launch::Axis> axes;
  for (size_t d = 0; d < call.shape.size(); ++d)
    if (call.shape[d] != 1) axes.push_back({call.shape[d], call.stride[d]});
  std::stable_sort(axes.begin(), axes.end(),
                   [](const auto& a, const auto& b) { return a.stride < b.stride; });
  std::vector<Launch::Axis> merged;
  for (const auto& axis : axes) {
    if (!merged.empty() && merged.back().size * merged.back().stride == axis.stride)
      merged.back().size *= axis.size;
    else
      merged.push_back(axis);
  }
  return merged;
}

bool fits_32_bits(const Launch& launch, int64_t element_bytes) {
  int64_t last = 1;
  for (const auto& axis : launch.axes) last += (axis.size - 1) * axis.stride * element_bytes;
  return last <= std::numeric_limits<int32_t>::max();
}

// TensorIterator's split of the axis that spans most memory; of equals the slower.
std::pair<Launch, Launch> halves(const Launch& launch) {
  size_t widest = 0;
  for (size_t i = 0; i < launch.axes.size(); ++i) {
    const auto span = [&](size_t a) { return (launch.axes[a].size - 1) * launch.axes[a].stride; };
    if (span(i) >= span(widest)) widest = i;
  }
  Launch low = launch, high = launch;
  low.axes[widest].size /= 2;
  high.axes[widest].size -= low.axes[widest].size;
  high.first += low.axes[widest].size * launch.axes[widest].stride;
  return {low, high};
}

}  // namespace

int64_t Launch::count() const {
  int64_t count = 1;
  for (const auto& axis : axes) count *= axis.size;
  return count;
}

int64_t Launch::memory_of(int64_t index) const {
  int64_t place = first;
  for (const auto& axis : axes) {
    place += index % axis.size * axis.stride;
    index /= axis.size;
  }
  return place;
}

int64_t numel(const RandomCall& call) {
  return c10::multiply_integers(call.shape);
}

int64_t ceil_divide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int64_t grid_of(int64_t count, const DeviceModel& device) {
  LOCKSTEP_CHECK(device.sm_count >= 1 && device.threads_per_sm >= kBlock, "[random] device ",
                 to_string(device), " cannot run a block of ", kBlock, " threads");
  return std::min(device.sm_count * (device.threads_per_sm / kBlock), ceil_divide(count, kBlock));
}

int64_t unroll_of(const RandomCall& call) {
  const bool is_double = call.dtype == c10::ScalarType::Double;
  switch (call.kind) {
    case RandomKind::kRandint:  // the range of a randint decides, whatever the dtype
      return static_cast<uint64_t>(call.high) - static_cast<uint64_t>(call.low) >= uint64_t{1} << 28 ? 2 : 4;
    case RandomKind::kRandom:
      return is_double || call.dtype == c10::ScalarType::Long ? 2 : 4;
    case RandomKind::kRandomBits:
      return 2;
    case RandomKind::kDropoutMask:  // draws floats for doubles too
      return 4;
    default:
      return is_double ? 2 : 4;
  }
}

uint64_t reserved(int64_t count, int64_t unroll, const DeviceModel& device) {
  return static_cast<uint64_t>((count - 1) / (kBlock * grid_of(count, device) * unroll) + 1) * 4;
}

bool is_dense(const RandomCall& call) {
  const auto axes = iterator_axes(call);
  return numel(call) == 0 || axes.empty() || (axes.size() == 1 && axes[0].stride == 1);
}

Launches plan_launches(const RandomCall& call, const DeviceModel& device) {
  Launches plan;
  if (numel(call) == 0) return plan;
  const auto bytes = static_cast<int64_t>(c10::elementSize(call.dtype));
  const auto unroll = unroll_of(call);
  std::vector<Launch> waiting(1);
  waiting[0].axes = iterator_axes(call);
  // The kernel's entry reserves words for all; where it must split, each part reserves its own and these are
  // lost.
  if (!fits_32_bits(waiting[0], bytes)) plan.advance = reserved(numel(call), unroll, device);
  while (!waiting.empty()) {
    auto launch = std::move(waiting.back());
    waiting.pop_back();
    if (!fits_32_bits(launch, bytes)) {
      auto [low, high] = halves(launch);
      waiting.push_back(std::move(high));
      waiting.push_back(std::move(low));
      continue;
    }
    launch.offset = plan.advance;
    plan.advance += reserved(launch.count(), unroll, device);
    plan.launches.push_back(std::move(launch));
  }
  return plan;
}

Launch logical_launch(const RandomCall& call) {
  Launch launch;
  launch.axes = {{numel(call), 1}};
  return launch;
}

Launch rearranged_launch(const RandomCall& call) {
  auto shape = call.shape, stride = call.stride;
  for (size_t i = 0; i < shape.size(); ++i)
    for (size_t j = i + 1; j < shape.size(); ++j)
      if (shape[i] != 1 && shape[j] != 1 && stride[i] < stride[j]) {
        std::swap(shape[i], shape[j]);
        std::swap(stride[i], stride[j]);
      }
  Launch launch;
  for (size_t d = shape.size(); d-- > 0;) launch.axes.push_back({shape[d], stride[d]});
  return launch;
}

int64_t dropout_vector(const RandomCall& call) {
  if (!is_dense(call)) return 1;
  auto vector = static_cast<int64_t>(16 / c10::elementSize(call.dtype));
  while (numel(call) % vector != 0) vector /= 2;
  return vector;
}

}  // namespace lockstep::oracle
