// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "engine/fsdp/planner.h"
#include "generators/space/random.h"
#include "suites/fsdp/sharding.h"

namespace lockstep::suites {
namespace {

using generators::Random;

BlockSpec any_block(Random& draw, int64_t& width) {
  BlockSpec block;
  const int64_t came = width;
  const auto linear = [&](int64_t size) {
    block.push_back({draw.chance(33) ? 'l' : 'L', size});
    width = size;
  };
  if (draw.chance(25)) block.push_back({draw.chance(50) ? 'n' : 'N'});
  linear(draw.between(1, 14));
  if (draw.chance(50)) block.push_back({'t'});
  if (draw.chance(20)) block.push_back({'d'});
  if (draw.chance(50)) linear(draw.chance(50) ? came : draw.between(1, 12));
  if (width == came && draw.chance(67)) block.push_back({'r'});
  return block;
}

DeviceMesh any_mesh(Random& draw) {
  const int64_t n = draw.between(1, 8);
  if (draw.chance(60)) return DeviceMesh({n}, {"fsdp"});
  const auto* other = draw.pick({"dp", "dp_replicate", "tp", "tp"});
  if (draw.chance(20))
    return DeviceMesh({2, draw.between(1, 2), draw.between(1, 3)},
                      {other == std::string_view("tp") ? "dp" : "dp_replicate", "fsdp", "tp"});
  const int64_t m = draw.between(1, n > 4 ? 2 : 3);
  return draw.chance(33) ? DeviceMesh({n, m}, {"fsdp", other}) : DeviceMesh({m, n}, {other, "fsdp"});
}

MixedPrecisionPolicy any_policy(Random& draw) {
  const auto any = [&](int none, int half, int full) {
    return draw.weighted<std::optional<c10::ScalarType>>(
        {{none, std::nullopt}, {half, at::kBFloat16}, {1, at::kHalf}, {full, at::kFloat}, {1, at::kDouble}});
  };
  MixedPrecisionPolicy policy;
  policy.param_dtype = any(1, 4, 1);
  policy.reduce_dtype = any(3, 1, 4);
  policy.output_dtype = any(4, 1, 2);
  return policy;
}

// Where there are no two matrices to be tied, two more layers.
void tie(Sharding& s) {
  s.tied = 1;
  if (tied_paths(s)) return;
  int64_t width = s.width;
  for (const auto& block : s.blocks) width = width_after(block, width);
  for (int k = 0; k < 2; ++k) s.blocks.back().push_back({'l', width});
}

}  // namespace

Sharding any_sharding(uint64_t run_seed, int64_t index) {
  Random draw = Random(run_seed).split("fsdp").split(static_cast<uint64_t>(index));
  Sharding s;
  s.mesh = any_mesh(draw);
  s.width = draw.between(1, 12);
  s.blocks.clear();
  int64_t width = s.width;
  for (int64_t n = draw.between(1, 3); n > 0; --n) s.blocks.push_back(any_block(draw, width));
  s.wrap = draw.between(0, (int64_t{1} << s.blocks.size()) - 1);
  s.gathered = draw.chance(25);
  s.prefetch = draw.chance(25);
  s.rows = draw.chance(33) ? draw.between(1, 4) : 0;
  s.frozen = draw.chance(16) ? draw.between(1, 8) : 0;
  s.order = fsdp::name(static_cast<fsdp::Order>(draw.between(0, 3)));
  s.steps = draw.weighted<int64_t>({{3, 1}, {2, 2}, {3, 5}});
  s.passes = draw.chance(25) ? draw.between(2, 3) : 1;
  s.each = s.passes > 1 && draw.chance(50);
  s.factor = draw.chance(25) ? s.mesh.size() : 1;
  s.clip = draw.chance(33);
  s.batch = draw.between(1, 3);
  s.optimizer = kOptimizers[static_cast<size_t>(draw.below(std::ssize(kOptimizers)))];
  if (!unfit(s).empty()) s.frozen = 0;
  s.dtype =
      draw.weighted<c10::ScalarType>({{3, at::kFloat}, {1, at::kDouble}, {1, at::kBFloat16}, {1, at::kHalf}});
  if (c10::elementSize(s.dtype) < 4 && s.optimizer == OptimizerKind::kFusedSgd)
    s.optimizer = OptimizerKind::kSgd;
  s.seed = run_seed;
  if (draw.chance(33)) s.policy = any_policy(draw);
  s.recompute = draw.chance(20);
  if (const auto groups = smaller_groups(s.mesh); !groups.empty() && s.gathered == 0 && draw.chance(50))
    s.among = groups[static_cast<size_t>(draw.below(std::ssize(groups)))];
  s.calls = draw.weighted<int64_t>({{12, 0}, {1, 1}, {s.recompute > 0 ? 0 : 1, 2}});
  if (draw.chance(10)) tie(s);
  if (!unfit(s).empty()) s.frozen = 0;
  s.pretrained = draw.chance(16);
  s.kept = draw.chance(12);
  s.by_hand = draw.chance(12);
  s.evaluates = draw.weighted<int64_t>({{14, 0}, {1, 1}, {s.among > 0 ? 4 : 1, 2}});
  s.sides = draw.chance(12);
  s.frozen_first = s.frozen > 0 && draw.chance(50);
  s.thaws = s.frozen > 0 && s.steps > 1 && draw.chance(50);
  s.ignored = draw.chance(12) ? draw.between(1, 8) : 0;
  if (!unfit(s).empty()) s.ignored = 0;
  s.placed = draw.chance(12);
  if (draw.chance(25)) s.unused = draw.between(1, std::ssize(s.blocks));
  if (!unfit(s).empty()) s.unused = 0;
  if (s.gathered > 0 && draw.chance(33)) s.gathered = 2;
  if (s.by_hand > 0 && draw.chance(50)) s.by_hand = 2;
  const auto wrapped = static_cast<int64_t>(std::popcount(static_cast<uint64_t>(s.wrap)));
  if (wrapped > 1 && draw.chance(33)) s.together = draw.between(2, wrapped);
  if (s.each > 0 && s.mesh.ndim() > 1 && draw.chance(70)) s.each = 2;
  if (s.optimizer == OptimizerKind::kAdamW8bit) {
    s.tile = draw.between(1, 4);
    if (s.rows > 0) s.rows = s.tile;  // what nobody need move
  }
  if (s.wrap > 0) s.nested = draw.chance(25);
  if (!unfit(s).empty()) s.nested = 0;
  return s;
}

}  // namespace lockstep::suites
