// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <exception>

#include "engine/fsdp/unit.h"
#include "engine/nn/checkpoint.h"

namespace lockstep::fsdp {

void Lane::enter_pass() {
  if (passes() > 0 && is_recomputing()) return;  // a part of that pass
  const auto id = torch::autograd::get_current_graph_task_id();
  if (!passes_.empty() && passes_.back().id == id) return;
  // As long as libtorch has the callback; then what a pass that failed has left is tidied.
  const auto runs = std::shared_ptr<void>(nullptr, [lane = weak_from_this()](void*) {
    if (const auto self = lane.lock()) self->tidy();
  });
  passes_.push_back({id, runs});
  torch::autograd::Engine::get_default_engine().queue_callback(
      [self = shared_from_this(), runs] { self->finish_pass(); });
}

void Lane::tidy() {
  try {
    passes();
  } catch (const std::exception&) {  // other ranks are lost, which whoever asks next is told
  }
}

size_t Lane::passes() {
  const auto before = passes_.size();
  while (!passes_.empty() && passes_.back().runs.expired()) passes_.pop_back();
  if (passes_.size() < before)
    for (auto* unit : units) unit->forget_deeper(passes_.size());
  if (passes_.empty() && before > 0)
    for (auto* unit : units) unit->forget_pass();
  return passes_.size();
}

// A pass within another leaves it to that one.
void Lane::finish_pass() {
  passes();  // one within this one may have failed, and been caught
  passes_.pop_back();
  for (auto* unit : units) unit->forget_deeper(passes_.size());
  if (!passes_.empty()) return;
  try {
    for (auto* unit : units) unit->collect();
    while (scattering != nullptr || adding_up != nullptr) make_way();
    for (auto* unit : units) unit->hand_over();
    for (auto* unit : units) unit->close();
  } catch (...) {
    for (auto* unit : units) unit->forget_pass();
    throw;
  }
}

void Lane::make_way() {
  const at::NoGradGuard no_grad;
  if (adding_up != nullptr) std::exchange(adding_up, nullptr)->finish();
  if (auto last = std::exchange(scattering, nullptr); last != nullptr && last->go_on())
    adding_up = std::move(last);
}

// A unit's come while those within it run.
void Lane::note_gradients() const {
  for (const auto* unit : units) unit->note_gradients();
}

}  // namespace lockstep::fsdp
