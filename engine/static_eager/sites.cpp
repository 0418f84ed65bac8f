// SPDX-License-Identifier: Apache-2.0
#include "engine/static_eager/sites.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>

#include "engine/ops/rules/table.h"
#include "engine/tensor/gradients.h"
#include "engine/tensor/plain_ops.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

// Where autograd's nodes are told to that are applied; of this thread.
thread_local StepLog* told = nullptr;

std::unique_ptr<at::ObserverContext> node_begins(const at::RecordFunction& node) {
  if (told != nullptr) told->nodes.emplace_back(told->timeline.size(), static_cast<uint64_t>(node.seqNr()));
  return nullptr;
}

// While alive, a log is told of nodes.
class ToldOfNodes {
 public:
  explicit ToldOfNodes(StepLog& log)
      : outer_(std::exchange(told, &log)),
        callback_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(node_begins).scopes({at::RecordScope::BACKWARD_FUNCTION}))) {}
  ~ToldOfNodes() {
    at::removeCallback(callback_);
    told = outer_;
  }
  ToldOfNodes(const ToldOfNodes&) = delete;
  ToldOfNodes& operator=(const ToldOfNodes&) = delete;

 private:
  StepLog* outer_;
  at::CallbackHandle callback_;
};

}  // namespace

Sites::Sites(nn::Module& model, const StaticEagerOptions& options) : options_(options) {
  rules_changed(rules_);
  for (const auto& [path, module] : model.named_modules()) {
    auto& site = sites_.emplace_back(
        Site{.module = module, .life = module->life(), .path = path, .hooks = module->hook_count()});
    by_module_[module] = &site;
    try {
      module->run_by([this, &site](nn::Tensors inputs,
                                   const Forward& forward) { return call(site, std::move(inputs), forward); },
                     [this, &site](nn::Tensors inputs, const Forward& forward) {
                       return call_forward(site, std::move(inputs), forward);
                     });
    } catch (...) {
      sites_.pop_back();  // another's
      let_go();
      throw;
    }
  }
}

Sites::~Sites() {
  let_go();
}

void Sites::let_go() {
  for (auto& site : sites_)
    if (!site.life.expired()) site.module->run_by(nullptr, nullptr);
}

void Sites::run(const std::function<void()>& step, Watch watch, StepLog& log, const ContextPtr& context) {
  const auto ended = c10::make_scope_exit([this] {
    watch_ = Watch::kStatic;
    log_ = nullptr;
    turn_ = nullptr;
  });
  watch_ = watch;
  log_ = &log;
  context_ = context;
  failed_ = nullptr;
  ViewSizes sizes;
  turn_ = &sizes.turn;
  for (auto& site : sites_) site.next = 0;
  const ToldOfNodes nodes(log);
  // Ends are those of a program of which nothing is recorded.
  const Within timeline(context, &Context::timeline, watch == Watch::kEnds ? nullptr : &log.timeline);
  if (watch != Watch::kStatic) return step();
  const PlainOps plain([this](const auto& op, auto args) { begins(op, args); },
                       [this](const auto& op, auto results) { ends(op, results); });
  step();
}

at::Tensor Sites::call(Site& site, nn::Tensors inputs, const Forward& forward) {
  if (&site == &sites_.front() && !region_)
    for (auto& each : sites_) each.next = 0;
  try {
    if (watch_ == Watch::kEnds) return see_call(site, std::move(inputs), forward);
    if (region_ && !is_member(site)) return leave_region(site, inputs, forward);
    return site.hooks == 0 ? forward(std::move(inputs)) : logged(nullptr, -1, inputs, forward);
  } catch (...) {
    if (failed_ == nullptr) failed_ = &site;
    throw;
  }
}

at::Tensor Sites::call_forward(Site& site, nn::Tensors inputs, const Forward& forward) {
  if (in_backward_pass()) site.demote("runs again on the way back");
  if (watch_ == Watch::kOps) return logged(&site, -1, inputs, forward);
  if (watch_ == Watch::kEnds) return see_forward(site, std::move(inputs), forward);
  if (!region_) return run_static(site, std::move(inputs), forward);
  auto& seen = next_call(site);
  ++site.next;
  return run_within(site, seen, inputs, forward);
}

at::Tensor Sites::logged(Site* site, int64_t rank, const nn::Tensors& inputs, const Forward& forward) {
  if (log_ == nullptr) return forward(inputs);
  if (site == &sites_.front()) log_->nodes.emplace_back(log_->timeline.size(), kForward);
  const auto node = next_node();
  const auto entry = log_->timeline.size();
  const auto ended = c10::make_scope_exit([&] {
    log_->stretches.push_back(
        {site, region_ ? region_->site : site, rank, node, next_node(), entry, log_->timeline.size()});
  });
  return forward(inputs);
}

void Sites::begins(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> args) {
  plain_ = text_of_constants(op, args);
  if (running_ && !in_backward_pass()) {
    auto& ops = running_->seen->ops;
    const auto hash = std::hash<std::string>()(plain_);
    const size_t i = running_->op++;
    if (log_ != nullptr && i == ops.size()) ops.push_back(hash);
    LOCKSTEP_CHECK(i < ops.size() && ops[i] == hash, "[static_eager] op ", i, " of ", running_->site->path,
                   " is now ", plain_, "; record the step again");
  }
  if (log_ != nullptr) plain_ += text_of_values(args.slice(first_read(toString(op.operator_name()))), false);
}

void Sites::ends(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> results) {
  // On the way back a factory may make a DTensor, which the timeline has.
  const auto is_ours = [](const c10::IValue& v) { return v.isTensor() && is_dtensor(v.toTensor()); };
  if (log_ == nullptr || std::any_of(results.begin(), results.end(), is_ours)) return;
  const bool has_values = !makes_mere_memory(toString(op.operator_name()));
  PlainOp done{std::move(plain_) + (has_values ? text_of_values(results, true) : " ->"), nullptr, 0};
  if (!in_backward_pass()) {
    if (!running_) return;
    done.site = running_->site;
    done.rank = region_->rank;
  } else if (const auto* stretch = log_->of_node(log_->nodes.back().second); stretch != nullptr) {
    // What is added up there may be what comes from all of the region.
    done.site = stretch->root;
    done.rank = stretch->rank;
  } else {
    return;
  }
  log_->plain.push_back(std::move(done));
}

}  // namespace lockstep
