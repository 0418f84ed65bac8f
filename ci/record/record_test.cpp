// SPDX-License-Identifier: Apache-2.0
// GoldenFile, with the CPU in the device's place: its generator is the thread's, its operators draw by the
// simulation. Nothing is written to golden/.
#include "ci/record/record.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/stream/random_source.h"
#include "oracle/random/random_simulation.h"

namespace lockstep::record {
namespace {

// Adds `error` to what the stand-in's generator says of its offset.
Device stand_in(uint64_t error = 0) {
  Device device;
  device.name = "Stand-in (tiny)";
  device.stock.model = {1, 256};
  device.stock.maker = suites::plain_maker();
  device.stock.set_state = [](const RandomState& state) { generator() = {state, {1, 256}}; };
  device.stock.offset = [error] { return generator().state.offset + error; };
  device.provenance = {{"device", device.name}, {"date", "2026-01-01"}};
  return device;
}

// The file that a recording writes is read as what was recorded, and agrees with the closed form. Catches: a
// matrix that stock operators refuse, a device whose state is not set for each cell, a file without its
// origin.
TEST(Record, WritesTheMatrix) {
  oracle::SimulatedSource simulation;
  const RandomScope scope(simulation);
  const auto recording = record_cells(stand_in(), suites::golden_matrix({1, 256}));
  const auto goldens = suites::parse_goldens(recording.text, "recording");
  EXPECT_GT(goldens.size(), 400u);
  EXPECT_EQ(recording.equal, static_cast<int64_t>(goldens.size()));
  EXPECT_EQ(recording.to_digits, 0);
  EXPECT_TRUE(recording.different.empty()) << recording.different.front();
  for (const auto& golden : goldens) {
    EXPECT_EQ(golden.origin, suites::Origin::kRecorded);
    EXPECT_EQ(golden.cell.device, (DeviceModel{1, 256}));
    EXPECT_TRUE(golden.fnv1a64 && golden.offset_after);
  }
  EXPECT_NE(recording.text.find("\"device\": \"Stand-in (tiny)\""), std::string::npos);
  generator() = {};
}

// Catches: a device that differs and is told to agree.
TEST(Record, TellsWhatDiffers) {
  oracle::SimulatedSource simulation;
  const RandomScope scope(simulation);
  const auto recording = record_cells(stand_in(4), suites::golden_matrix({1, 256}));
  EXPECT_EQ(recording.equal, 0);
  EXPECT_GT(recording.different.size(), 400u);
  EXPECT_NE(recording.different[0].find("rand f32[1], seed 1234, offset 8, 1x256: offset after"),
            std::string::npos)
      << recording.different[0];
  generator() = {};
}

TEST(Record, FileNamesAreWords) {
  EXPECT_EQ(file_name("NVIDIA H200"), "nvidia-h200.json");
  EXPECT_EQ(file_name("Tesla P100-PCIE-16GB (../x)"), "tesla-p100-pcie-16gb-x.json");
  EXPECT_EQ(file_name("/"), "device.json");
}

}  // namespace
}  // namespace lockstep::record
