// SPDX-License-Identifier: Apache-2.0
// All that a step of a model does, op by op: on DTensors (Timeline), and, of what runs on plain tensors, on
// them; and which module it did it for. What two runs of a step are compared by.
#pragma once
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/static_eager/site.h"
#include "engine/values/timeline.h"

namespace lockstep {

// A run of a module's forward(), or a call with its hooks. Those within it end before.
struct Stretch {
  Site* site;                      // null: hooks'
  Site* root;                      // of the region, if it is one
  int64_t rank;                    // hosted; -1: on DTensors, of all
  uint64_t first_node, last_node;  // before this one: the numbers of the nodes that autograd made meanwhile
  size_t first_entry, last_entry;  // of the timeline
};

// An op on plain tensors, as a text that an entry of the timeline has, too, whose op did the same on a rank.
struct PlainOp {
  std::string text;
  Site* site;  // who is to be demoted if it is not what DTensors do
  int64_t rank;
};

inline constexpr auto kForward =
    std::numeric_limits<uint64_t>::max();  // the number of what adds to a leaf, too

struct StepLog {
  Timeline timeline;
  // From this entry on: autograd's node, on the way back; or kForward.
  std::vector<std::pair<size_t, uint64_t>> nodes;
  std::vector<Stretch> stretches;  // in the order in which they end
  std::vector<PlainOp> plain;

  // The innermost one in which autograd made it. Null: in none.
  const Stretch* of_node(uint64_t node) const;
  // The innermost one on the way forward in which it was made. Null: in none.
  const Stretch* forward_of(size_t entry) const;
  // For which it was made, forward or backward. Null: for none.
  Site* of_entry(size_t entry) const;

 private:
  uint64_t node_of(size_t entry) const;
};

c10::OperatorHandle handle_of(const TimelineEntry& entry);

// Op, constants, and digests of what it read and gave on a hosted rank, at this position of the mesh.
std::string text_of(const TimelineEntry& entry, size_t rank, int64_t position);
// Op and constants alone, where sizes are a rank's own, the op.
std::string text_of_constants(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> args);
// Whose result has no values yet.
bool makes_mere_memory(std::string_view op);
// The first input whose values it reads.
size_t first_read(std::string_view op);
// Digests of what a plain op reads, or gives.
std::string text_of_values(at::ArrayRef<c10::IValue> values, bool are_results);

// Whether it is a redistribution along mesh dimensions of one rank alone, which plain tensors need not do.
bool moves_nothing(const TimelineEntry& entry);
// Whether a sum is one of its terms, so that it does not show in which order terms were added up.
bool adds_nothing(const TimelineEntry& entry);
// Whether all its tensors are on this mesh.
bool is_on(const TimelineEntry& entry, const DeviceMesh& mesh);
// Whether an op ran on each rank as libtorch's own does on plain tensors. If not, why.
std::string unlike_plain(const TimelineEntry& entry);

}  // namespace lockstep
