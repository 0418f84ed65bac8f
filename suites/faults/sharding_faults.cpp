// SPDX-License-Identifier: Apache-2.0
// Faults of fully_shard and of who uses it: what is lost, doubled, stale or misplaced between the parts of a
// parameter and the whole of it.
#include <ATen/ATen.h>

#include "engine/fsdp/unit.h"
#include "engine/optim/optimizer.h"
#include "engine/stream/random_source.h"
#include "engine/values/as_size.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/faults/sharded_cases.h"
#include "suites/faults/tables.h"
#include "suites/fsdp/sharded_fault.h"

namespace lockstep::suites::plant {
namespace {

class Missharded : public LockstepEngine {
 public:
  explicit Missharded(ShardedFault fault) : fault_(fault) {}
  const ShardedFault* sharded_fault() const override { return &fault_; }

 private:
  ShardedFault fault_;
};
Plant with_sharding(ShardedFault fault) {
  return [=] { return std::make_unique<Missharded>(fault); };
}

// ---- what ranks receive ----

bool alike(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes();
}

void last_lost(Arrived& all, const Groups&) {
  for (auto& pieces : all)
    if (pieces.size() > 1) pieces.back() = at::zeros_like(pieces.back());
}
void turned_around(Arrived& all, const Groups&) {
  for (auto& pieces : all)
    if (alike(pieces.front(), pieces.back())) std::reverse(pieces.begin(), pieces.end());
}
void first_two_swapped(Arrived& all, const Groups&) {
  for (auto& pieces : all)
    if (pieces.size() > 1 && alike(pieces[0], pieces[1])) std::swap(pieces[0], pieces[1]);
}
void one_rank_keeps_its_own(Arrived& all, const Groups& groups) {
  auto& pieces = all.back();
  const auto own = pieces[as_size(groups.back().place)];
  for (auto& piece : pieces)
    if (alike(piece, own)) piece = own;
}

void terms_rounded(Arrived& all, const Groups&) {
  for (auto& pieces : all)
    for (auto& piece : pieces)
      if (piece.is_floating_point()) piece = piece.to(at::kBFloat16).to(piece.scalar_type());
}

void gathers_again(const ShardedScene& scene) {
  for (auto unit : scene.units) unit.unshard(), unit.reshard();
}

// Those are neighbours: in the cases of the fault all ranks are at least four.
void of_few_swapped(Arrived& all, const Groups& groups) {
  for (size_t r = 0; r < all.size(); ++r)
    if (groups[r].ranks.size() <= 3 && alike(all[r].front(), all[r].back()))
      std::swap(all[r].front(), all[r].back());
}

template <void (*spoil)(Arrived&, const Groups&)>
WorldPtr gathers_so(WorldPtr world) {
  return spoilt_world(std::move(world), {.gathered = spoil});
}
template <void (*spoil)(Arrived&, const Groups&)>
WorldPtr all_reduces_so(WorldPtr world) {
  return spoilt_world(std::move(world), {.all_reduced = spoil});
}
template <void (*spoil)(Arrived&, const Groups&)>
WorldPtr scatters_so(WorldPtr world) {
  return spoilt_world(std::move(world), {.exchanged = spoil});
}

// ---- copies that nobody needs, of the same bits ----

at::Tensor copied(const at::Tensor& piece) {
  return piece.clone();
}
WorldPtr copies_what_arrives(WorldPtr world) {
  return spoilt_world(std::move(world), {.arrived = copied});
}
WorldPtr packs(WorldPtr world) {
  return spoilt_world(std::move(world), {.sent = copied});
}

// ---- what is planted beside the timeline: the memory of ranks ----

void scale(const at::Tensor& dtensor, size_t rank, double by) {
  at::Tensor(local_tensors(dtensor)[rank % local_tensors(dtensor).size()]).mul_(by);
}

// The first gradient whose first rank holds some of it.
at::Tensor first_gradient(const ShardedScene& scene) {
  for (const auto& parameter : scene.model.parameters())
    if (const auto& gradient = parameter.grad(); gradient.defined() && local_tensors(gradient)[0].numel() > 0)
      return gradient;
  return {};
}

void gradient_lost(const ShardedScene& scene) {
  if (const auto gradient = first_gradient(scene); gradient.defined()) scale(gradient, 0, 0);
}
void gradient_doubled(const ShardedScene& scene) {
  if (const auto gradient = first_gradient(scene); gradient.defined()) scale(gradient, 0, 2);
}
void gradients_swapped(const ShardedScene& scene) {
  const auto parameters = scene.model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    for (size_t k = i + 1; k < parameters.size(); ++k) {
      auto &a = parameters[i].mutable_grad(), &b = parameters[k].mutable_grad();
      if (a.defined() && b.defined() && spec(a) == spec(b)) return std::swap(a, b);
    }
}

// What a fault keeps from one moment of a training to another.
struct Kept {
  std::vector<at::Tensor> gradients;
  std::vector<PerRank<at::Tensor>> values;
};
Kept& kept(const ShardedScene& scene) {
  if (scene.model.attached<Kept>() == nullptr) scene.model.attach(std::make_shared<Kept>());
  return *scene.model.attached<Kept>();
}

void keep_gradients(const ShardedScene& scene) {
  auto& gradients = kept(scene).gradients;
  gradients.clear();
  for (const auto& parameter : scene.model.parameters()) gradients.push_back(parameter.grad());
}
void restore_gradients(const ShardedScene& scene, at::Tensor&) {
  const auto parameters = scene.model.parameters();
  if (scene.pass > 0 || scene.step == 0) return;
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i].mutable_grad() = kept(scene).gradients[i];
}

void keep_values(const ShardedScene& scene, at::Tensor&) {
  auto& values = kept(scene).values;
  values.clear();
  for (const auto& local : local_tensors(scene.model.parameters().front())) values.push_back({local.clone()});
}
// The first parameter has those of the step before.
void restore_values(const ShardedScene& scene) {
  const auto& locals = local_tensors(scene.model.parameters().front());
  for (size_t r = 0; r < locals.size(); ++r) at::Tensor(locals[r]).copy_(kept(scene).values[r][0]);
}

void shard_drifts(const ShardedScene& scene) {
  const auto parameter = scene.model.parameters().front();
  const auto& locals = local_tensors(parameter);
  for (auto last = locals.rbegin(); last != locals.rend(); ++last)
    if (last->numel() > 0) return static_cast<void>(at::Tensor(*last).add_(1));
}

// As where all gradients of a unit have one memory, and nobody says whether any came.
void zeros_for_none(const ShardedScene& scene) {
  for (const auto& parameter : scene.model.parameters())
    if (auto& gradient = parameter.mutable_grad(); parameter.requires_grad() && !gradient.defined())
      gradient = at::zeros_like(parameter);
}

void gradient_apart(const ShardedScene& scene) {
  for (const auto& parameter : scene.model.parameters())
    if (auto& gradient = parameter.mutable_grad(); gradient.defined()) gradient = gradient.clone();
}
void padding_of_gradients_written(const ShardedScene& scene) {
  for (const auto& parameter : scene.model.parameters())
    if (const auto& gradient = parameter.grad(); gradient.defined())
      for (const auto& local : local_tensors(gradient)) {
        const auto size = static_cast<int64_t>(local.storage().nbytes() / local.element_size());
        local.as_strided({size}, {1}, 0).nan_to_num_(0.0);
      }
}

void padding_written(const ShardedScene& scene) {
  for (const auto& handle : scene.units)
    if (const auto* buffer = handle.unit()->buffer())
      for (const auto& shard : buffer->shards()) at::Tensor(shard).nan_to_num_(0.0);
}

// ---- examples ----

using Locals = PerRank<at::Tensor>;
template <void (*change)(Locals& locals)>
void other_examples(const ShardedScene&, at::Tensor& x) {
  Locals locals;
  for (const auto& local : local_tensors(x)) locals.push_back(local.clone());
  change(locals);
  x = from_local(locals, device_mesh(x), placements(x), x.sizes().vec());
}
void sample_skipped(Locals& locals) {
  locals.back()[0].zero_();
}
void sample_doubled(Locals& locals) {
  locals.back()[0].copy_(locals.front()[0]);
}
void of_next_rank(Locals& locals) {
  std::rotate(locals.begin(), locals.begin() + 1, locals.end());
}

// ---- what is asked for ----

void never_syncs(const ShardedScene& scene, at::Tensor&) {
  auto root = scene.units.front();
  root.set_requires_gradient_sync(false);
}
void never_adds_replicas(const ShardedScene& scene, at::Tensor&) {
  auto root = scene.units.front();
  root.set_requires_all_reduce(false);
}
void divides_by_one(Sharding& s) {
  s.factor = 1;
}
void divides_the_loss(const ShardedScene& scene, at::Tensor& loss) {
  loss = loss / static_cast<double>(scene.sharding.mesh.size());
}
void reduces_each_pass(Sharding& s) {
  s.each = 1;
}
void nothing_frozen(Sharding& s) {
  s.frozen = 0;
}
void stays_frozen(Sharding& s) {
  s.thaws = 0;
}
// What was there is lost where parameters are cut.
void starts_anew(const ShardedScene& scene) {
  const at::NoGradGuard no_grad;
  for (auto& parameter : scene.model.parameters())
    for (const auto& local : local_tensors(parameter)) at::Tensor(local).zero_();
}
void cuts_after_forward(Sharding& s) {
  s.gathered = 0;
}
void cuts_among_all(Sharding& s) {
  s.among = 0;
}
void nothing_ignored(Sharding& s) {
  s.ignored = 0;
}
void rows_anyhow(Sharding& s) {
  s.placed = 0;
}
void calls_once(Sharding& s) {
  s.calls = 0;
}
void nothing_tied(Sharding& s) {
  s.tied = 0;
}
void prefetches_nothing(Sharding& s) {
  s.prefetch = 0;
}
void cuts_after_backward(const ShardedScene& scene) {
  auto root = scene.units.front();
  root.set_reshard_after_backward(true);
}
void cuts_again(const ShardedScene& scene, at::Tensor&) {
  for (auto unit : scene.units) unit.reshard();
}
// After each module of a list, as after the last one.
void cuts_between(const ShardedScene& scene) {
  for (const auto& handle : scene.units)
    for (auto* module : handle.unit()->modules())
      module->register_forward_hook([unit = handle.unit().get()](auto&&...) { unit->end_round(); });
}
void no_blocks(Sharding& s) {
  s.rows = 0;
}
void clips_units(const ShardedScene& scene) {
  if (scene.pass + 1 < scene.sharding.passes) return;
  for (const auto& unit : scene.units) optim::clip_grad_norm_(unit.parameters(), 0.5);
}
void clips_nothing(Sharding& s) {
  s.clip = 0;
}
void reduces_as_computed(Sharding& s) {
  s.policy.reduce_dtype.reset();
}
void computes_in_another_half(Sharding& s) {
  s.policy.param_dtype = s.policy.param_dtype == at::kHalf ? at::kBFloat16 : at::kHalf;
}
void computes_as_cut(Sharding& s) {
  s.policy.param_dtype.reset();
}
void output_as_computed(Sharding& s) {
  s.policy.output_dtype.reset();
}
void shards_larger(fsdp::BufferPlan& plan) {
  plan.shard_size += plan.shard_size;
}
void last_begins_later(fsdp::BufferPlan& plan) {
  ++plan.intervals.back().start;
  ++plan.intervals.back().end;
}
void first_two_places_swapped(fsdp::BufferPlan& plan) {
  if (plan.intervals.size() > 1) std::swap(plan.intervals[0], plan.intervals[1]);
}
void stays_gathered(const ShardedScene& scene) {
  auto last = scene.units.back();
  last.unshard();
}
void keep_shards(const ShardedScene& scene, at::Tensor&) {
  if (scene.pass > 0) return;
  auto& values = kept(scene).values;
  values.clear();
  for (const auto& parameter : scene.units.back().parameters())
    for (const auto& local : local_tensors(parameter)) values.push_back({local.clone()});
}
// The unit that another one prefetches computes with what it would have gathered in the step before.
void gathers_old(const ShardedScene& scene, at::Tensor&) {
  auto last = scene.units.back();
  auto& old = kept(scene).values;
  if (scene.pass > 0 || old.empty()) return;
  const auto cut = last.parameters();
  const auto swap = [&] {
    size_t i = 0;
    for (const auto& parameter : cut)
      for (const auto& local : local_tensors(parameter)) {
        const auto now = local.clone();
        at::Tensor(local).copy_(std::exchange(old[i++][0], now));
      }
  };
  swap();
  last.unshard();
  swap();
}
// Gradients of a unit are added up along a dimension that does not cut them flat, one beside the other.
void last_replica_lost(Arrived& all, const Groups&) {
  for (auto& pieces : all)
    if (pieces.size() > 1 && pieces.back().dim() == 1) pieces.back() = at::zeros_like(pieces.back());
}
void draws_early(const ShardedScene&, at::Tensor&) {
  generator().state.offset += 4;
}

}  // namespace

Plant unharmed_sharding() {
  return with_sharding({});
}

std::vector<Fault> sharding_faults() {
  return {
      {116, "term-of-shard-lost", "K1", "the last rank's terms are missing where gradients are reduced",
       "fsdp", 20, 0, many_ranks, with_sharding({.world = scatters_so<last_lost>})},
      {117, "fold-turned-around", "K6", "gradients are added up from the last rank to the first", "fsdp", 60,
       0, many_ranks, with_sharding({.world = scatters_so<turned_around>})},
      {118, "shards-swapped", "K6", "the first two shards change places where they are gathered", "fsdp", 20,
       0, many_ranks, with_sharding({.world = gathers_so<first_two_swapped>})},
      {119, "own-shard-everywhere", "K14", "one rank gathers its own shard from everybody", "fsdp", 20, 0,
       many_ranks, with_sharding({.world = gathers_so<one_rank_keeps_its_own>})},
      {120, "update-lost", "K11", "a parameter has the values of the step before", "fsdp", 20, 0, any,
       with_sharding({.input = keep_values, .after_update = restore_values})},
      {121, "never-reduces", "K1", "no pass reduces its gradients", "fsdp", 20, 0, any,
       with_sharding({.before_backward = never_syncs})},
      {177, "replicas-never-added", "K1", "no pass adds gradients up over replicas", "fsdp", 400, 0,
       waits_for_replicas, with_sharding({.before_backward = never_adds_replicas})},
      {124, "divided-before-fold", "K3", "the loss is divided, not the gradients once they are added up",
       "fsdp", 60, 0, has<kFactor>,
       with_sharding({.sharding = divides_by_one, .before_backward = divides_the_loss})},
      {126, "gradient-of-shard-lost", "K1", "one rank's part of a gradient is zero", "fsdp", 20, 0, any,
       with_sharding({.after_backward = gradient_lost})},
      {127, "gradient-of-shard-doubled", "K1", "one rank's part of a gradient is doubled", "fsdp", 20, 0, any,
       with_sharding({.after_backward = gradient_doubled})},
      {128, "gradients-swapped", "K10", "two parameters that lie alike have each other's gradients", "fsdp",
       200, 0, any, with_sharding({.after_backward = gradients_swapped})},
      {129, "gradient-kept", "K11", "the gradients of the step before are still there", "fsdp", 60, 0,
       steps_on, with_sharding({.before_backward = restore_gradients, .after_update = keep_gradients})},
      {130, "sample-skipped", "K9", "an example of the last rank is zeros", "fsdp", 20, 0, any,
       with_sharding({.input = other_examples<sample_skipped>})},
      {131, "sample-doubled", "K9", "the last rank has an example of the first one", "fsdp", 20, 0,
       many_ranks, with_sharding({.input = other_examples<sample_doubled>})},
      {132, "examples-of-next-rank", "K2", "each rank has the examples of the next one", "fsdp", 20, 0,
       many_ranks, with_sharding({.input = other_examples<of_next_rank>})},
      {133, "shard-drifts", "K14", "one rank's part of a parameter is another than its update gave", "fsdp",
       20, 0, any, with_sharding({.after_update = shard_drifts})},
      {134, "padding-written", "K7", "what lies between parameters is written", "fsdp", 20, 0, any,
       with_sharding({.after_update = padding_written})},
      {135, "stays-gathered", "K4", "a unit is not cut again", "fsdp", 20, 0, any,
       with_sharding({.after_update = stays_gathered})},
      {137, "clipped-by-unit", "K3", "each unit is clipped by its own norm", "fsdp", 60, 0, has<kClip>,
       with_sharding({.sharding = clips_nothing, .after_backward = clips_units})},
      {138, "mask-of-later", "K12", "dropout draws from further on in the stream", "fsdp", 200, 0, drops,
       with_sharding({.input = draws_early})},
      {143, "terms-rounded", "K3", "the terms of a gradient in f32 are rounded to bf16 on their way", "fsdp",
       100, 0, reduces_in_f32, with_sharding({.world = scatters_so<terms_rounded>})},
      {144, "neighbours-swapped", "K6", "two neighbours change places in what they kept after a forward",
       "fsdp", 100, 0, has<kAmong>, with_sharding({.world = gathers_so<of_few_swapped>})},
      {161, "gathered-twice", "K16", "each unit is gathered once more than it is needed", "fsdp", 20, 0,
       is_counted, with_sharding({.after_backward = gathers_again})},
      {178, "packed-to-be-sent", "K16", "what a unit sends is copied into other memory first", "fsdp", 20, 0,
       many_ranks, with_sharding({.world = packs})},
      {162, "replica-left-out", "K1", "the last replica's gradients are missing where replicas add theirs up",
       "fsdp", 100, 0, has_replicas, with_sharding({.world = all_reduces_so<last_replica_lost>})},
      {163, "prefetched-of-before", "K11",
       "a unit that is prefetched computes with the values of the step before", "fsdp", 200, 0,
       prefetches_steps, with_sharding({.input = gathers_old, .before_backward = keep_shards})},
      {164, "second-run-draws-anew", "K12", "a block that runs again on the way back draws another mask",
       "fsdp", 200, 0, drops_again, with_sharding({.second_runs_draw_anew = true})},
      {157, "pretrained-lost", "K11", "values that are there before fully_shard are not those that are cut",
       "fsdp", 100, 0, has<kPretrained>, with_sharding({.placed = starts_anew})},
      {166, "gradient-apart", "K14", "gradients lie in memory of their own, and not in one of the unit's",
       "fsdp", 20, 0, has_terms, with_sharding({.after_backward = gradient_apart})},
      {175, "zeros-for-none", "K10", "a parameter that nothing uses has a gradient of zeros", "fsdp", 200, 0,
       has<kUnused>, with_sharding({.after_backward = zeros_for_none})},
      {167, "padding-of-gradients-written", "K7", "what lies between gradients is written", "fsdp", 60, 0,
       has_terms, with_sharding({.after_backward = padding_of_gradients_written})},
  };
}

std::vector<Fault> asking_faults() {
  return {
      {122, "reduces-each-pass", "K3", "every pass reduces, though only the last one should", "fsdp", 100, 0,
       waits_for_last, with_sharding({.sharding = reduces_each_pass})},
      {123, "divisor-ignored", "K1", "gradients are not divided by the factor that is set", "fsdp", 60, 0,
       has<kFactor>, with_sharding({.sharding = divides_by_one})},
      {125, "frozen-trains", "K10", "a parameter that is frozen has a gradient", "fsdp", 100, 0, has<kFrozen>,
       with_sharding({.sharding = nothing_frozen})},
      {168, "cut-after-forward", "K16", "units are cut after forward, though they are to stay gathered",
       "fsdp", 60, 0, keeps_gathered, with_sharding({.sharding = cuts_after_forward})},
      {169, "outermost-cut", "K16", "the outermost unit is cut after forward as the others are", "fsdp", 1000,
       0, keeps_outermost, with_sharding({.sharding = cuts_after_forward})},
      {170, "cut-among-all", "K16", "units are cut among all ranks, though neighbours are to keep them",
       "fsdp", 60, 0, keeps_among, with_sharding({.sharding = cuts_among_all})},
      {171, "nothing-prefetched", "K16", "units do not prefetch those that they are told to", "fsdp", 200, 0,
       prefetches_next, with_sharding({.sharding = prefetches_nothing})},
      {172, "cut-after-backward", "K16", "units are cut after backward, though they are to stay gathered",
       "fsdp", 60, 0, has<kKept>, with_sharding({.placed = cuts_after_backward})},
      {173, "cut-by-hand", "K16", "units that were gathered by hand are cut before the step", "fsdp", 400, 0,
       stays_by_hand, with_sharding({.input = cuts_again})},
      {174, "list-cut-between", "K16", "units of several modules are cut after each of them", "fsdp", 200, 0,
       runs_list, with_sharding({.placed = cuts_between})},
      {136, "blocks-cut", "K7", "ranks cut blocks that are to stay whole", "fsdp", 200, 0, has<kRows>,
       with_sharding({.sharding = no_blocks})},
      {139, "reduced-as-computed", "K3", "gradients are added up in the dtype in which they come", "fsdp",
       100, 0, reduces_in_another, with_sharding({.sharding = reduces_as_computed})},
      {140, "computed-in-another-half", "K10", "parameters are gathered in the other half of 16 bits", "fsdp",
       100, 0, computes_in_half, with_sharding({.sharding = computes_in_another_half})},
      {141, "computed-as-cut", "K10", "parameters are gathered in the dtype in which they are cut", "fsdp",
       100, 0, computes_in_another, with_sharding({.sharding = computes_as_cut})},
      {142, "output-as-computed", "K10", "the model's output stays in the dtype in which it is computed",
       "fsdp", 100, 0, returns_another, with_sharding({.sharding = output_as_computed})},
      {176, "second-call-left-out", "K11", "a block that is to be called twice is called once", "fsdp", 200,
       0, has<kCalls>, with_sharding({.sharding = calls_once})},
      {156, "tied-parted", "K11", "a parameter that two layers share becomes two", "fsdp", 100, 0, has<kTied>,
       with_sharding({.sharding = nothing_tied})},
      {158, "stays-frozen", "K11", "a parameter that is frozen no more stays frozen", "fsdp", 200, 0,
       has<kThaws>, with_sharding({.sharding = stays_frozen})},
      {159, "ignored-cut", "K7", "a parameter that is ignored is cut as the others are", "fsdp", 100, 0,
       has<kIgnored>, with_sharding({.sharding = nothing_ignored})},
      {160, "rows-cut", "K7", "a matrix is cut within a row, though it is placed by rows", "fsdp", 200, 0,
       has<kPlaced>, with_sharding({.sharding = rows_anyhow})},
  };
}

std::vector<Fault> buffer_faults() {
  return {
      {145, "shards-too-large", "K7", "shards of twice the least size are planned", "planner", 60, 0, any,
       with_sharding({.plan = shards_larger})},
      {146, "starts-too-late", "K7", "the last tensor of a group begins an element later", "planner", 100, 0,
       any, with_sharding({.plan = last_begins_later})},
      {147, "places-swapped", "K10", "the first two tensors of a group have each other's places", "planner",
       60, 0, any, with_sharding({.plan = first_two_places_swapped})},
      {148, "term-of-buffer-lost", "K1", "the last rank's terms are missing where a buffer is reduced",
       "dbuffer", 20, 0, many_ranks, with_sharding({.world = scatters_so<last_lost>})},
      {149, "buffer-turned-around", "K6",
       "the terms of a buffer are added up from the last rank to the first", "dbuffer", 60, 0, many_ranks,
       with_sharding({.world = scatters_so<turned_around>})},
      {150, "own-part-everywhere", "K14", "one rank gathers its own part of a buffer from everybody",
       "dbuffer", 20, 0, many_ranks, with_sharding({.world = gathers_so<one_rank_keeps_its_own>})},
      {179, "copied-as-it-comes", "K16", "what a buffer receives is copied before it goes where it belongs",
       "dbuffer", 20, 0, many_ranks, with_sharding({.world = copies_what_arrives})},
  };
}

}  // namespace lockstep::suites::plant
