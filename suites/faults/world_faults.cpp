// SPDX-License-Identifier: Apache-2.0
// Faults of collectives: a World that loses, doubles, reorders, misroutes or corrupts what ranks receive; and
// of the meshes in which ranks meet.
#include <ATen/ATen.h>

#include <cmath>
#include <cstring>
#include <map>

#include "engine/world/world.h"
#include "oracle/program/statements.h"
#include "suites/faults/tables.h"

namespace lockstep::suites::plant {
namespace {

bool same_shape(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
}

bool floats(const at::Tensor& t) {
  return at::isFloatingType(t.scalar_type());
}

void term_lost(Arrived& all, const Groups&) {
  for (auto& pieces : all)
    if (pieces.size() > 1) pieces.back() = at::zeros_like(pieces.back());
}

void term_doubled(Arrived& all, const Groups&) {
  for (auto& pieces : all)
    if (pieces.size() > 1 && same_shape(pieces.front(), pieces.back())) pieces.back() = pieces.front();
}

void neighbour_group(Arrived& all, const Groups& groups) {
  const auto honest = all;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i + 1; j < i + all.size(); ++j) {
      const auto& other = groups[j % all.size()];
      if (other.ranks == groups[i].ranks || other.ranks.size() != groups[i].ranks.size()) continue;
      for (size_t k = 0; k < all[i].size(); ++k)
        if (same_shape(all[i][k], honest[j % all.size()][k])) all[i][k] = honest[j % all.size()][k];
      break;
    }
}

void next_rank(Arrived& all, const Groups&) {
  for (auto& pieces : all) {
    const auto honest = pieces;
    for (size_t k = 0; k < pieces.size(); ++k) {
      const auto& next = honest[(k + 1) % honest.size()];
      if (same_shape(pieces[k], next)) pieces[k] = next;
    }
  }
}

void pieces_swapped(Arrived& all, const Groups&) {
  for (auto& pieces : all)
    if (pieces.size() > 1 && same_shape(pieces[0], pieces[1])) std::swap(pieces[0], pieces[1]);
}

void exchange_reversed(Arrived& all, const Groups&) {
  for (auto& pieces : all)
    for (size_t k = 0; k < pieces.size() / 2; ++k)
      if (auto& other = pieces[pieces.size() - 1 - k]; same_shape(pieces[k], other))
        std::swap(pieces[k], other);
}

void short_piece_lost(Arrived& all, const Groups&) {
  for (auto& pieces : all)
    for (auto& piece : pieces)
      if (piece.numel() < pieces.front().numel()) piece = at::zeros_like(piece);
}

at::Tensor zero_sign_lost(const at::Tensor& t) {
  return floats(t) ? t + 0.0 : t;
}

at::Tensor nan_dropped(const at::Tensor& t) {
  return floats(t) ? at::where(at::isnan(t), at::full_like(t, -INFINITY), t) : t;
}

at::Tensor denormals_flushed(const at::Tensor& t) {
  if (t.scalar_type() != at::kFloat && t.scalar_type() != at::kDouble) return t;
  const double least = t.scalar_type() == at::kFloat ? 1.1754943508222875e-38 : 2.2250738585072014e-308;
  return at::where(t.abs().lt(least).logical_and(t.ne(0)), at::zeros_like(t), t);
}

void bit_flipped(Arrived& all, const Groups&) {
  for (auto& pieces : all)
    if (pieces.size() > 1 && pieces.back().numel() > 0) {
      pieces.back() = pieces.back().clone(at::MemoryFormat::Contiguous);
      static_cast<char*>(pieces.back().data_ptr())[0] ^= 1;
    }
}

void wait_lost(Arrived& all, const Groups& groups) {
  if (all.size() < 2 || groups.back().ranks.size() < 2) return;
  for (auto& piece : all.back()) piece = at::zeros_like(piece);
}

void buffers_swapped(Arrived& all, const Groups& groups) {
  for (size_t i = 0; i + 1 < all.size(); ++i)
    for (size_t j = i + 1; j < all.size(); ++j) {
      if (groups[i].ranks != groups[j].ranks) continue;
      for (size_t k = 0; k < all[i].size(); ++k)
        if (same_shape(all[i][k], all[j][k])) std::swap(all[i][k], all[j][k]);
      return;
    }
}

void own_piece_lost(Arrived& all, const Groups& groups) {
  for (size_t i = 0; i < all.size(); ++i) {
    auto& own = all[i][static_cast<size_t>(groups[i].place)];
    if (all[i].size() > 1) own = at::zeros_like(own);
  }
}

// What is spoilt of the pieces of other ranks, as flat copies.
template <void (*spoil)(at::Tensor& flat)>
void in_each(Arrived& all, const Groups& groups) {
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = 0; k < all[i].size(); ++k) {
      if (static_cast<int64_t>(k) == groups[i].place || all[i][k].numel() < 2) continue;
      auto flat = all[i][k].reshape({-1}).clone();
      spoil(flat);
      all[i][k] = flat.view(all[i][k].sizes());
    }
}

void short_read(at::Tensor& flat) {
  const auto half = flat.numel() / 2;
  flat.narrow(0, half, flat.numel() - half).zero_();
}

void offset_by_one(at::Tensor& flat) {
  flat = flat.roll(1);
}

void empty_ends_all(Arrived& all, const Groups&) {
  for (auto& pieces : all) {
    bool after = false;
    for (auto& piece : pieces) {
      if (after) piece = at::zeros_like(piece);
      after |= piece.numel() == 0;
    }
  }
}

at::Tensor sent_in_half(const at::Tensor& t) {
  return t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble
             ? t.to(at::kBFloat16).to(t.scalar_type())
             : t;
}

// What was sent of this form by whoever came last is sent: the buffer is read before it is written anew.
WorldFault read_early() {
  const auto last = std::make_shared<std::map<std::string, at::Tensor>>();
  WorldFault fault;
  fault.sent = [last](const at::Tensor& t) {
    const auto now = t.detach().clone();
    const auto before = std::exchange((*last)[form(t)], now);
    return before.defined() ? before : now;
  };
  return fault;
}

// The handle of the exchange before, of the same forms, is waited for instead.
WorldFault handle_stale() {
  const auto last = std::make_shared<Arrived>();
  WorldFault fault;
  fault.exchanged = [last](Arrived& all, const Groups&) {
    const auto honest = all;
    for (size_t i = 0; i < std::min(last->size(), all.size()); ++i)
      for (size_t k = 0; k < std::min((*last)[i].size(), all[i].size()); ++k)
        if (same_shape((*last)[i][k], all[i][k])) all[i][k] = (*last)[i][k];
    *last = honest;
  };
  fault.gathered = fault.exchanged;
  return fault;
}

// The last rank that a broadcast is for has what lay in its buffer before.
class LostBroadcast final : public World {
 public:
  explicit LostBroadcast(WorldPtr world) : World(*world), world_(std::move(world)) {}
  Library* library() override { return world_->library(); }

  Work exchange(Exchange asked) override {
    if (asked.op != std::string_view("broadcast") || asked.parts.size() < 2)
      return world_->exchange(std::move(asked));
    const auto lost = asked.parts.back().received;
    return world_->exchange(std::move(asked)).then([lost] {
      for (const auto& parcel : lost) parcel.tensor().zero_();
    });
  }

 private:
  WorldPtr world_;
};

// The buffer begins empty with each run, so that a case alone shows it: in its second gather of a shape.
WorldFault one_rank_stale() {
  const auto last = std::make_shared<Received>();
  WorldFault fault;
  fault.gathered = [last](Arrived& all, const Groups&) {
    if (all.size() < 2) return;
    const auto honest = all.back();
    for (size_t k = 0; k < std::min(last->size(), honest.size()); ++k)
      if (same_shape((*last)[k], honest[k])) all.back()[k] = (*last)[k];
    last->clear();
    for (const auto& piece : honest) last->push_back(piece.clone());
  };
  return fault;
}

// The flattened mesh counts along the first dimension first.
DeviceMesh column_major(const DeviceMesh& whole, const DeviceMesh& made) {
  if (made.size() != whole.size()) return made;
  std::vector<int64_t> ranks(whole.ranks().size());
  for (int64_t p = 0; p < whole.size(); ++p) {
    const auto at = whole.coordinate(p);
    int64_t place = 0;
    for (int64_t d = whole.ndim() - 1; d >= 0; --d)
      place = place * whole.size(d) + at[static_cast<size_t>(d)];
    ranks[static_cast<size_t>(place)] = whole.ranks()[static_cast<size_t>(p)];
  }
  return DeviceMesh(made.shape(), made.has_names() ? made.names() : std::vector<std::string>{}, ranks);
}

// A mesh of some dimensions counts its ranks from the last.
DeviceMesh counted_down(const DeviceMesh& whole, const DeviceMesh& made) {
  if (made.size() == whole.size()) return made;
  return DeviceMesh(made.shape(), made.names(), {made.ranks().rbegin(), made.ranks().rend()});
}

// A mesh to which tensors go has its ranks in the order of the one from which they come.
DeviceMesh as_before(const DeviceMesh& whole, const DeviceMesh& made) {
  if (made.size() != whole.size()) return made;
  return DeviceMesh(made.shape(), {}, whole.ranks()).on(made.device_type());
}

}  // namespace

std::vector<Fault> world_faults() {
  return {
      {0, "term-lost", "K1", "the last rank's term of a reduction is lost", "redistribute", 300, 1,
       many_ranks, with_received(term_lost, term_lost)},
      {1, "term-doubled", "K1", "the first rank's term stands in for the last's", "redistribute", 300, 1,
       many_ranks, with_received(term_doubled, term_doubled)},
      {6, "neighbour-group", "K2", "a gather along one mesh dimension reads the neighbouring group",
       "redistribute", 300, 1, many_ranks, with_received(neighbour_group, nullptr)},
      {7, "next-rank", "K2", "each piece comes from the next rank of the group", "redistribute", 300, 1,
       many_ranks, with_received(next_rank, nullptr)},
      {18, "pieces-swapped", "K6", "the first two pieces of a collective are swapped", "redistribute", 300, 1,
       many_ranks, with_received(pieces_swapped, pieces_swapped)},
      {19, "exchange-reversed", "K6", "an all-to-all delivers in reverse order", "redistribute", 500, 1,
       many_ranks, with_received(nullptr, exchange_reversed)},
      {23, "short-piece-lost", "K7", "a piece shorter than the first is lost", "redistribute", 300, 3,
       many_ranks, with_received(short_piece_lost, short_piece_lost)},
      {55, "zero-sign-lost", "K13", "-0.0 becomes +0.0 on the wire", "redistribute", 500, 2, many_ranks,
       with_sent(zero_sign_lost)},
      {56, "nan-dropped", "K13", "a NaN loses against numbers", "redistribute", 500, 1, many_ranks,
       with_sent(nan_dropped)},
      {57, "denormals-flushed", "K13", "denormals become zero on the wire", "redistribute", 500, 1,
       many_ranks, with_sent(denormals_flushed)},
      {58, "bit-flipped", "K14", "one bit of one piece is flipped", "redistribute", 300, 1, many_ranks,
       with_received(bit_flipped, bit_flipped)},
      {59, "one-rank-stale", "K14", "one rank reads the buffer of the gather before", "redistribute", 1000, 2,
       many_ranks, with_world_made(one_rank_stale)},
      {112, "flat-column-major", "K2", "a flattened mesh counts its ranks column by column", "edges", 1000, 3,
       on_ranks(calls(oracle::kMeshMap)), with_meshes(column_major)},
      {113, "sub-mesh-counted-down", "K6", "a mesh of some dimensions counts its ranks from the last",
       "edges", 500, 3, on_ranks(calls(oracle::kMeshMap)), with_meshes(counted_down)},
      {165, "other-mesh-in-order", "K6", "on another mesh ranks stand in the order of the one before",
       "redistribute", 200, 1, on_ranks(calls(oracle::kRedistribute)), with_meshes(as_before)},
      {85, "wait-lost", "K14", "nobody waits for what the last rank receives", "redistribute", 300, 1,
       many_ranks, with_received(wait_lost, wait_lost)},
      {86, "handle-stale", "K14", "the exchange before is waited for instead, where it had the same forms",
       "redistribute", 1000, 3, many_ranks, with_world_made(handle_stale)},
      {87, "buffers-swapped", "K6", "two ranks of a group have their buffers swapped", "redistribute", 300, 1,
       many_ranks, with_received(nullptr, buffers_swapped)},
      {88, "exchange-of-neighbour", "K2", "an exchange along one mesh dimension reads the neighbouring group",
       "redistribute", 500, 1, many_ranks, with_received(nullptr, neighbour_group)},
      {89, "own-piece-lost", "K6", "a rank does not keep its own piece of a collective", "redistribute", 300,
       1, many_ranks, with_received(own_piece_lost, own_piece_lost)},
      {90, "short-read", "K14", "the second half of each piece has not arrived when it is read",
       "redistribute", 300, 1, many_ranks, with_received(in_each<short_read>, in_each<short_read>)},
      {91, "offset-by-one", "K9", "each piece is unpacked one element too far", "redistribute", 300, 1,
       many_ranks, with_received(in_each<offset_by_one>, in_each<offset_by_one>)},
      {92, "empty-ends-all", "K7", "what comes after an empty piece is lost", "redistribute", 500, 1,
       many_ranks, with_received(empty_ends_all, empty_ends_all)},
      {93, "sent-in-half", "K13", "numbers go over the wire as bf16", "redistribute", 300, 1, many_ranks,
       with_sent(sent_in_half)},
      {94, "read-early", "K14",
       "a buffer is sent before it is written anew: with what was sent of this form before", "redistribute",
       1000, 3, many_ranks, with_world_made(read_early)},
      {95, "broadcast-lost", "K14", "a broadcast does not reach the last rank", "layout", 300, 1, many_ranks,
       with_world(
           [](WorldPtr world) -> WorldPtr { return std::make_shared<LostBroadcast>(std::move(world)); })},
  };
}

}  // namespace lockstep::suites::plant
