// SPDX-License-Identifier: Apache-2.0
// Faults of what gives a redistribution in another form (engines/forms.h): lists, functional collectives,
// padded locals; and of moves to other ranks.
#include <ATen/ATen.h>

#include <map>
#include <numeric>

#include "engine/world/world.h"
#include "oracle/program/statements.h"
#include "suites/engines/make_engine.h"
#include "suites/faults/tables.h"

namespace lockstep::suites::plant {
namespace {

// Changes what is asked for; what it returns, if anything, comes after the wait.
using Change = std::function<void()> (*)(Exchange& asked);

class ChangingWorld final : public World {
 public:
  ChangingWorld(WorldPtr world, Change change) : World(*world), world_(std::move(world)), change_(change) {}
  Library* library() override { return world_->library(); }
  Work exchange(Exchange asked) override {
    auto after = change_(asked);
    auto work = world_->exchange(std::move(asked));
    return after ? std::move(work).then(std::move(after)) : std::move(work);
  }

 private:
  WorldPtr world_;
  const Change change_;
};

template <Change change>
Plant changing() {
  return with_world(
      [](WorldPtr world) -> WorldPtr { return std::make_shared<ChangingWorld>(std::move(world), change); });
}

// What one place sends of a second tensor, in a list: the parcel, and that of the first tensor; by part.
using Seconds = PerRank<std::map<size_t, size_t>>;
Seconds seconds(const Exchange& asked) {
  Seconds found(asked.parts.size());
  for (size_t i = 0; i < asked.parts.size(); ++i) {
    const auto& received = asked.parts[i].received;
    std::map<int64_t, size_t> first;  // by place
    for (size_t k = 0; k < received.size(); ++k) {
      const auto [at, fresh] = first.emplace(received[k].place, k);
      if (!fresh && same_sizes(received[at->second].slab, received[k].slab)) found[i].emplace(k, at->second);
    }
  }
  return found;
}

std::function<void()> list_entries_swapped(Exchange& asked) {
  if (!asked.arrived) return nullptr;
  PerRank<std::vector<size_t>> to;
  const auto pairs = seconds(asked);
  for (size_t i = 0; i < pairs.size(); ++i) {
    auto& own = to.emplace_back(asked.parts[i].received.size());
    std::iota(own.begin(), own.end(), size_t{0});
    for (const auto& [second, first] : pairs[i]) std::swap(own[first], own[second]);
  }
  asked.arrived = [to = std::move(to), honest = std::move(asked.arrived)](
                      size_t i, size_t k, const at::Tensor& t) { honest(i, to[i][k], t); };
  return nullptr;
}

std::function<void()> list_tail_lost(Exchange& asked) {
  if (!asked.arrived) return nullptr;
  asked.arrived = [lost = seconds(asked), honest = std::move(asked.arrived)](size_t i, size_t k,
                                                                             const at::Tensor& t) {
    honest(i, k, lost[i].contains(k) ? at::ones_like(t) : t);
  };
  return nullptr;
}

std::function<void()> newcomer_gets_nothing(Exchange& asked) {
  std::vector<Parcel> lost;
  if (asked.op == std::string_view("exchange"))
    for (const auto& part : asked.parts)
      if (part.sent.empty()) lost.insert(lost.end(), part.received.begin(), part.received.end());
  return [lost = std::move(lost)] {
    for (const auto& parcel : lost) parcel.tensor().zero_();
  };
}

bool alike(const Received& pieces) {
  for (const auto& piece : pieces)
    if (piece.sizes() != pieces.front().sizes()) return false;
  return true;
}

void gather_reversed(Arrived& all, const Groups&) {
  for (auto& pieces : all)
    if (alike(pieces)) std::reverse(pieces.begin(), pieces.end());
}

void complete_on_first(Arrived& all, const Groups& groups) {
  for (size_t i = 0; i < all.size(); ++i)
    if (groups[i].place > 0) all[i].back() = at::ones_like(all[i].back());
}

// Of a mesh of some of the ranks, the first and the last.
DeviceMesh neighbours_exchanged(const DeviceMesh& whole, const DeviceMesh& made) {
  if (made.size() == whole.size()) return made;
  auto ranks = made.ranks();
  std::swap(ranks.front(), ranks.back());
  return DeviceMesh(made.shape(), {}, std::move(ranks)).on(made.device_type());
}

std::string another_dimension(const DeviceMesh& mesh, int64_t mesh_dim) {
  return mesh.names()[static_cast<size_t>((mesh_dim + 1) % mesh.ndim())];
}

std::string nobody(const DeviceMesh&, int64_t) {
  return "nobody";
}

void padding_first(PerRank<at::Tensor>& padded, const PerRank<at::Tensor>& own) {
  for (size_t i = 0; i < padded.size(); ++i)
    for (int64_t d = 0; d < own[i].dim(); ++d)
      if (const auto more = padded[i].size(d) - own[i].size(d); more > 0) padded[i] = padded[i].roll(more, d);
}

Plant with_forms(SpoilForms forms) {
  return [=] { return make_engine("lockstep", {.forms = forms}); };
}

}  // namespace

std::vector<Fault> form_faults() {
  const auto moves = on_ranks(calls(oracle::kRedistribute));
  return {
      {229, "list-entries-swapped", "K6", "two tensors of a list get what comes for each other",
       "redistribute", 1000, 2, moves, changing<list_entries_swapped>()},
      {230, "group-of-another-dimension", "K2",
       "a functional collective is called for another mesh dimension", "redistribute", 2000, 2, moves,
       with_forms({.group = another_dimension})},
      {231, "gather-reversed", "K6", "a gather puts pieces together from the last to the first",
       "redistribute", 300, 1, moves, with_received(gather_reversed, nullptr)},
      {232, "other-ranks-exchanged", "K2",
       "on a mesh of some of the ranks the first one gets what is for the last", "redistribute", 1000, 2,
       moves, with_meshes(neighbours_exchanged)},
      {233, "padding-read", "K7", "padded locals are read from the padding on", "redistribute", 1000, 2,
       moves, with_forms({.padded = padding_first})},
      {234, "list-tail-lost", "K1", "of a list the first tensor alone arrives", "redistribute", 1000, 2,
       moves, changing<list_tail_lost>()},
      {235, "newcomer-gets-nothing", "K7", "a rank that sends nothing in an exchange receives nothing",
       "redistribute", 1000, 2, moves, changing<newcomer_gets_nothing>()},
      {236, "complete-on-first", "K14", "what is gathered is complete on the first rank of a group alone",
       "redistribute", 300, 1, moves, with_received(complete_on_first, nullptr)},
      {253, "collectives-refused", "K15", "functional collectives refuse whatever they are given",
       "redistribute", 1000, 2, moves, with_forms({.group = nobody})},
  };
}

}  // namespace lockstep::suites::plant
