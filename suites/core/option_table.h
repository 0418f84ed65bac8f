// SPDX-License-Identifier: Apache-2.0
// The options of a suite whose cases are values of their own, as fields of such a value: numbers in a range,
// and texts.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/values/error.h"
#include "engine/values/text.h"

namespace lockstep::suites {

template <class T>
struct OptionTable {
  struct Number {
    const char* name;
    int64_t T::*field;
    int64_t least, most;
  };
  struct Text {
    const char* name;
    std::string (*get)(const T& value);
    void (*set)(T& value, const std::string& text);  // throws Error
  };

  const char* suite;
  std::vector<Number> numbers;
  std::vector<Text> texts;

  // Throws Error that names the options that there are, or the range.
  void set(T& value, const std::string& name, const std::string& text) const {
    for (const auto& option : texts)
      if (name == option.name) return option.set(value, text);
    for (const auto& option : numbers) {
      if (name != option.name) continue;
      const auto number = parse_integer(text);
      LOCKSTEP_CHECK(number && *number >= option.least && *number <= option.most, "[", suite, "] the option ",
                     name, " is from ", option.least, " to ", option.most, ", not ", text);
      value.*option.field = *number;
      return;
    }
    throw Error(concat("[", suite, "] no option '", name, "'; there are: ", names()));
  }

  // Those that are not as in the `usual` one. Law: set() of each makes `usual` the value.
  std::map<std::string, std::string> of(const T& value, const T& usual) const {
    std::map<std::string, std::string> all;
    for (const auto& option : numbers)
      if (value.*option.field != usual.*option.field) all[option.name] = std::to_string(value.*option.field);
    for (const auto& option : texts)
      if (auto text = option.get(value); text != option.get(usual)) all[option.name] = std::move(text);
    return all;
  }

 private:
  std::string names() const {
    std::vector<std::string> sorted;
    for (const auto& option : numbers) sorted.emplace_back(option.name);
    for (const auto& option : texts) sorted.emplace_back(option.name);
    std::sort(sorted.begin(), sorted.end());
    std::string all;
    for (const auto& name : sorted) all += concat(all.empty() ? "" : ", ", name);
    return all;
  }
};

}  // namespace lockstep::suites
