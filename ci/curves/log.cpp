// SPDX-License-Identifier: Apache-2.0
#include "ci/curves/log.h"

#include "engine/values/error.h"

namespace lockstep::curves {

const char* name(Field field) {
  return field == Field::kLoss ? "loss" : "grad_norm";
}

void Collector::add(int64_t step, Field field, const Number& number) {
  auto& point = points_[step];
  point.step = step;
  auto& slot = field == Field::kLoss ? point.loss : point.grad_norm;
  auto& last = last_[field == Field::kLoss ? 0 : 1];
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
  if (again_ > 0)
    log.notes.push_back(concat(again_,
                               " numbers were given again for a step that had one (a resumed run, or ",
                               "several ranks): the last counts; ", changed_, " of them changed the number"));
  if (late_ > 0)
    log.notes.push_back(concat(late_, " numbers came after one of a later step: put in the order of steps"));
}

}  // namespace lockstep::curves
