// SPDX-License-Identifier: Apache-2.0
// Whether an op may be refused because of its placements: a view, or an op that writes, runs where its
// tensors are. Found by brute force: every placement of its results, and of the tensors that may move.
#pragma once
#include <string>
#include <vector>

#include "engine/values/spec.h"
#include "oracle/plain/recording.h"

namespace lockstep::oracle {

struct Due {
  enum class Answer {
    kYes,      // under no placements is the op true while what it views or writes stays where it is
    kNo,       // under these it is
    kUnknown,  // too many to try, true by chance of few elements, or an op of which other values say nothing
  };
  Answer answer = Answer::kUnknown;
  std::string placements{};  // of kNo
};
// @param placed each input of the op as it is; null: undefined, or a plain tensor.
Due refusal_due(const RecordedOp& op, const Recording& recording, const std::vector<SpecPtr>& placed);

}  // namespace lockstep::oracle
