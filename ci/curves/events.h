// SPDX-License-Identifier: Apache-2.0
// TensorBoard's events: the scalars in one record. The message types are TensorFlow's (event.proto,
// summary.proto, tensor.proto); only fields that a scalar has are read.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "ci/curves/number.h"

namespace lockstep::curves {

struct Scalar {
  std::string_view tag;  // into the record
  Number value;
};

struct Event {
  double wall_time = 0;
  int64_t step = 0;
  std::vector<Scalar> scalars{};
  int64_t others = 0;  // values that are no scalar: images, histograms, texts, longer tensors
};

// Empty if the bytes are no Event.
std::optional<Event> parse_event(std::string_view record);

}  // namespace lockstep::curves
