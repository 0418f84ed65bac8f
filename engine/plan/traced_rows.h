// SPDX-License-Identifier: Apache-2.0
// The rows of a plan while it is being optimized, each with what it moved in a traced step.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/plan/trace.h"

namespace lockstep {

// Where tensors are read by any but the moves of the plan, and which are written.
class Reads {
 public:
  explicit Reads(const PlanTrace& trace);
  bool any(const at::Tensor& tensor, Span span) const;
  // It, or a view of its memory, or of what it is a view of.
  bool is_written(const at::Tensor& tensor) const;
  Span from(size_t first) const { return {first, size_}; }

 private:
  std::map<const c10::TensorImpl*, std::vector<size_t>> at_;
  std::set<const void*> written_;  // memory
  size_t size_;
};

struct TracedMove {
  std::string module;
  at::Tensor came, left;
  size_t read;   // the first behind it
  size_t order;  // among all moves

  std::shared_ptr<std::optional<Placements>> gradient;  // of what left, at first

  bool moved() const;
  // Whether terms of its gradient are added up over several mesh dimensions, in whatever order.
  bool sums_several() const;
  // What is left goes by `next`.
  void goes_on(const TracedMove& next);
};

struct TracedRow {
  PlanRow row;
  std::vector<TracedMove> moves;
  bool gone = false;
};

struct TracedRows {
  // Throws Error for moves that the trace has no log of: it was made in another Context than the mesh's.
  TracedRows(const ParallelPlan& plan, const PlanTrace& trace);

  struct Taken {
    const TracedRow* row;
    const TracedMove* move;
  };
  // Moves of a tensor by rows that are not gone.
  std::vector<Taken> that_take(const at::Tensor& tensor) const;
  // The first paths of the modules that a row of this regular expression speaks of, sorted.
  std::vector<std::string> matched(const std::string& pattern) const;

  std::vector<TracedRow> rows;
  const PlanTrace& trace;
  Reads reads;
  std::vector<std::string> changes;
};

}  // namespace lockstep
