// SPDX-License-Identifier: Apache-2.0
// What golden/record does with a device: draws the matrix, compares it with the closed form, writes the text.
#pragma once
#include "suites/golden/compare_golden.h"

namespace lockstep::record {

// A device and what its file says of it: name, processors, driver, library, date.
struct Device {
  suites::StockDevice stock;
  std::string name;
  std::vector<std::pair<std::string, std::string>> provenance;
};

struct GoldenFile {
  std::string text;  // of the file
  int64_t equal = 0, to_digits = 0;
  std::vector<std::string> different;  // from what the closed form draws: findings
};
GoldenFile record_cells(const Device& device, const std::vector<suites::RandomCell>& cells);

// "NVIDIA H200" -> "nvidia-h200.json".
std::string file_name(const std::string& device_name);

// The CUDA device of this number, or why there is none.
struct FoundDevice {
  std::optional<Device> device;
  std::string why_not;
};
FoundDevice find_cuda_device(int64_t index);

}  // namespace lockstep::record
