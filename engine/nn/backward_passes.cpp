// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/backward_passes.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include "engine/nn/checkpoint.h"

namespace lockstep::nn {

void BackwardPasses::enter() {
  tidy();
  if (!passes_.empty() && is_recomputing()) return;
  const auto id = torch::autograd::get_current_graph_task_id();
  if (!passes_.empty() && passes_.back().id == id) return;
  const auto runs = std::shared_ptr<void>(nullptr, [weak = weak_from_this()](void*) {
    if (const auto self = weak.lock()) self->tidy();
  });
  if (passes_.empty()) ++number_;
  passes_.push_back({id, runs});
  torch::autograd::Engine::get_default_engine().queue_callback(
      [self = shared_from_this(), runs] { self->finish(); });
}

void BackwardPasses::tidy() {
  const bool was_under_way = !passes_.empty();
  while (!passes_.empty() && passes_.back().runs.expired()) passes_.pop_back();
  if (was_under_way && passes_.empty()) failed_();
}

// A pass within another leaves it to that one.
void BackwardPasses::finish() {
  tidy();  // one within this one may have failed, and been caught
  passes_.pop_back();
  if (passes_.empty()) finished_();
}

}  // namespace lockstep::nn
