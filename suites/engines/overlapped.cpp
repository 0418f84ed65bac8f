// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/overlapped.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>

#include "engine/values/refused.h"

namespace lockstep::suites {
namespace {

// What is never waited for is asked of the engine, and need not be shown to anybody.
class Unheard : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

// Below autograd, which forbids to write to a leaf.
// Through a view, which is not the tensor that is sent, and is its memory.
void write_in_flight(const at::Tensor& sent) {
  const at::AutoDispatchBelowADInplaceOrView below;
  try {
    sent.alias().zero_();
  } catch (const Refused& e) {
    if (e.why == Refusal::kInFlight) return;
    throw;
  }
  throw std::logic_error(concat("what a redistribution of ", spec(sent),
                                " sends was written before its wait, ", "and nobody refused that"));
}

}  // namespace

Overlapped::Overlapped(const oracle::Case& c, Spoil spoil)
    : how_(overlap_of(c)), all_(begun_by(c.program)), spoil_(std::move(spoil)) {}

at::Tensor Overlapped::move(const at::Tensor& tensor, const oracle::Target& target) {
  Unheard unheard;
  const c10::WarningUtils::WarningHandlerGuard guard(&unheard);
  // A checkpoint's block runs again on the way back.
  const bool again = torch::autograd::get_current_node() != nullptr;
  const bool mentioned = again || all_.at(next_++).mentioned;
  const auto moved = redistribute(tensor, target.placements, target.order, how_ != Overlap::kNone);
  if (spoil_) spoil_(moved);
  if (how_ == Overlap::kNone) return moved;
  if (how_ == Overlap::kWritten) write_in_flight(tensor);
  if (how_ == Overlap::kNever && !mentioned) return {};
  begun_.push_back(moved);
  return moved;
}

void Overlapped::finish() const {
  auto all = begun_;
  if (how_ == Overlap::kReversed) std::reverse(all.begin(), all.end());
  for (const auto& one : all) wait_tensor(one);
}

}  // namespace lockstep::suites
