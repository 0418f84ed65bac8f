// SPDX-License-Identifier: Apache-2.0
// Faults that show in what ranks hold at the end, and answers of a cache that forgot the mesh.
#include <ATen/ATen.h>

#include <cstring>

#include "suites/faults/planters.h"

namespace lockstep::suites::plant {
namespace {

// The values that lockstep::backward calls define.
template <class Each>
void each_gradient(const oracle::Case& c, EngineResult& result, Each each) {
  size_t number = c.program.inputs.size();
  for (const auto& call : c.program.calls) {
    size_t input = 0;
    for (int64_t k = 0; k < call.results; ++k, ++number) {
      if (call.op != "lockstep::backward") continue;
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

bool is_sum(const Placement& p) {
  return is_partial(p, ReduceOp::kSum);
}

}  // namespace

EnginePtr gradient_of_replica_doubled() {
  return with_result([](const oracle::Case& c, EngineResult& result) {
    each_gradient(c, result, [&](EngineValue& g, const oracle::Target& target) {
      for (size_t d = 0; d < target.placements.size(); ++d)
        if (is_replicate(target.placements[d]) && c.mesh.size(static_cast<int64_t>(d)) > 1)
          return scale(g, 2);
    });
  });
}

EnginePtr gradient_of_partial_divided() {
  return with_result([](const oracle::Case& c, EngineResult& result) {
    each_gradient(c, result, [](EngineValue& g, const oracle::Target& target) {
      if (has(target, is_sum) && g.locals.size() > 1) scale(g, 0.5);
    });
  });
}

EnginePtr order_of_shards_forgotten() {
  return with_result([](const oracle::Case&, EngineResult& result) {
    for (auto& v : result.values)
      if (v.defined() && !v.spec->default_order())
        v.spec = std::make_shared<const Spec>(v.spec->with_placements(v.spec->placements()));
  });
}

EnginePtr interleaving_forgotten() {
  return with_result([](const oracle::Case&, EngineResult& result) {
    for (auto& v : result.values) {
      if (!v.defined()) continue;
      auto placements = v.spec->placements();
      bool changed = false;
      for (auto& p : placements)
        if (std::holds_alternative<InterleavedShard>(p)) {
          p = Shard{shard_dim(p)};
          changed = true;
        }
      if (changed)
        v.spec = std::make_shared<const Spec>(v.spec->with_placements(placements, v.spec->order()));
    }
  });
}

EnginePtr flat_slice_late() {
  return with_result([](const oracle::Case&, EngineResult& result) {
    for (auto& v : result.values) {
      if (!v.defined()) continue;
      const auto& placements = v.spec->placements();
      if (std::none_of(placements.begin(), placements.end(), is_ragged)) continue;
      for (auto& local : v.locals) local = local.roll(-1);
    }
  });
}

EnginePtr remainder_stale() {
  return with_result([](const oracle::Case& c, EngineResult& result) {
    for (size_t i = c.program.inputs.size(); i < result.values.size(); ++i) {
      auto& v = result.values[i];
      if (!v.defined() || v.locals.empty()) continue;
      for (auto& local : v.locals)
        if (local.numel() > 0 && local.numel() < v.locals.front().numel()) local = at::ones_like(local);
    }
  });
}

EnginePtr replica_drifts() {
  return with_result([](const oracle::Case& c, EngineResult& result) {
    for (size_t i = c.program.inputs.size(); i < result.values.size(); ++i) {
      auto& v = result.values[i];
      if (!v.defined() || v.locals.size() < 2 || !v.spec->all_replicate() || v.locals.back().numel() == 0)
        continue;
      v.locals.back() = v.locals.back().clone(at::MemoryFormat::Contiguous);
      static_cast<char*>(v.locals.back().data_ptr())[0] ^= 1;
    }
  });
}

EnginePtr offset_not_advanced() {
  return with_result([](const oracle::Case&, EngineResult& result) {
    if (result.random_after.offset >= 4) result.random_after.offset -= 4;
  });
}

EnginePtr cache_ignores_mesh() {
  return with_stale_cache([](const oracle::Case& c) {
    auto key = c;
    const auto ranks = c.mesh.size();
    key.mesh = DeviceMesh({ranks});
    for (auto& target : key.placements) target = {{Replicate{}}, {}};
    return oracle::to_token(key);
  });
}

}  // namespace lockstep::suites::plant
