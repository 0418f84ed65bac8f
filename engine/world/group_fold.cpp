// SPDX-License-Identifier: Apache-2.0
#include "engine/world/group_fold.h"

#include <ATen/ATen.h>

#include <map>

#include "engine/values/as_size.h"
#include "engine/world/bits.h"
#include "engine/world/share.h"

namespace lockstep {

GroupFold::GroupFold(const Groups& groups, ReduceOp op, PerRank<at::Tensor> terms)
    : op_(op), terms_(std::move(terms)), leads_(groups.size()), folds_(groups.size()) {
  std::map<int64_t, size_t> firsts;
  for (size_t i = 0; i < groups.size(); ++i) {
    const size_t first = firsts.emplace(groups[i].ranks.front(), i).first->second;
    first_.push_back(first);
    auto& lead = leads_[first];
    if (first == i) {
      folds_[i].emplace(op);
      lead.sent.resize(groups[i].ranks.size());
      lead.as_sent.resize(groups[i].ranks.size());
    }
    lead.sent[as_size(groups[i].place)] = &terms_[i];
  }
}

void GroupFold::arrive(size_t i, size_t place, const at::Tensor& term) {
  auto& lead = leads_[first_[i]];
  const bool as_sent = lead.sent[place] != nullptr && term.is_same(*lead.sent[place]);
  if (i == first_[i]) lead.as_sent[place] = as_sent;
  if (!folds_[i].has_value()) {
    if (as_sent && lead.as_sent[place]) return;
    folds_[i].emplace(op_);  // up to here all have come as they were sent
    for (size_t before = 0; before < place; ++before) folds_[i]->add(*lead.sent[before]);
  }
  folds_[i]->add(term);
}

// Where there are no elements no term comes.
at::Tensor GroupFold::folded(size_t i) const {
  return terms_[i].numel() == 0 ? terms_[i].clone() : folds_[i]->result();
}

PerRank<at::Tensor> GroupFold::results() const {
  PerRank<at::Tensor> results;
  for (size_t i = 0; i < folds_.size(); ++i) {
    const auto own = folds_[i].has_value() ? folded(i) : at::Tensor();
    const bool alone = i == first_[i] || (own.defined() && !same_bits(own, results[first_[i]]));
    results.push_back(alone ? own : shared_copy(results[first_[i]]));
  }
  return results;
}

}  // namespace lockstep
