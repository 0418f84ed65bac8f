// SPDX-License-Identifier: Apache-2.0
// Draws a cell (by a source of plain tensors, on a mesh, on a device) and compares what came out with a
// golden; and all the cells that are recorded.
#pragma once
#include "engine/stream/random_source.h"
#include "suites/golden/golden.h"

namespace lockstep::suites {

struct DrawnCell {
  at::Tensor values;  // contiguous; of samples, one for each
  uint64_t offset_after = 0;
  bool samples = false;
};
// Each leaves the thread's generator as it was.
DrawnCell draw_plain(const RandomCell& cell, RandomSource& source);
// Some elements of a tensor of one dimension that need not fit in memory: in closed form, and as the
// simulated threads that write them do.
DrawnCell draw_samples(const RandomCell& cell, const std::vector<int64_t>& at);
DrawnCell simulate_samples(const RandomCell& cell, const std::vector<int64_t>& at);
// Whether the cell is known by samples alone, and by which.
bool is_giant(const RandomCell& cell);
std::vector<int64_t> samples_of(const RandomCell& cell);
// On DTensors, cut by the placements of placements_for().
DrawnCell draw_on_mesh(const RandomCell& cell, const DeviceMesh& mesh);
// Shards every mesh dimension where the tensor can be: uneven, nested and interleaved ones.
Placements placements_for(const RandomCell& cell, const DeviceMesh& mesh);

struct GoldenVerdict {
  std::string difference;       // "": none
  bool same_to_digits = false;  // of approximate operators: printed digits agree, bits do not
};
// Bits and digests as bits; what was printed as the exact value rounded to the printed decimals. Of an
// operator that stock computes by approximate functions, bits are compared to four digits: half a unit of the
// fourth decimal, or, beyond 1, of the fourth significant digit.
GoldenVerdict compare_golden(const Golden& golden, const DrawnCell& drawn);

// A device that runs stock operators, and its generator.
struct StockDevice {
  Maker maker;
  DeviceModel model;
  std::function<void(const RandomState& state)> set_state;
  std::function<uint64_t()> offset;
};
// What the device draws: digest (but of giants), offset, the first elements, the last ones and those where a
// launch changes.
Golden record_golden(const RandomCell& cell, const StockDevice& device);

// The cells that golden/record records: operators, arguments, dtypes, sizes on both sides of where a launch
// changes, memory orders, seeds and offsets.
// @post no cell twice; every operator of stock libtorch in stock_ops() but composites of others occurs.
std::vector<RandomCell> golden_matrix(const DeviceModel& device);
// Just beyond 2 GiB, where stock splits a tensor into several launches: known by some elements.
std::vector<RandomCell> golden_giants(const DeviceModel& device);

}  // namespace lockstep::suites
