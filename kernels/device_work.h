// SPDX-License-Identifier: Apache-2.0
// What one GPU thread does of a fill: item number -> Philox blocks, their lanes and the places of those, in a
// few divisions by known numbers. Plain functions of plain data, which a test runs on the host too;
// device_fill.cu only launches them.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/philox_sweep.h"

namespace lockstep {

// Division by a divisor that is known beforehand: for dividends below 2^31 a multiplication and a shift.
struct Divider {
  uint64_t divisor = 1;
  uint32_t multiplier = 1, shift = 0;  // shift 32: the divisor is too large for them
  Divider() = default;
  explicit Divider(int64_t by);  // @pre by > 0
  LOCKSTEP_HOST_DEVICE int64_t quotient(int64_t dividend) const {
    const auto n = static_cast<uint64_t>(dividend);
    if ((n >> 31) != 0 || shift == 32) return static_cast<int64_t>(n / divisor);
    return (static_cast<uint32_t>((n * multiplier) >> 32) + static_cast<uint32_t>(n)) >> shift;
  }
  LOCKSTEP_HOST_DEVICE int64_t value() const { return static_cast<int64_t>(divisor); }
};

// How a box is enumerated.
enum class DeviceMode {
  kElements,  // a block for each element
  kInterval,  // the box is one run: each block of its draws once
  kRows,      // rows whose distance divides the launch, so that a block's lanes lie in one column
  kVectors,   // a thread takes consecutive elements
};

constexpr int kDeviceDims = 4;
constexpr int kDeviceWidth = 4;  // consecutive threads' blocks, or words, that one item makes

// A part of an image that lies in one launch, each of its dimensions an interval. `first` and the strides
// count in the launch, `offset` and the local strides in memory.
struct DeviceBox {
  DeviceMode mode = DeviceMode::kElements;
  bool aligned = false;  // whole items may be stored at once
  int32_t vector_words = 4, vector_blocks = 1;
  int64_t first = 0, offset = 0;
  int64_t length[kDeviceDims] = {1, 1, 1, 1};
  int64_t stride[kDeviceDims] = {1, 0, 0, 0};
  int64_t local_stride[kDeviceDims] = {1, 0, 0, 0};
  int64_t items = 0;
  int64_t draw = 0;       // kInterval, kRows: the first that is needed
  int64_t first_row = 0;  // kRows: of the launch, where the box begins
  int64_t phase = 0;      // kInterval: threads before the first item's, so that places are aligned
  Divider threads;        // of the launch
  Divider lengths[kDeviceDims];
  Divider row_items;   // items of a row
  Divider draw_items;  // kInterval, kRows: items of a draw
  uint64_t seed = 0, counter = 0, subsequence = 0;
};

// Blocks of up to kDeviceWidth consecutive threads of a draw. Of lane l those numbered low[l] to high[l] - 1
// are wanted, and block i's value goes to offset[l] + i * local_stride[0]. kVectors: one block, whose words
// low[0] to high[0] - 1 go to offset[0] + i * local_stride[0].
struct DeviceWork {
  int64_t thread = 0, draw = 0;
  int32_t low[4] = {0, 0, 0, 0}, high[4] = {0, 0, 0, 0};
  int64_t offset[4] = {0, 0, 0, 0};
};

namespace detail {

LOCKSTEP_HOST_DEVICE inline int64_t least(int64_t x, int64_t y) {
  return x < y ? x : y;
}
LOCKSTEP_HOST_DEVICE inline int64_t most(int64_t x, int64_t y) {
  return x < y ? y : x;
}
LOCKSTEP_HOST_DEVICE inline int32_t within_item(int64_t x) {
  return static_cast<int32_t>(least(most(x, 0), kDeviceWidth));
}

// The row that holds an item: its first element and place; `item` becomes the number within the row.
struct DeviceRow {
  int64_t first, offset;
};
LOCKSTEP_HOST_DEVICE inline DeviceRow row_of(const DeviceBox& box, int64_t& item) {
  int64_t row = box.row_items.quotient(item);
  item -= row * box.row_items.value();
  DeviceRow result{box.first, box.offset};
  for (int d = 1; d < kDeviceDims; ++d) {
    const int64_t next = box.lengths[d].quotient(row), at = row - next * box.length[d];
    result.first += at * box.stride[d];
    result.offset += at * box.local_stride[d];
    row = next;
  }
  return result;
}

// Consecutive elements of a row from element `skip` of the item on, as far as one lane of one draw goes.
template <int Lanes>
LOCKSTEP_HOST_DEVICE DeviceWork element_work(const DeviceBox& box, int64_t item, int64_t skip) {
  const DeviceRow row = row_of(box, item);
  const int64_t at = item * kDeviceWidth + skip, j = row.first + at, window = box.threads.quotient(j);
  DeviceWork work;
  work.thread = j - window * box.threads.value();
  work.draw = window / Lanes;
  const int64_t count =
      least(least(kDeviceWidth - skip, box.length[0] - at), box.threads.value() - work.thread);
  for (int lane = 0; lane < Lanes; ++lane) {  // an index known only at run time would put work into memory
    work.high[lane] = window % Lanes == lane ? within_item(count) : 0;
    work.offset[lane] = row.offset + at * box.local_stride[0];
  }
  return work;
}

// Consecutive threads of a draw of a run.
template <int Lanes>
LOCKSTEP_HOST_DEVICE DeviceWork interval_work(const DeviceBox& box, int64_t item) {
  const int64_t draw = box.draw_items.quotient(item), threads = box.threads.value();
  DeviceWork work;
  work.draw = box.draw + draw;
  work.thread = (item - draw * box.draw_items.value()) * kDeviceWidth - box.phase;
  for (int lane = 0; lane < Lanes; ++lane) {
    const int64_t at = (work.draw * Lanes + lane) * threads + work.thread - box.first;
    work.low[lane] = within_item(most(-at, -work.thread));
    work.high[lane] = within_item(least(box.length[0] - at, threads - work.thread));
    work.offset[lane] = box.offset + at * box.local_stride[0];
  }
  return work;
}

// Consecutive columns of the rows that a draw's lanes lie in.
template <int Lanes>
LOCKSTEP_HOST_DEVICE DeviceWork rows_work(const DeviceBox& box, int64_t item) {
  const int64_t draw = box.draw_items.quotient(item), rows = box.draw_items.value() / box.row_items.value();
  item -= draw * box.draw_items.value();
  const int64_t row = box.row_items.quotient(item);
  const int64_t at = (item - row * box.row_items.value()) * kDeviceWidth;
  DeviceWork work;
  work.draw = box.draw + draw;
  work.thread = row * box.stride[1] + box.first - box.first_row * box.stride[1] + at;
  for (int lane = 0; lane < Lanes; ++lane) {
    const int64_t r = (work.draw * Lanes + lane) * rows + row - box.first_row;
    const bool held = 0 <= r && r < box.length[1];
    work.high[lane] = held ? within_item(box.length[0] - at) : 0;
    work.offset[lane] = box.offset + r * box.local_stride[1] + at * box.local_stride[0];
  }
  return work;
}

// The words of one block that a row holds.
LOCKSTEP_HOST_DEVICE inline DeviceWork vector_work(const DeviceBox& box, int64_t item) {
  const DeviceRow row = row_of(box, item);
  const int64_t words = box.vector_words, group = row.first / words + item;
  const int64_t vector = group / box.vector_blocks, turn = box.threads.quotient(vector);
  DeviceWork work;
  work.thread = vector - turn * box.threads.value();
  work.draw = box.vector_blocks * turn + group % box.vector_blocks;
  const int64_t j = group * words;  // the block's first word
  work.low[0] = static_cast<int32_t>(most(row.first - j, 0));
  work.high[0] = static_cast<int32_t>(least(row.first + box.length[0] - j, words));
  work.offset[0] = row.offset + (j - row.first) * box.local_stride[0];
  return work;
}

}  // namespace detail

// Law: over all items of all boxes of an image each of its elements is wanted once. Where a lane ends within
// an item of kElements, what comes after `skip` elements is work of its own.
// @pre 0 <= item < box.items
template <int Lanes>
LOCKSTEP_HOST_DEVICE DeviceWork work_of(const DeviceBox& box, int64_t item, int64_t skip = 0) {
  if (box.mode == DeviceMode::kElements) return detail::element_work<Lanes>(box, item, skip);
  if (box.mode == DeviceMode::kInterval) return detail::interval_work<Lanes>(box, item);
  if (box.mode == DeviceMode::kRows) return detail::rows_work<Lanes>(box, item);
  return detail::vector_work(box, item);
}

// The boxes of an image, cut by launches. Each block once, where blocks so enumerated serve two elements or
// more on average; else a block for each element.
std::vector<DeviceBox> device_boxes(const PhiloxSweep& plan, const StreamImage& image, int lanes);

}  // namespace lockstep
