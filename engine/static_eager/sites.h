// SPDX-License-Identifier: Apache-2.0
// The modules of a model, and how their calls run: watched in several ways, or statically.
#pragma once
#include <deque>
#include <map>
#include <optional>

#include "engine/static_eager/history.h"
#include "engine/static_eager/site.h"
#include "engine/static_eager/static_eager.h"
#include "engine/static_eager/step_log.h"

namespace lockstep {

// What is done with the calls of a step.
enum class Watch {
  kOps,     // they run eagerly; a log is kept
  kEnds,    // they run eagerly, and what passes them is kept as SeenCalls
  kStatic,  // they run statically
};

class Sites {
 public:
  // Takes over the calls of all modules of the model, until it goes.
  explicit Sites(nn::Module& model, const StaticEagerOptions& options);
  ~Sites();
  Sites(const Sites&) = delete;
  Sites& operator=(const Sites&) = delete;

  // Runs the step so watched, and keeps a log; statically it is a trial, of which histories and ops are kept,
  // not compared.
  void run(const std::function<void()>& step, Watch watch, StepLog& log, const ContextPtr& context);
  // Which regions there are, from which sites are local. @param ranks that the process hosts
  void find_regions(size_t ranks);

  std::deque<Site>& all() { return sites_; }
  const std::deque<Site>& all() const { return sites_; }
  // The innermost site within which the last run has thrown; null: none.
  Site* failed() const { return failed_; }
  int64_t static_calls = 0;
  std::map<std::string, int64_t> eager_calls;

 private:
  using Forward = nn::Module::Forward;
  void let_go();  // of the modules
  // What runs on plain tensors.
  struct Region {
    Site* site;
    int64_t rank;
    std::vector<Nodes> left_out = {};
  };
  // Whose forward() it is of a region.
  struct Running {
    Site* site;
    SeenCall* seen;
    size_t op = 0;  // of those seen
  };

  at::Tensor call(Site& site, nn::Tensors inputs, const Forward& forward);
  at::Tensor call_forward(Site& site, nn::Tensors inputs, const Forward& forward);
  at::Tensor see_call(Site& site, nn::Tensors inputs, const Forward& forward);
  at::Tensor see_forward(Site& site, nn::Tensors inputs, const Forward& forward);
  at::Tensor leave_region(Site& site, const nn::Tensors& inputs, const Forward& forward);
  at::Tensor run_static(Site& site, nn::Tensors inputs, const Forward& forward);
  at::Tensor run_region(Site& site, const nn::Tensors& inputs, const Forward& forward);
  at::Tensor run_on_rank(Site& site, int64_t rank, const nn::Tensors& locals, const Forward& forward);
  at::Tensor run_within(Site& site, SeenCall& seen, const nn::Tensors& inputs, const Forward& forward);
  // A stretch of the log, if one is kept. @param site null: of hooks
  at::Tensor logged(Site* site, int64_t rank, const nn::Tensors& inputs, const Forward& forward);
  void check_history(SeenCall& seen, const at::Tensor& result, Nodes nodes);
  // Of plain ops, before and after them.
  void begins(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> args);
  void ends(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> results);
  std::string changed(const Site& site, const nn::Tensors& inputs) const;
  bool is_member(const Site& site) const;
  SeenCall& next_call(Site& site) const;

  const StaticEagerOptions options_;
  std::deque<Site> sites_;
  std::map<const nn::Module*, Site*> by_module_;
  Watch watch_ = Watch::kStatic;
  StepLog* log_ = nullptr;  // null: none is kept
  ContextPtr context_;      // of the last run
  Site* failed_ = nullptr;  // innermost
  std::optional<Region> region_;
  std::optional<Running> running_;
  uint64_t rules_ = 0;               // of users, as the step was seen
  int64_t eager_depth_ = 0;          // calls of which something had changed
  ViewSizes::Turn* turn_ = nullptr;  // of the ViewSizes that is alive
  std::string plain_;                // the op that has begun
};

}  // namespace lockstep
