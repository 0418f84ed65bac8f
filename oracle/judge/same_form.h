// SPDX-License-Identifier: Apache-2.0
// One form for what timeline and recording may say in two ways.
#pragma once
#include <deque>
#include <vector>

#include "engine/values/timeline.h"
#include "oracle/plain/recording.h"

namespace lockstep::oracle {

// Views by the name that the recording gives them; where autograd wants a gradient in the strides of its
// variable, which it makes memory for and copies into, a clone.
Timeline in_one_form(const Timeline& timeline);
// The same of the plain run: null where nothing is left. `made` keeps the clones.
std::vector<const RecordedOp*> in_one_form(const std::vector<RecordedOp>& ops, std::deque<RecordedOp>& made);

}  // namespace lockstep::oracle
