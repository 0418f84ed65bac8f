// SPDX-License-Identifier: Apache-2.0
#include "engine/stream/random_call.h"

#include <algorithm>
#include <array>

#include "engine/values/error.h"
#include "engine/values/text.h"

namespace lockstep {
namespace {

constexpr std::array kWords = {"philox", "zeros", "ones", "equal", "edges"};  // in the order of RandomWords

}  // namespace

const char* name(RandomWords words) {
  return kWords.at(static_cast<size_t>(words));
}

RandomWords parse_random_words(std::string_view text) {
  const auto* const found = std::find(kWords.begin(), kWords.end(), text);
  LOCKSTEP_CHECK(found != kWords.end(), "[random words] '", text,
                 "' is none of philox, zeros, ones, equal, edges.");
  return static_cast<RandomWords>(found - kWords.begin());
}

std::string to_string(const DeviceModel& device) {
  return concat(device.sm_count, "x", device.threads_per_sm);
}

DeviceModel parse_device_model(std::string_view text) {
  const auto numbers = parse_integers(text, 'x');
  LOCKSTEP_CHECK(
      numbers && numbers->size() == 2 && (*numbers)[0] >= 1 && (*numbers)[1] >= 256, "[device model] '", text,
      "' is not a device; write <multiprocessors>x<threads each, at least 256>, for example 132x2048");
  return {(*numbers)[0], (*numbers)[1]};
}

}  // namespace lockstep
