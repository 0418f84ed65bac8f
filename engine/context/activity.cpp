// SPDX-License-Identifier: Apache-2.0
#include "engine/context/activity.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>

namespace lockstep {
namespace {

// The other kind that libtorch carries to its threads and uses in its own tests alone (context.cpp).
constexpr auto kKind = c10::DebugInfoKind::TEST_INFO_2;

struct Carried : c10::DebugInfoBase {
  explicit Carried(ActivityLogPtr l) : log(std::move(l)) {}
  ActivityLogPtr log;
};

template <class Clock>
int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

constexpr const char* kKinds[] = {"module", "op", "redistribution", "collective"};

}  // namespace

const char* name(ActivityKind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

ActivityLog::ActivityLog(bool wants_candidates)
    : wants_candidates_(wants_candidates),
      made_(nanoseconds<std::chrono::system_clock>()),
      origin_(nanoseconds<std::chrono::steady_clock>()) {}

int64_t ActivityLog::now() const {
  return nanoseconds<std::chrono::steady_clock>() - origin_;
}

// Calls are within each other or apart, so that the last one that began before the node is the innermost
// around it, or has ended and lies within that.
const ActivityLog::Call* ActivityLog::call_of(uint64_t node) const {
  const auto after = std::upper_bound(calls_.begin(), calls_.end(), node,
                                      [](uint64_t n, const Call& call) { return n < call.first; });
  for (auto i = std::distance(calls_.begin(), after) - 1; i >= 0; i = calls_[static_cast<size_t>(i)].outer)
    if (const auto& call = calls_[static_cast<size_t>(i)]; node < call.last) return &call;
  return nullptr;
}

std::string ActivityLog::module_now() const {
  if (!open_calls_.empty()) return all_[calls_[open_calls_.back()].number].name;
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr) return "";
  if (const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get())) {
    const auto owner = owners_.find(leaf->variable.unsafeGetTensorImpl());
    return owner == owners_.end() ? "" : owner->second;
  }
  const auto* call = call_of(node->sequence_nr());
  return call == nullptr ? "" : all_[call->number].name;
}

void ActivityLog::let_go() {
  while (!open_.empty() && all_[open_.back()].kind == ActivityKind::kCollective) {
    all_[open_.back()].overlaps = true;
    open_.pop_back();
  }
}

size_t ActivityLog::begin(Activity activity) {
  let_go();
  const size_t number = all_.size();
  activity.within = open_.empty() ? -1 : static_cast<int64_t>(open_.back());
  activity.backward = torch::autograd::get_current_graph_task_id() != -1;
  if (activity.kind == ActivityKind::kModule) {
    activity.module = activity.name;
    const auto outer = open_calls_.empty() ? -1 : static_cast<int64_t>(open_calls_.back());
    open_calls_.push_back(calls_.size());
    calls_.push_back({at::sequence_number::peek(), std::numeric_limits<uint64_t>::max(), outer, number});
  } else {
    activity.module = module_now();
  }
  activity.begin = now();
  open_.push_back(number);
  all_.push_back(std::move(activity));
  return number;
}

void ActivityLog::end(size_t number) {
  auto& activity = all_[number];
  activity.end = now();
  if (activity.kind != ActivityKind::kCollective) let_go();
  if (!open_.empty() && open_.back() == number) open_.pop_back();
  if (activity.kind != ActivityKind::kModule) return;
  calls_[open_calls_.back()].last = at::sequence_number::peek();
  open_calls_.pop_back();
}

Recording::Recording(ActivityLogPtr log) : guard_(kKind, std::make_shared<Carried>(std::move(log))) {}

ActivityLogPtr recording() {
  auto* carried = c10::ThreadLocalDebugInfo::get(kKind);
  return carried == nullptr ? nullptr : static_cast<Carried*>(carried)->log;
}

}  // namespace lockstep
