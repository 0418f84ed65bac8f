// SPDX-License-Identifier: Apache-2.0
// Faults that show in what ranks hold at the end, and answers of a cache that forgot the mesh.
#include <ATen/ATen.h>

#include <cstring>

#include "engine/tensor/cache.h"
#include "engine/values/ragged.h"
#include "oracle/program/statements.h"
#include "suites/faults/tables.h"

namespace lockstep::suites::plant {
namespace {

// The values that lockstep::backward calls define.
template <class Each>
void each_gradient(const oracle::Case& c, EngineResult& result, Each each) {
  size_t number = c.program.inputs.size();
  for (const auto& call : c.program.calls) {
    size_t input = 0;
    for (int64_t k = 0; k < call.results; ++k, ++number) {
      if (call.op != oracle::kBackward) continue;
      while (input < c.program.inputs.size() && !c.program.inputs[input].requires_grad) ++input;
      if (input == c.program.inputs.size()) break;
      if (result.values[number].defined()) each(result.values[number], c.placements[input]);
      ++input;
    }
  }
}

void scale(EngineValue& value, double by) {
  for (auto& local : value.locals) local = local * by;
}

bool has(const oracle::Target& target, bool (*kind)(const Placement&)) {
  return std::any_of(target.placements.begin(), target.placements.end(), kind);
}

bool leaves_with_backward(const oracle::Case& c) {
  return many_ranks(c) && has_backward(c) && calls(oracle::kFullTensor)(c);
}

bool goes_back_twice(const oracle::Case& c) {
  return std::any_of(c.program.calls.begin(), c.program.calls.end(), oracle::creates_graph);
}

// Those of the last backward, whose values come last.
void second_gradient_doubled(const oracle::Case& c, EngineResult& result) {
  if (!goes_back_twice(c) || !oracle::runs_backward(c.program.calls.back().op)) return;
  const auto wanted = static_cast<ptrdiff_t>(c.program.calls.back().results);
  for (auto value = result.values.end() - wanted; value != result.values.end(); ++value) scale(*value, 2);
}

bool is_sum(const Placement& p) {
  return is_partial(p, ReduceOp::kSum);
}

void gradient_of_replica_doubled(const oracle::Case& c, EngineResult& result) {
  each_gradient(c, result, [&](EngineValue& g, const oracle::Target& target) {
    for (size_t d = 0; d < target.placements.size(); ++d)
      if (is_replicate(target.placements[d]) && c.mesh.size(static_cast<int64_t>(d)) > 1) return scale(g, 2);
  });
}

void gradient_of_partial_divided(const oracle::Case& c, EngineResult& result) {
  each_gradient(c, result, [](EngineValue& g, const oracle::Target& target) {
    if (has(target, is_sum) && g.locals.size() > 1) scale(g, 0.5);
  });
}

// What the first rank holds of a gradient is zero on the others.
void gradient_on_first_rank(const oracle::Case& c, EngineResult& result) {
  each_gradient(c, result, [](EngineValue& g, const oracle::Target& target) {
    if (is_plain(target)) return;
    for (size_t p = 1; p < g.locals.size(); ++p) g.locals[p] = at::zeros_like(g.locals[p]);
  });
}

void order_of_shards_forgotten(const oracle::Case&, EngineResult& result) {
  for (auto& v : result.values)
    if (v.defined() && !v.spec->default_order())
      v.spec = std::make_shared<const Spec>(v.spec->with_placements(v.spec->placements()));
}

void interleaving_forgotten(const oracle::Case&, EngineResult& result) {
  for (auto& v : result.values) {
    if (!v.defined()) continue;
    auto placements = v.spec->placements();
    bool changed = false;
    for (auto& p : placements)
      if (std::holds_alternative<InterleavedShard>(p)) {
        p = Shard{shard_dim(p)};
        changed = true;
      }
    if (changed) v.spec = std::make_shared<const Spec>(v.spec->with_placements(placements, v.spec->order()));
  }
}

void flat_slice_late(const oracle::Case&, EngineResult& result) {
  for (auto& v : result.values) {
    if (!v.defined()) continue;
    const auto& placements = v.spec->placements();
    if (!has_ragged(placements)) continue;
    for (auto& local : v.locals) local = local.roll(-1);
  }
}

void remainder_stale(const oracle::Case& c, EngineResult& result) {
  for (size_t i = c.program.inputs.size(); i < result.values.size(); ++i) {
    auto& v = result.values[i];
    if (!v.defined() || v.locals.empty()) continue;
    for (auto& local : v.locals)
      if (local.numel() > 0 && local.numel() < v.locals.front().numel()) local = at::ones_like(local);
  }
}

void replica_drifts(const oracle::Case& c, EngineResult& result) {
  for (size_t i = c.program.inputs.size(); i < result.values.size(); ++i) {
    auto& v = result.values[i];
    if (!v.defined() || v.locals.size() < 2 || !v.spec->all_replicate() || v.locals.back().numel() == 0)
      continue;
    v.locals.back() = v.locals.back().clone(at::MemoryFormat::Contiguous);
    static_cast<char*>(v.locals.back().data_ptr())[0] ^= 1;
  }
}

void offset_not_advanced(const oracle::Case&, EngineResult& result) {
  if (result.random_after.offset >= 4) result.random_after.offset -= 4;
}

// What was decided of another op before is taken where more has to move.
void decided_by_another(const oracle::Case&, EngineResult& result) {
  if (decisions_of(*current_context()).limit > 0 && result.bytes_moved > 0) result.bytes_moved *= 2;
}

std::string cache_ignores_mesh(const oracle::Case& c) {
  auto key = c;
  const auto ranks = c.mesh.size();
  key.mesh = DeviceMesh({ranks});
  for (auto& target : key.placements)
    if (!is_plain(target)) target = {{Replicate{}}, {}};
  return oracle::to_token(key);
}

}  // namespace

std::vector<Fault> result_faults() {
  return {
      {20, "order-of-shards-forgotten", "K6", "the order in which mesh dimensions cut is forgotten",
       "redistribute", 1000, 1, any, with_result(order_of_shards_forgotten)},
      {21, "interleaving-forgotten", "K6", "an InterleavedShard is called Shard", "redistribute", 500, 1, any,
       with_result(interleaving_forgotten)},
      {22, "flat-slice-late", "K6", "the flat slice of a RaggedShard begins one element late", "layout", 500,
       1, any, with_result(flat_slice_late)},
      {24, "remainder-stale", "K7", "the short last shard of a result is never computed", "ops", 300, 3,
       many_ranks, with_result(remainder_stale)},
      {29, "cache-ignores-mesh", "K8", "the answer for one mesh is given for another", "cache", 300, 3, any,
       with_stale_cache(cache_ignores_mesh)},
      {155, "decided-by-another", "K8", "an op takes what was decided of another, and moves more", "cache",
       300, 3, any, with_result(decided_by_another)},
      {34, "gradient-of-replica-doubled", "K10", "the gradient of a replicated tensor is counted twice",
       "gradient", 200, 3, has_backward, with_result(gradient_of_replica_doubled)},
      {35, "gradient-of-partial-divided", "K10", "the gradient of a Partial is divided", "gradient", 300, 3,
       has_backward, with_result(gradient_of_partial_divided)},
      {54, "offset-not-advanced", "K12", "the offset after a random op is stale", "random", 100, 1,
       has_random, with_result(offset_not_advanced)},
      {71, "full-tensor-first-rank", "K10", "the gradient of a full tensor reaches the first rank only",
       "edges", 300, 3, leaves_with_backward, with_result(gradient_on_first_rank)},
      {76, "second-gradient-doubled", "K10", "the gradient of a gradient is counted twice", "edges", 500, 3,
       goes_back_twice, with_result(second_gradient_doubled)},
      {60, "replica-drifts", "K14", "one replica differs in one bit", "ops", 300, 3, many_ranks,
       with_result(replica_drifts)},
  };
}

}  // namespace lockstep::suites::plant
