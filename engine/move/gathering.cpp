// SPDX-License-Identifier: Apache-2.0
#include "engine/move/gathering.h"

#include <ATen/ATen.h>

#include <map>

#include "engine/values/as_size.h"
#include "engine/world/bits.h"
#include "engine/world/share.h"

namespace lockstep {

Gathering::Gathering(const Groups& groups, const PerRank<at::Tensor>& sent,
                     std::function<Whole(size_t i)> make)
    : make_(std::move(make)), wholes_(groups.size()), leads_(groups.size()) {
  std::map<int64_t, size_t> firsts;
  for (size_t i = 0; i < groups.size(); ++i) {
    const size_t first = firsts.emplace(groups[i].ranks.front(), i).first->second;
    first_.push_back(first);
    auto& lead = leads_[first];
    if (first == i) {
      wholes_[i] = make_(i);
      lead.sent.resize(groups[i].ranks.size());
      lead.came.resize(groups[i].ranks.size());
      for (size_t place = 0; place < wholes_[i]->pieces.size(); ++place)
        if (wholes_[i]->pieces[place].numel() > 0) lead.places.push_back(place);
    }
    lead.sent[as_size(groups[i].place)] = &sent[i];
  }
}

PerRank<const Buffers*> Gathering::forms() const {
  PerRank<const Buffers*> forms;
  for (const size_t first : first_) forms.push_back(&wholes_[first]->pieces);
  return forms;
}

// What is sent does not change while it is in flight, so the very tensor again needs no second look.
bool Gathering::has_come(size_t first, size_t place, const at::Tensor& piece) const {
  const auto& lead = leads_[first];
  if (lead.came[place] == Came::kNot) return false;
  if (lead.came[place] == Came::kAsSent && piece.is_same(*lead.sent[place])) return true;
  return same_bits(wholes_[first]->pieces[place].tensor(), piece);
}

// From the first of its group, with which it has all before this place in common.
void Gathering::part(size_t i, size_t place) {
  const size_t first = first_[i];
  wholes_[i] = make_(i);
  for (const size_t before : leads_[first].places) {
    if (before == place) return;
    copy_bits(wholes_[i]->pieces[before], wholes_[first]->pieces[before]);
  }
}

void Gathering::arrive(size_t i, size_t k, const at::Tensor& piece) {
  const size_t first = first_[i];
  auto& lead = leads_[first];
  const size_t place = lead.places[k];
  if (!wholes_[i].has_value()) {
    if (has_come(first, place, piece)) return;
    part(i, place);
  }
  copy_bits(wholes_[i]->pieces[place], piece);
  if (i != first) return;
  const bool as_sent = lead.sent[place] != nullptr && piece.is_same(*lead.sent[place]);
  lead.came[place] = as_sent ? Came::kAsSent : Came::kOther;
}

PerRank<at::Tensor> Gathering::result() && {
  PerRank<at::Tensor> result;
  for (size_t i = 0; i < wholes_.size(); ++i)
    result.push_back(wholes_[i].has_value() ? wholes_[i]->local : shared_copy(wholes_[first_[i]]->local));
  return result;
}

}  // namespace lockstep
