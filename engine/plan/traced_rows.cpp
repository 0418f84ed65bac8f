// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/traced_rows.h"

#include <algorithm>
#include <regex>

#include "engine/tensor/dtensor.h"
#include "engine/values/error.h"

namespace lockstep {

// Of the first hosted rank, which stands for all; where none is, the tensor's own, of which nothing is read.
static const void* memory_of(const at::Tensor& dtensor) {
  const auto& locals = local_tensors(dtensor);
  if (locals.empty()) return dtensor.unsafeGetTensorImpl();
  return locals[0].storage().unsafeGetStorageImpl();
}

Reads::Reads(const PlanTrace& trace) : size_(trace.given.size()) {
  std::vector<bool> is_move(size_);
  for (const auto& move : trace.moves)
    for (size_t i = move.given.first; i < move.given.last; ++i) is_move[i] = true;
  for (size_t i = 0; i < size_; ++i)
    if (const auto& [tensor, is_written] = trace.given[i]; tensor.defined()) {
      if (!is_move[i]) at_[tensor.unsafeGetTensorImpl()].push_back(i);
      if (is_written && is_dtensor(tensor)) written_.insert(memory_of(tensor));
    }
}

bool Reads::is_written(const at::Tensor& tensor) const {
  return written_.count(memory_of(tensor)) > 0;
}

bool Reads::any(const at::Tensor& tensor, Span span) const {
  const auto found = at_.find(tensor.unsafeGetTensorImpl());
  return found != at_.end() &&
         std::any_of(found->second.begin(), found->second.end(), [&](size_t i) { return span.holds(i); });
}

bool TracedMove::moved() const {
  return placements(came) != placements(left);
}

bool TracedMove::sums_several() const {
  return gradient != nullptr && *gradient &&
         std::count_if((*gradient)->begin(), (*gradient)->end(), [](auto& p) { return is_partial(p); }) > 1;
}

void TracedMove::goes_on(const TracedMove& next) {
  left = next.left;
  read = std::max(read, next.read);
}

TracedRows::TracedRows(const ParallelPlan& plan, const PlanTrace& traced) : trace(traced), reads(traced) {
  for (const auto& row : plan.rows()) rows.push_back({row, {}});
  for (size_t order = 0; order < trace.moves.size(); ++order) {
    const auto& move = trace.moves[order];
    LOCKSTEP_CHECK(
        move.came.is_same(move.left) || move.given.first < move.given.last, "[plan] ", move.row,
        " moved a tensor, which the trace has not seen; trace the model in the Context in which its "
        "mesh was made");
    const auto found =
        std::find_if(rows.begin(), rows.end(), [&](const TracedRow& row) { return row.row == move.row; });
    LOCKSTEP_CHECK(found != rows.end(), "[plan] the trace has a row that is not in the plan: ", move.row,
                   "; trace the model under this plan");
    found->moves.push_back({move.module, move.came, move.left, move.given.last, order, move.gradient});
  }
}

std::vector<TracedRows::Taken> TracedRows::that_take(const at::Tensor& tensor) const {
  std::vector<Taken> taken;
  for (const auto& row : rows)
    for (const auto& move : row.moves)
      if (!row.gone && move.came.is_same(tensor)) taken.push_back({&row, &move});
  return taken;
}

std::vector<std::string> TracedRows::matched(const std::string& pattern) const {
  const std::regex regex(pattern);
  std::vector<std::string> all;
  for (const auto& paths : trace.modules)
    if (std::any_of(paths.begin(), paths.end(), [&](auto& path) { return std::regex_match(path, regex); }))
      all.push_back(paths.front());
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace lockstep
