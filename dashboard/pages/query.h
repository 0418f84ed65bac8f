// SPDX-License-Identifier: Apache-2.0
// What a page was asked with, and why it may say no.
#pragma once
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "dashboard/report/source.h"

namespace lockstep::dashboard {

// The page answers 404 or 400; the text is for people, and not yet HTML.
struct NotFound : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct BadQuery : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The parameters after "?", decoded. Names that a page does not know are ignored.
class Query {
 public:
  Query() = default;
  explicit Query(Parameters list) : list_(std::move(list)) {}
  // The first value of this name; "" if there is none.
  std::string text(std::string_view name) const;
  // @throws BadQuery unless it is absent, empty or a number from `least` to `most`.
  std::optional<int64_t> number(std::string_view name, int64_t least, int64_t most) const;

 private:
  Parameters list_;
};

}  // namespace lockstep::dashboard
