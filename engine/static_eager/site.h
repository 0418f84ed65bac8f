// SPDX-License-Identifier: Apache-2.0
// What has been seen of each module of a model in a step, and how it runs.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/nn/module.h"
#include "engine/static_eager/ends.h"
#include "engine/tensor/view_sizes.h"

namespace lockstep {

// One call of a module in a step.
struct SeenCall {
  std::vector<End> given;  // the call, before its hooks, and what they left
  End result;
  std::vector<End> given_inside;  // forward() alone
  End result_inside;
  std::vector<SizedCall> sizes;  // which forward() itself gives
  bool is_training = true, grad_mode = true;
  std::vector<uint64_t> graphs;  // of each hosted rank: the history that a region leaves
  std::vector<uint64_t> ops;     // that forward() itself runs on plain tensors, hashed
};

struct Site {
  nn::Module* module;
  std::string path;
  // Whether its forward() runs on what each rank has; if not, why.
  bool is_local = true;
  std::string why = "";
  size_t hooks = 0;                                   // as many as there were
  std::vector<std::shared_ptr<SeenCall>> calls = {};  // in turn
  size_t next = 0;                                    // of these
  std::vector<End> own = {};                          // parameters and buffers
  // Of a region that begins here: what it runs on plain tensors, itself first.
  std::vector<Site*> members = {};
  int64_t ops = 0;  // that forward() itself runs, in all calls

  void demote(std::string because) {
    if (!is_local) return;
    is_local = false;
    why = std::move(because);
  }
};

}  // namespace lockstep
