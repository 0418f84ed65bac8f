// SPDX-License-Identifier: Apache-2.0
// Cuts an image into boxes that lie in one launch each, and chooses how each is enumerated.
#include "kernels/device_work.h"

#include <algorithm>
#include <bit>

namespace lockstep {
namespace {

struct Dim {
  int64_t length, stride, local_stride;
};

// Dimensions fastest first; those of length 1 are left out but for the first.
struct Box {
  int64_t first, offset;
  std::vector<Dim> dims;
};

int64_t ceiling(int64_t x, int64_t y) {
  return (x + y - 1) / y;
}

// The product of the pieces of each dimension from `dim` inward, added to a box that has the outer ones.
void expand(const StreamBox& from, size_t dim, const Box& outer, std::vector<Box>& found) {
  const StreamDim& d = from.dims[dim];
  for (const StreamPiece& piece : d.pieces) {
    Box box = outer;
    box.first += piece.start * d.stride;
    box.offset += piece.local * d.local_stride;
    if (dim == 0 || piece.length > 1)
      box.dims.insert(box.dims.begin(), {piece.length, d.stride, d.local_stride});
    if (dim == 0)
      found.push_back(std::move(box));
    else
      expand(from, dim - 1, box, found);
  }
}

// The elements of a box whose stream index is in [begin, end): whole boxes of its outermost dimension, and
// what remains of those at both ends.
void cut(Box box, int64_t begin, int64_t end, std::vector<Box>& found) {
  const Dim outer = box.dims.back();
  int64_t inner = 1;  // what the dimensions within span
  for (size_t d = 0; d + 1 < box.dims.size(); ++d) inner += (box.dims[d].length - 1) * box.dims[d].stride;
  const auto at_least = [&](int64_t index) {  // the first outer index that begins at or after it
    return std::clamp<int64_t>(index <= box.first ? 0 : ceiling(index - box.first, outer.stride), 0,
                               outer.length);
  };
  const int64_t low = at_least(begin), high = std::max(low, at_least(end - inner + 1));
  const auto part = [&](int64_t from, int64_t to) {
    Box result = box;
    result.first += from * outer.stride;
    result.offset += from * outer.local_stride;
    result.dims.back().length = to - from;
    if (to - from == 1 && result.dims.size() > 1) result.dims.pop_back();
    return result;
  };
  if (high > low) found.push_back(part(low, high));
  if (box.dims.size() == 1) return;
  if (low > 0) cut(part(low - 1, low), begin, end, found);
  for (int64_t i = high; i < outer.length && box.first + i * outer.stride < end; ++i)
    cut(part(i, i + 1), begin, end, found);
}

// A thread's kernel knows kDeviceDims dimensions; more become boxes of their own.
void add_narrow(const Box& box, std::vector<Box>& found) {
  if (box.dims.size() <= kDeviceDims) {
    found.push_back(box);
    return;
  }
  for (int64_t i = 0; i < box.dims.back().length; ++i) {
    Box part = box;
    part.first += i * box.dims.back().stride;
    part.offset += i * box.dims.back().local_stride;
    part.dims.pop_back();
    add_narrow(part, found);
  }
}

bool whole_steps(const Box& box) {
  return box.dims[0].local_stride == 1 && box.offset % kDeviceWidth == 0 &&
         std::all_of(box.dims.begin() + 1, box.dims.end(),
                     [](const Dim& d) { return d.local_stride % kDeviceWidth == 0; });
}

void plan_vectors(const Box& box, int64_t width, int lanes, DeviceBox& out) {
  const int64_t words = width == 1 ? lanes : std::min<int64_t>(width, 4);
  out.mode = DeviceMode::kVectors;
  out.vector_words = static_cast<int32_t>(words);
  out.vector_blocks = static_cast<int32_t>(std::max<int64_t>(width / 4, 1));
  bool even = box.first % words == 0;
  for (size_t d = 1; d < box.dims.size(); ++d) even = even && box.dims[d].stride % words == 0;
  out.row_items = Divider(ceiling(box.dims[0].length, words) + (even ? 0 : 1));
  out.aligned = even && words == kDeviceWidth && whole_steps(box);
}

// Whether each block once serves two elements a block; then `out` is set to enumerate so.
bool plan_draws(const Box& box, const PhiloxLaunch& launch, int64_t elements, int lanes, DeviceBox& out) {
  const int64_t per_draw = launch.threads * lanes;
  const auto& dims = box.dims;
  if (dims.size() > 2) return false;
  // Rows of the launch: their distance divides its threads, and none runs on into the next.
  if (dims.size() == 2 &&
      (launch.threads % dims[1].stride != 0 || box.first % dims[1].stride + dims[0].length > dims[1].stride))
    return false;
  int64_t last = box.first;
  for (const Dim& d : dims) last += (d.length - 1) * d.stride;
  const int64_t draws = last / per_draw - box.first / per_draw + 1;
  const int64_t rows = dims.size() == 2 ? launch.threads / dims[1].stride : 1;
  if (elements < 2 * draws * (dims.size() == 2 ? rows * dims[0].length : launch.threads)) return false;
  out.draw = box.first / per_draw;
  if (dims.size() == 1) {
    out.mode = DeviceMode::kInterval;
    out.phase = ((box.offset - box.first) % kDeviceWidth + kDeviceWidth) % kDeviceWidth;
    out.draw_items = Divider(ceiling(launch.threads + out.phase, kDeviceWidth));
    out.aligned = dims[0].local_stride == 1 && launch.threads % kDeviceWidth == 0;
  } else {
    out.mode = DeviceMode::kRows;
    out.draw_items = Divider(rows * out.row_items.value());
    out.first_row = box.first / dims[1].stride;
  }
  out.items = draws * out.draw_items.value();
  return true;
}

DeviceBox planned(const Box& box, const PhiloxLaunch& launch, const PhiloxSweep& plan, int lanes) {
  DeviceBox out;
  out.first = box.first;
  out.offset = box.offset;
  out.threads = Divider(launch.threads);
  out.seed = plan.seed;
  out.counter = launch.counter;
  out.subsequence = launch.subsequence;
  int64_t rows = 1;
  for (size_t d = 0; d < box.dims.size(); ++d) {
    out.length[d] = box.dims[d].length;
    out.stride[d] = box.dims[d].stride;
    out.local_stride[d] = box.dims[d].local_stride;
    out.lengths[d] = Divider(box.dims[d].length);
    if (d > 0) rows *= box.dims[d].length;
  }
  out.row_items = Divider(ceiling(box.dims[0].length, kDeviceWidth));
  out.aligned = whole_steps(box);
  if (plan.width > 1 || launch.threads == 1)
    plan_vectors(box, plan.width, lanes, out);
  else if (plan_draws(box, launch, rows * box.dims[0].length, lanes, out))
    return out;
  out.items = rows * out.row_items.value();
  return out;
}

}  // namespace

Divider::Divider(int64_t by) : divisor(static_cast<uint64_t>(by)) {
  if (divisor >> 31 != 0) {
    shift = 32;
    return;
  }
  shift = static_cast<uint32_t>(std::bit_width(divisor - 1));
  multiplier = static_cast<uint32_t>((((uint64_t{1} << shift) - divisor) << 32) / divisor + 1);
}

std::vector<DeviceBox> device_boxes(const PhiloxSweep& plan, const StreamImage& image, int lanes) {
  std::vector<Box> boxes;
  for (const StreamBox& box : image) expand(box, box.dims.size() - 1, {0, box.offset, {}}, boxes);
  std::vector<DeviceBox> result;
  for (const PhiloxLaunch& launch : plan.launches)
    for (const Box& box : boxes) {
      std::vector<Box> parts, narrow;
      cut(box, launch.first, launch.first + launch.count, parts);
      for (const Box& part : parts) add_narrow(part, narrow);
      for (Box& part : narrow) {
        part.first -= launch.first;
        result.push_back(planned(part, launch, plan, lanes));
      }
    }
  return result;
}

}  // namespace lockstep
