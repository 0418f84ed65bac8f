// SPDX-License-Identifier: Apache-2.0
// Static eager (veScale, section 4.3): a model's step is seen once, and then runs on the plain tensors that
// each rank has, without a decision, a redistribution, or a call of ours but for hooks.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/nn/module.h"
#include "engine/plan/plan.h"

namespace lockstep {

// What a call does whose inputs, parameters or mode are not those that were seen.
enum class OnChange {
  kEager,  // it runs eagerly, with all that it calls, and is counted
  kError,
};

struct StaticEagerOptions {
  OnChange on_change = OnChange::kEager;
  // Every op of forward() is compared with what was seen before it runs, its constants, too, as in a step of
  // eager mode. Without: the inputs, the modes, and the history that autograd has of the results.
  bool every_op = false;
};

// How a module's forward() runs, hooks apart.
struct StaticPart {
  std::string path;
  bool is_local = false;  // on plain tensors
  std::string why;        // not
  int64_t ops = 0;        // that it runs itself in a step, forward and backward
};

// While alive, the model's forward and backward passes run statically, wherever that is what they are. Law:
// with the bits of eager mode, or an Error.
//
// What a module computes itself runs on plain tensors where each op of it, forward and backward, has been
// seen to do on them, op for op and bit for bit, what it does on DTensors: with no redistribution that nobody
// asks for, no random draw, no value read, and no kernel that a rank's part needs of its own. Everything else
// runs as before. Hooks, of plans and of fully_shard, are given DTensors. Where a process hosts several
// ranks, a module is one that calls no hooks within it, and runs for each rank in turn.
//
// Seen after a call, not before: other ops of the same shapes. Not seen without `every_op`: other constants,
// as the dim of a softmax, and ops that have no gradient. Then the step ends in an Error, and nothing is to
// be kept of it.
class StaticEager {
 public:
  // Runs `step` several times, from the same random state, and leaves gradients and random state as they
  // were: eagerly, and until what runs on plain tensors is what ran eagerly.
  // @param step forward and backward passes of the model on DTensors, without updates
  // Throws Error where the model is not on the CPU, and what `step` throws.
  StaticEager(nn::Module& model, const std::function<void()>& step, const StaticEagerOptions& options = {});
  ~StaticEager();
  StaticEager(const StaticEager&) = delete;
  StaticEager& operator=(const StaticEager&) = delete;

  std::vector<StaticPart> parts() const;
  // What eager mode redistributes on the way forward though nobody asks for it, as rows of ops: a plan with
  // them redistributes nothing implicitly there, and gives the same bits.
  const ParallelPlan& plan() const;
  // The others, a comment each: "# on the way back: aten::mm, input 1: …".
  const std::string& on_the_way_back() const;
  // Calls on plain tensors, and those that ran eagerly since something had changed: why, and how often.
  int64_t static_calls() const;
  const std::map<std::string, int64_t>& eager_calls() const;

 private:
  class Model;
  std::unique_ptr<Model> model_;
};

// The rows of the plan, and then as comments how each module runs, and what is redistributed on the way back.
std::string to_string(const StaticEager& step);

}  // namespace lockstep
