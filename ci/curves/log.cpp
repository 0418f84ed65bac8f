// SPDX-License-Identifier: Apache-2.0
#include "ci/curves/log.h"

#include "ci/curves/lines.h"

namespace lockstep::curves {

void Log::note_other_name(Field field, const char* what, const std::string& name) {
  if (name != kFieldNames[field]) note(kFieldNames[field], " is the ", what, " ", in_quotes(name));
}

void Collector::add(int64_t step, Field field, const Number& number) {
  auto& point = points_[step];
  point.step = step;
  auto& slot = point.at(field);
  auto& last = last_[field];
  if (slot) {
    ++again_;
    if (slot->bits != number.bits || slot->dtype != number.dtype) ++changed_;
  } else if (last && step < *last) {
    ++late_;
  }
  slot = number;
  last = step;
}

void Collector::finish(Log& log) && {
  for (auto& [step, point] : points_) log.points.push_back(std::move(point));
  log.note_if(again_, " numbers were given again for a step that had one (a resumed run, or several ranks): ",
              "the last counts; ", changed_, " of them changed the number");
  log.note_if(late_, " numbers came after one of a later step: put in the order of steps");
}

}  // namespace lockstep::curves
