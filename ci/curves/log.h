// SPDX-License-Identifier: Apache-2.0
// What a reader makes of a file: the steps of one run, in order, each once, and what had to be left out.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ci/curves/number.h"
#include "engine/values/error.h"

namespace lockstep::curves {

enum Field : size_t { kLoss, kGradNorm };
inline constexpr Field kFields[] = {kLoss, kGradNorm};
inline constexpr const char* kFieldNames[] = {"loss", "grad_norm"};

struct Point {
  int64_t step = 0;
  std::optional<Number> loss{}, grad_norm{};
  const std::optional<Number>& at(Field field) const { return field == kLoss ? loss : grad_norm; }
  std::optional<Number>& at(Field field) { return field == kLoss ? loss : grad_norm; }
};

using Facts = std::map<std::string, std::string>;

struct Log {
  std::string path{}, format{};  // as given; "jsonl", "csv", "torchtitan"
  std::vector<Point> points{};   // by step, each once
  Facts environment{};
  std::vector<std::string> notes{};  // what was left out, decided or guessed, a sentence each; never silent

  template <class... Parts>
  void note(const Parts&... parts) {
    notes.push_back(concat(parts...));
  }
  // Which column or key was taken for it, unless it has the field's own name.
  void note_other_name(Field field, const char* what, const std::string& name);
  // Where something was counted.
  template <class... Parts>
  void note_if(int64_t count, const Parts&... parts) {
    if (count > 0) note(count, parts...);
  }
};

// Puts numbers together to points. Of a number that is given again for a step the last one counts: a run that
// was resumed from a checkpoint writes some steps twice. Repetitions, and steps that came late, are counted.
class Collector {
 public:
  void add(int64_t step, Field field, const Number& number);
  // @post points by step, each with at least one number; the counts are in the notes
  void finish(Log& log) &&;

 private:
  std::map<int64_t, Point> points_;
  std::optional<int64_t> last_[2];
  int64_t again_ = 0, changed_ = 0, late_ = 0;
};

}  // namespace lockstep::curves
