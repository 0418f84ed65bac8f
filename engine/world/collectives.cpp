// SPDX-License-Identifier: Apache-2.0
#include "engine/world/collectives.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/world/fold.h"
#include "engine/world/group_fold.h"
#include "engine/world/observed.h"

namespace lockstep {
namespace {

// An exchange in which nothing is sent yet.
Exchange named(const char* op, const Groups& groups) {
  Exchange asked{op, PerRank<Part>(groups.size()), nullptr};
  for (size_t i = 0; i < groups.size(); ++i) asked.parts[i].group = &groups[i];
  return asked;
}

// A piece, or null: those after the last are empty.
const Slab* piece(const Buffers& pieces, size_t place) {
  return place < pieces.size() ? &pieces[place] : nullptr;
}

// For each place of the group, in order, a parcel, but none of no elements: where there are more ranks than
// rows most pieces are empty.
template <class F>
void by_place(std::vector<Parcel>& parcels, const Group& group, F&& tensor) {
  for (size_t place = 0; place < group.ranks.size(); ++place) {
    const auto* parcel = tensor(place);
    if (parcel == nullptr) return;
    if (parcel->numel() > 0) parcels.push_back({static_cast<int64_t>(place), *parcel});
  }
}

// The same of pieces that nobody else needs.
std::vector<Parcel> parcels(Buffers pieces) {
  std::vector<Parcel> result;
  result.reserve(pieces.size());
  for (size_t place = 0; place < pieces.size(); ++place)
    if (!pieces[place].empty()) result.push_back({static_cast<int64_t>(place), std::move(pieces[place])});
  return result;
}

// A parcel for each place, from `sent(i, place)`, and one from each, into `into(i, place)`.
template <class Sent, class Into>
Exchange among_all(const char* op, const Groups& groups, Sent&& sent, Into&& into) {
  auto asked = named(op, groups);
  for (size_t i = 0; i < groups.size(); ++i) {
    by_place(asked.parts[i].sent, groups[i], [&](size_t place) { return sent(i, place); });
    by_place(asked.parts[i].received, groups[i], [&](size_t place) { return into(i, place); });
  }
  return asked;
}

// All of a group send tensors of one form.
Exchange whole(const char* op, const Groups& groups, const PerRank<at::Tensor>& sent) {
  const auto own = [&](size_t i, size_t) { return &sent[i]; };
  return among_all(op, groups, own, own);
}

// What `fold` made of terms like `own`, of which none comes where there are no elements.
at::Tensor folded(const Fold& fold, const at::Tensor& own) {
  return own.numel() == 0 ? own.clone() : fold.result();
}

void deliver(at::Tensor& into, const at::Tensor& value) {
  if (into.defined())
    into.copy_(value);
  else
    into = value;
}

}  // namespace

Work all_gather(World& world, const Groups& groups, const PerRank<at::Tensor>& sent,
                const PerRank<Buffers>& into) {
  auto asked = among_all(
      "all_gather", groups, [&](size_t i, size_t) { return &sent[i]; },
      [&](size_t i, size_t place) { return piece(into[i], place); });
  return begin_exchange(world, std::move(asked));
}

Work all_gather(World& world, const Groups& groups, const PerRank<at::Tensor>& sent, Arrived arrived) {
  auto asked = whole("all_gather", groups, sent);
  asked.arrived = [arrived = std::move(arrived)](size_t i, size_t, const at::Tensor& t) { arrived(i, t); };
  return begin_exchange(world, std::move(asked));
}

Work all_gather(World& world, const Groups& groups, const PerRank<at::Tensor>& sent,
                const PerRank<const Buffers*>& forms, ArrivedPiece arrived) {
  auto asked = among_all(
      "all_gather", groups, [&](size_t i, size_t) { return &sent[i]; },
      [&](size_t i, size_t place) { return piece(*forms[i], place); });
  asked.arrived = std::move(arrived);
  return begin_exchange(world, std::move(asked));
}

Work all_to_all(World& world, const Groups& groups, PerRank<Buffers> sent, PerRank<Buffers> into) {
  auto asked = named("all_to_all", groups);
  for (size_t i = 0; i < groups.size(); ++i) {
    asked.parts[i].sent = parcels(std::move(sent[i]));
    asked.parts[i].received = parcels(std::move(into[i]));
  }
  return begin_exchange(world, std::move(asked));
}

Work broadcast(World& world, const Groups& groups, int64_t root, const PerRank<at::Tensor>& sent,
               const PerRank<at::Tensor>& into) {
  auto asked = named("broadcast", groups);
  for (size_t i = 0; i < groups.size(); ++i) {
    auto& part = asked.parts[i];
    if (groups[i].place != root)
      part.received.push_back({root, into[i]});
    else
      for (int64_t place = 0; place < static_cast<int64_t>(groups[i].ranks.size()); ++place)
        if (place != root) part.sent.push_back({place, sent[i]});
  }
  return begin_exchange(world, std::move(asked));
}

Work all_reduce(World& world, const Groups& groups, ReduceOp op, const PerRank<at::Tensor>& terms,
                PerRank<at::Tensor>& into) {
  const auto folds = std::make_shared<GroupFold>(groups, op, terms);
  auto asked = whole("all_reduce", groups, terms);
  asked.arrived = [folds](size_t i, size_t place, const at::Tensor& term) { folds->arrive(i, place, term); };
  return begin_exchange(world, std::move(asked)).then([folds, &into] {
    const auto results = folds->results();
    for (size_t i = 0; i < results.size(); ++i) deliver(into[i], results[i]);
  });
}

Work reduce_scatter(World& world, const Groups& groups, ReduceOp op, const PerRank<Buffers>& terms,
                    PerRank<at::Tensor>& into) {
  auto folds = std::make_shared<PerRank<Fold>>(groups.size(), Fold(op));
  Buffers own;  // what a rank receives has the form of what it sends itself
  for (size_t i = 0; i < groups.size(); ++i)
    own.push_back(terms[i][std::min(static_cast<size_t>(groups[i].place), terms[i].size() - 1)]);
  auto asked = among_all(
      "reduce_scatter", groups, [&](size_t i, size_t place) { return piece(terms[i], place); },
      [&](size_t i, size_t) { return &own[i]; });
  asked.arrived = [folds](size_t i, size_t, const at::Tensor& term) { (*folds)[i].add(term); };
  return begin_exchange(world, std::move(asked)).then([folds, own = std::move(own), &into] {
    for (size_t i = 0; i < folds->size(); ++i) deliver(into[i], folded((*folds)[i], own[i].tensor()));
  });
}

void barrier(World& world, const Groups& groups) {
  begin_exchange(world, named("barrier", groups)).wait();
}

}  // namespace lockstep
