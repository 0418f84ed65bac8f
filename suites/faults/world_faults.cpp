// SPDX-License-Identifier: Apache-2.0
// Faults of collectives: a World that loses, doubles, reorders, misroutes or corrupts what ranks receive.
#include <ATen/ATen.h>

#include <cmath>
#include <cstring>

#include "suites/faults/planters.h"

namespace lockstep::suites::plant {
namespace {

using Hook = std::function<void(PerRank<Received>&, const std::vector<Group>&)>;

EnginePtr gathered(Hook hook) {
  WorldFault fault;
  fault.gathered = std::move(hook);
  return with_world(std::move(fault));
}

// The same mistake in both collectives.
EnginePtr received(const Hook& hook) {
  WorldFault fault;
  fault.gathered = hook;
  fault.exchanged = hook;
  return with_world(std::move(fault));
}

EnginePtr sent(std::function<at::Tensor(const at::Tensor&)> hook) {
  WorldFault fault;
  fault.sent = std::move(hook);
  return with_world(std::move(fault));
}

bool same_shape(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
}

bool floats(const at::Tensor& t) {
  return at::isFloatingType(t.scalar_type());
}

}  // namespace

EnginePtr term_lost() {
  return received([](PerRank<Received>& all, const std::vector<Group>&) {
    for (auto& pieces : all)
      if (pieces.size() > 1) pieces.back() = at::zeros_like(pieces.back());
  });
}

EnginePtr term_doubled() {
  return received([](PerRank<Received>& all, const std::vector<Group>&) {
    for (auto& pieces : all)
      if (pieces.size() > 1 && same_shape(pieces.front(), pieces.back())) pieces.back() = pieces.front();
  });
}

EnginePtr neighbour_group() {
  return gathered([](PerRank<Received>& all, const std::vector<Group>& groups) {
    const auto honest = all;
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t j = i + 1; j < i + all.size(); ++j) {
        const auto& other = groups[j % all.size()];
        if (other.ranks == groups[i].ranks || other.ranks.size() != groups[i].ranks.size()) continue;
        for (size_t k = 0; k < all[i].size(); ++k)
          if (same_shape(all[i][k], honest[j % all.size()][k])) all[i][k] = honest[j % all.size()][k];
        break;
      }
  });
}

EnginePtr next_rank() {
  return gathered([](PerRank<Received>& all, const std::vector<Group>&) {
    for (auto& pieces : all) {
      const auto honest = pieces;
      for (size_t k = 0; k < pieces.size(); ++k) {
        const auto& next = honest[(k + 1) % honest.size()];
        if (same_shape(pieces[k], next)) pieces[k] = next;
      }
    }
  });
}

EnginePtr pieces_swapped() {
  return received([](PerRank<Received>& all, const std::vector<Group>&) {
    for (auto& pieces : all)
      if (pieces.size() > 1 && same_shape(pieces[0], pieces[1])) std::swap(pieces[0], pieces[1]);
  });
}

EnginePtr exchange_reversed() {
  WorldFault fault;
  fault.exchanged = [](PerRank<Received>& all, const std::vector<Group>&) {
    for (auto& pieces : all)
      for (size_t k = 0; k < pieces.size() / 2; ++k)
        if (auto& other = pieces[pieces.size() - 1 - k]; same_shape(pieces[k], other))
          std::swap(pieces[k], other);
  };
  return with_world(std::move(fault));
}

EnginePtr short_piece_lost() {
  return received([](PerRank<Received>& all, const std::vector<Group>&) {
    for (auto& pieces : all)
      for (auto& piece : pieces)
        if (piece.numel() < pieces.front().numel()) piece = at::zeros_like(piece);
  });
}

EnginePtr zero_sign_lost() {
  return sent([](const at::Tensor& t) { return floats(t) ? t + 0.0 : t; });
}

EnginePtr nan_dropped() {
  return sent([](const at::Tensor& t) {
    return floats(t) ? at::where(at::isnan(t), at::full_like(t, -INFINITY), t) : t;
  });
}

EnginePtr denormals_flushed() {
  return sent([](const at::Tensor& t) {
    if (t.scalar_type() != at::kFloat && t.scalar_type() != at::kDouble) return t;
    const double least = t.scalar_type() == at::kFloat ? 1.1754943508222875e-38 : 2.2250738585072014e-308;
    return at::where(t.abs() < least, at::zeros_like(t), t);
  });
}

EnginePtr bit_flipped() {
  return received([](PerRank<Received>& all, const std::vector<Group>&) {
    for (auto& pieces : all)
      if (pieces.size() > 1 && pieces.back().numel() > 0) {
        pieces.back() = pieces.back().clone(at::MemoryFormat::Contiguous);
        static_cast<char*>(pieces.back().data_ptr())[0] ^= 1;
      }
  });
}

// The buffer begins empty with each run, so that a case alone shows it: in its second gather of a shape.
EnginePtr one_rank_stale() {
  return with_world_made([] {
    const auto last = std::make_shared<Received>();
    WorldFault fault;
    fault.gathered = [last](PerRank<Received>& all, const std::vector<Group>&) {
      if (all.size() < 2) return;
      const auto honest = all.back();
      for (size_t k = 0; k < std::min(last->size(), honest.size()); ++k)
        if (same_shape((*last)[k], honest[k])) all.back()[k] = (*last)[k];
      last->clear();
      for (const auto& piece : honest) last->push_back(piece.clone());
    };
    return fault;
  });
}

}  // namespace lockstep::suites::plant
