// SPDX-License-Identifier: Apache-2.0
// Faults of collectives: a World that loses, doubles, reorders, misroutes or corrupts what ranks receive.
#include <ATen/ATen.h>

#include <cmath>
#include <cstring>

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
  return at::where(t.abs() < least, at::zeros_like(t), t);
}

void bit_flipped(Arrived& all, const Groups&) {
  for (auto& pieces : all)
    if (pieces.size() > 1 && pieces.back().numel() > 0) {
      pieces.back() = pieces.back().clone(at::MemoryFormat::Contiguous);
      static_cast<char*>(pieces.back().data_ptr())[0] ^= 1;
    }
}

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
      {23, "short-piece-lost", "K7", "a piece shorter than the first is lost", "redistribute", 300, 1,
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
  };
}

}  // namespace lockstep::suites::plant
