// SPDX-License-Identifier: Apache-2.0
// What runs on the plain tensors of each hosted rank.
#include <ATen/ATen.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>

#include "engine/static_eager/instead.h"
#include "engine/static_eager/sites.h"
#include "engine/tensor/plain_ops.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

// A tensor that goes to a module on DTensors and back costs about as much as some ops on DTensors do.
constexpr int64_t kOpsForOneExit = 4;

}  // namespace

void Sites::find_regions(size_t ranks) {
  // @returns through how many calls a region ends that goes on as far as it may
  const auto reach = [this](Site& from, std::vector<Site*>& members) {
    int64_t exits = 0;
    members = {&from};
    for (size_t i = 0; i < members.size(); ++i)
      for (const auto* child : members[i]->module->children()) {
        auto& site = *by_module_.at(child);
        const bool is_known = std::find(members.begin(), members.end(), &site) != members.end();
        if (site.is_local && site.hooks == 0 && !is_known)
          members.push_back(&site);
        else if (!is_known)
          exits += std::ssize(site.calls);
      }
    return exits;
  };
  for (auto& site : sites_)
    if (site.calls.empty()) site.demote("is not called");
  for (auto site = sites_.rbegin(); site != sites_.rend(); ++site) {  // those within others first
    if (!site->is_local) continue;
    const auto exits = reach(*site, site->members);
    int64_t ops = 0;
    for (const auto* member : site->members) ops += member->ops;
    if (exits > 0 && ranks > 1) site->demote("calls modules on DTensors, where a process hosts several ranks");
    if (ops < kOpsForOneExit * exits) site->demote("does little but call modules on DTensors");
  }
  for (auto& site : sites_)
    if (site.is_local) reach(site, site.members);
}

bool Sites::is_member(const Site& site) const {
  const auto& members = region_->site->members;
  return std::find(members.begin(), members.end(), &site) != members.end();
}

SeenCall& Sites::next_call(Site& site) const {
  LOCKSTEP_CHECK(site.next < site.calls.size(), "[static_eager] ", site.path,
                 " is called more often than when the step was recorded; record it again");
  return *site.calls[site.next];
}

// What is unlike what was seen; empty: nothing.
std::string Sites::changed(const Site& site, const nn::Tensors& inputs) const {
  if (site.next >= site.calls.size()) return concat(site.path, " is called once more");
  const auto& seen = *site.calls[site.next];
  if (seen.graphs.empty() && log_ == nullptr) return concat(site.path, " has not been tried so");
  if (inputs.size() != seen.given_inside.size()) return concat(site.path, " has ", inputs.size(), " inputs");
  if (seen.grad_mode != at::GradMode::is_enabled())
    return concat(site.path, " is called in another grad mode");
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const auto why = unlike(seen.given_inside[i], inputs[i]); !why.empty())
      return concat("input ", i, " of ", site.path, ": ", why);
  for (const auto* member : site.members) {
    if (member->module->hook_count() != member->hooks) return concat(member->path, " has other hooks");
    if (member->module->is_training() != member->calls.front()->is_training)
      return concat(member->path, " is in another mode");
    const auto slots = member->module->own_tensors();
    for (size_t i = 0; i < slots.size(); ++i)
      if (const auto why = unlike(member->own[i], *slots[i]); !why.empty())
        return concat("a tensor of ", member->path, ": ", why);
  }
  return "";
}

at::Tensor Sites::run_static(Site& site, nn::Tensors inputs, const Forward& forward) {
  if (!site.is_local || eager_depth_ > 0) {
    ++site.next;
    return forward(std::move(inputs));
  }
  if (const auto why = changed(site, inputs); !why.empty()) {
    LOCKSTEP_CHECK(options_.on_change != OnChange::kError, "[static_eager] ", why,
                   "; record the step again, or let on_change be OnChange::kEager");
    ++eager_calls[why];
    ++eager_depth_;
    const auto ended = c10::make_scope_exit([&] { --eager_depth_; });
    ++site.next;
    return forward(std::move(inputs));
  }
  ++static_calls;
  return run_region(site, inputs, forward);
}

at::Tensor Sites::run_region(Site& site, const nn::Tensors& inputs, const Forward& forward) {
  const auto& seen = *site.calls[site.next];
  auto ends = seen.given_inside;
  std::vector<at::Tensor*> slots;
  std::vector<size_t> turns;
  for (auto* member : site.members) {
    const auto own = member->module->own_tensors();
    slots.insert(slots.end(), own.begin(), own.end());
    ends.insert(ends.end(), member->own.begin(), member->own.end());
    turns.push_back(member->next);
  }
  Instead instead(std::move(slots));
  auto tensors = inputs;
  tensors.insert(tensors.end(), instead.were().begin(), instead.were().end());
  const auto entered = enter(tensors, std::move(ends));
  const auto of_rank = [&](size_t i, size_t rank) {
    return entered[i].empty() ? at::Tensor() : entered[i][rank];
  };
  PerRank<at::Tensor> results;
  for (size_t r = 0; r < seen.result_inside.comm->ranks.size(); ++r) {
    nn::Tensors locals;
    for (size_t i = 0; i < site.members.size(); ++i) site.members[i]->next = turns[i];
    for (size_t i = 0; i < inputs.size(); ++i) locals.push_back(of_rank(i, r));
    for (size_t i = inputs.size(); i < tensors.size(); ++i) instead.set(i - inputs.size(), of_rank(i, r));
    results.push_back(run_on_rank(site, static_cast<int64_t>(r), locals, forward));
  }
  return leave(results, seen.result_inside);
}

at::Tensor Sites::run_on_rank(Site& site, int64_t rank, const nn::Tensors& locals, const Forward& forward) {
  auto& seen = next_call(site);
  ++site.next;
  ViewSizes sizes;
  const auto turn = std::exchange(turn_, &sizes.turn);
  region_ = Region{&site, rank};
  const auto ended = c10::make_scope_exit([&] {
    region_.reset();
    turn_ = turn;
  });
  std::optional<PlainOps> watched;
  if (options_.every_op && log_ == nullptr)
    watched.emplace([this](const auto& op, auto args) { begins(op, args); }, [](const auto&, auto) {});
  const auto first = next_node();
  const auto result = run_within(site, seen, locals, forward);
  check_history(seen, result, {first, next_node()});
  return result;
}

void Sites::check_history(SeenCall& seen, const at::Tensor& result, Nodes nodes) {
  const auto history = history_of(result, nodes, region_->left_out);
  const auto rank = as_size(region_->rank);
  if (log_ != nullptr) {
    seen.graphs.resize(rank + 1);
    seen.graphs[rank] = history;
  }
  LOCKSTEP_CHECK(seen.graphs[rank] == history, "[static_eager] ", region_->site->path,
                 " has run other ops than when the step was recorded; keep nothing of this step, and record "
                 "it again");
}

// Its own forward(), with the sizes that were seen.
at::Tensor Sites::run_within(Site& site, SeenCall& seen, const nn::Tensors& inputs, const Forward& forward) {
  const auto turn = std::exchange(*turn_, ViewSizes::Turn{&seen.sizes, region_->rank});
  const auto running = std::exchange(running_, Running{&site, &seen});
  const auto back = c10::make_scope_exit([&] {
    *turn_ = turn;
    running_ = running;
  });
  const auto result = logged(site, region_->rank, inputs, forward);
  LOCKSTEP_CHECK(turn_->next == seen.sizes.size(), "[static_eager] ", site.path, " has given sizes ",
                 turn_->next, " times, and ", seen.sizes.size(),
                 " times when the step was recorded; record it again");
  LOCKSTEP_CHECK(!options_.every_op || running_->op == seen.ops.size(), "[static_eager] ", site.path, " has run ",
                 running_->op, " ops, and ", seen.ops.size(),
                 " when the step was recorded; record it again");
  return result;
}

// A module that runs on DTensors, within one that does not. There is one hosted rank.
at::Tensor Sites::leave_region(Site& site, const nn::Tensors& inputs, const Forward& forward) {
  const auto& seen = next_call(site);
  const auto first = next_node();
  auto region = std::exchange(region_, std::nullopt);
  const auto running = std::exchange(running_, std::nullopt);
  const auto turn = std::exchange(*turn_, ViewSizes::Turn());
  const auto back = c10::make_scope_exit([&] {
    region->left_out.emplace_back(first, next_node());
    region_ = std::move(region);
    running_ = running;
    *turn_ = turn;
  });
  LOCKSTEP_CHECK(inputs.size() == seen.given.size(), "[static_eager] ", site.path, " has ", inputs.size(),
                 " inputs; record the step again");
  nn::Tensors given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    LOCKSTEP_CHECK(inputs[i].defined() == (seen.given[i].spec != nullptr), "[static_eager] input ", i, " of ",
                   site.path, " is ", inputs[i].defined() ? "there now" : "undefined now",
                   "; record the step again");
    given.push_back(inputs[i].defined() ? leave({inputs[i]}, seen.given[i]) : at::Tensor());
  }
  const auto result = forward(std::move(given));
  const auto why = unlike(seen.result, result);
  LOCKSTEP_CHECK(why.empty(), "[static_eager] the result of ", site.path, ": ", why,
                 "; record the step again");
  return enter({result}, {seen.result})[0][0];
}

}  // namespace lockstep
