// SPDX-License-Identifier: Apache-2.0
// What the engine does, as it happens: calls of modules, operators, redistributions, collectives, each with
// when it was and within what. Nothing is recorded, and nothing costs more than a look, unless a Recording is
// alive.
#pragma once
#include <c10/util/ThreadLocalDebugInfo.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/values/spec.h"

namespace lockstep {

enum class ActivityKind { kModule, kOp, kRedistribution, kCollective };
const char* name(ActivityKind kind);  // "module", "op", "redistribution", "collective"

// A row that an op could have taken along one mesh dimension, beside those chosen before.
struct Candidate {
  int64_t element = -1;  // of a list op; -1: it is none
  int64_t mesh_dim = 0;
  Placements inputs,
      outputs;       // by tensor, as the rule has them; of plain and undefined ones they say nothing
  double bytes = 0;  // that each rank would receive, roughly: by which the cheapest is chosen
  bool chosen = false;
};
using Candidates = std::vector<Candidate>;

// A step of a redistribution.
struct MovedBytes {
  std::string collective;  // "all_gather", "slice"
  std::string along;       // the name of a mesh dimension, "mesh dimension 1", "all mesh dimensions"
  int64_t bytes = 0;       // received from other ranks, all ranks together
};

struct Activity {
  ActivityKind kind{};
  std::string name;  // "Llama.layers.0", "aten::mm", "lockstep::redistribute", "all_gather"
  // A module's class; of a collective the op that asked for it, or "".
  std::string what = {};
  bool implicit = false;  // a redistribution that the engine inserted
  // DTensors as an op was given them, as it ran on them, and its results; of a redistribution where it begins
  // and ends. Null: plain or undefined.
  std::vector<SpecPtr> given = {}, placed = {}, outputs = {};
  std::shared_ptr<const Candidates> candidates = nullptr;  // of an op, where they were asked for
  std::vector<MovedBytes> moved = {};                      // of a redistribution
  int64_t bytes = 0;  // of a collective: received from other ranks by those that are hosted here

  // The log fills in:
  int64_t within = -1;      // the number of what it is a part of; -1: of nothing
  std::string module = {};  // the path of the module that did it; "": none
  bool backward = false;
  int64_t begin = 0, end = -1;  // nanoseconds since the log was made; -1: it has not ended
  bool overlaps = false;        // a collective that went on while other things were done
};

// One thread uses it at a time.
class ActivityLog {
 public:
  explicit ActivityLog(bool wants_candidates = false);

  // In the order in which they began. Law: what is within another, and does not overlap, ends before it.
  const std::vector<Activity>& all() const { return all_; }
  bool wants_candidates() const { return wants_candidates_; }
  // Nanoseconds since 1970, of its making.
  int64_t made() const { return made_; }

  // @returns its number, by which it ends
  size_t begin(Activity activity);
  void end(size_t number);

  // What is known of modules, and of leaves whose gradients they get; by address.
  std::string& path_of(const void* module) { return paths_[module]; }
  void owns(const void* leaf, std::string module) { owners_[leaf] = std::move(module); }
  // The candidates of a decision, asked for once.
  std::shared_ptr<const Candidates>& candidates_of(std::shared_ptr<const void> decision) {
    return candidates_[std::move(decision)];
  }

 private:
  // A call of a module, and the nodes that autograd made in it.
  struct Call {
    uint64_t first, last;  // [first, last), of their sequence numbers
    int64_t outer;         // the call that this one is in; -1: none
    size_t number;
  };
  int64_t now() const;
  const Call* call_of(uint64_t node) const;
  // Forward it is the innermost that runs, backward the one whose node does, or whose leaf gets its gradient.
  std::string module_now() const;
  // Collectives that have not ended when something else begins, or ends, overlap it.
  void let_go();

  const bool wants_candidates_;
  const int64_t made_, origin_;
  std::vector<Activity> all_;
  std::vector<size_t> open_;        // the innermost last
  std::vector<Call> calls_;         // in the order in which they began
  std::vector<size_t> open_calls_;  // of these
  std::unordered_map<const void*, std::string> paths_, owners_;
  std::map<std::shared_ptr<const void>, std::shared_ptr<const Candidates>> candidates_;
};
using ActivityLogPtr = std::shared_ptr<ActivityLog>;

// While alive, `log` gets what this thread does, and what those do that libtorch starts for it; that of an
// outer one gets nothing. A null log: nobody gets it.
class Recording {
 public:
  explicit Recording(ActivityLogPtr log);

 private:
  c10::DebugInfoGuard guard_;
};
// That of the innermost Recording; null: nobody records.
ActivityLogPtr recording();

// While alive, this is being done: `what(log)`, which is asked only where somebody records.
class Active {
 public:
  template <class F>
  explicit Active(F&& what) : log_(recording()) {
    if (log_ != nullptr) number_ = log_->begin(what(*log_));
  }
  ~Active() {
    if (log_ != nullptr) log_->end(number_);
  }
  Active(const Active&) = delete;
  Active& operator=(const Active&) = delete;

 private:
  const ActivityLogPtr log_;
  size_t number_ = 0;
};

}  // namespace lockstep
