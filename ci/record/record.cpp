// SPDX-License-Identifier: Apache-2.0
#include "ci/record/record.h"

#include <cctype>

#include "engine/random/random.h"

namespace lockstep::record {

GoldenFile record_cells(const Device& device, const std::vector<suites::RandomCell>& cells) {
  GoldenFile recording;
  std::vector<suites::Golden> goldens;
  ClosedFormSource closed_form;
  for (const auto& cell : cells) {
    goldens.push_back(suites::record_golden(cell, device.stock));
    const auto& golden = goldens.back();
    const auto ours = suites::is_giant(cell) ? suites::draw_samples(cell, golden.at)
                                             : suites::draw_plain(cell, closed_form);
    const auto verdict = suites::compare_golden(golden, ours);
    if (!verdict.difference.empty())
      recording.different.push_back(suites::to_string(cell) + ": " + verdict.difference);
    else
      ++(verdict.same_to_digits ? recording.to_digits : recording.equal);
  }
  recording.text = suites::goldens_text(suites::Origin::kRecorded, device.provenance, goldens);
  return recording;
}

std::string file_name(const std::string& device_name) {
  std::string text;
  for (const char c : device_name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!text.empty() && text.back() != '-')
      text += '-';
  }
  while (!text.empty() && text.back() == '-') text.pop_back();
  return (text.empty() ? "device" : text) + ".json";
}

}  // namespace lockstep::record
