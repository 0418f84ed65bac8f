// SPDX-License-Identifier: Apache-2.0
#include "ci/program/numbers.h"

#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "engine/values/error.h"

namespace lockstep::program {

CLI::Validator whole_number(uint64_t least, uint64_t most) {
  const auto wrong = [=](const std::string& text) -> std::string {
    char* end = nullptr;
    errno = 0;
    const uint64_t value = std::strtoull(text.c_str(), &end, 0);
    const bool number =
        !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0 && *end == '\0';
    if (number && errno == 0 && value >= least && value <= most) return {};
    return concat("write a whole number from ", least, " to ", most, ", not '", text, "'");
  };
  return {wrong, ""};
}

CLI::Validator seconds_above_zero() {
  const auto wrong = [](const std::string& text) -> std::string {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (!text.empty() && *end == '\0' && std::isfinite(value) && value > 0) return {};
    return concat("write seconds above 0, such as 60, not '", text, "'");
  };
  return {wrong, ""};
}

}  // namespace lockstep::program
