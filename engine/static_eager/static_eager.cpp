// SPDX-License-Identifier: Apache-2.0
#include "engine/static_eager/static_eager.h"

#include <algorithm>
#include <unordered_map>

#include "engine/static_eager/implicit_rows.h"
#include "engine/static_eager/sites.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

// While alive, each run begins with the random state of the first one and without gradients; afterwards both
// are what they were.
class FromTheStart {
 public:
  FromTheStart(nn::Module& model, ContextPtr context)
      : parameters_(model.parameters()), context_(std::move(context)), generator_(context_->generator) {
    for (const auto& parameter : parameters_) gradients_.push_back(parameter.grad());
    again();
  }
  ~FromTheStart() {
    context_->generator = generator_;
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = gradients_[i];
  }
  FromTheStart(const FromTheStart&) = delete;
  FromTheStart& operator=(const FromTheStart&) = delete;

  void again() {
    context_->generator = generator_;
    for (auto& parameter : parameters_) parameter.mutable_grad() = at::Tensor();
  }

 private:
  std::vector<at::Tensor> parameters_, gradients_;
  ContextPtr context_;
  Generator generator_;
};

CommPtr comm_of_model(const nn::Module& model) {
  for (const auto& parameter : model.parameters())
    if (const auto* impl = dtensor_impl(parameter)) {
      const auto type = impl->spec()->mesh().device_type();
      LOCKSTEP_CHECK(type == c10::kCPU, "[static_eager] the model is on ", type,
                     ", and what runs statically is compared op by op on the CPU alone; run it eagerly");
      return impl->comm();
    }
  throw Error("[static_eager] the model has no parameter that is a DTensor; parallelize it first");
}

// What each site does, by the log of an eager step, and which of them do what plain ops cannot.
void demote_by(const StepLog& eager) {
  for (size_t i = 0; i < eager.timeline.size(); ++i)
    if (auto* site = eager.of_entry(i); site != nullptr) {
      ++site->ops;
      if (auto why = unlike_plain(eager.timeline[i]); !why.empty()) site->demote(std::move(why));
    }
}

// The innermost that is local of this one and those around it. @returns false: there is none
bool demote_around(std::deque<Site>& sites, const Site& inner, const std::string& why) {
  Site* found = nullptr;
  for (auto& site : sites) {
    const bool is_around = &site == &inner || site.path.empty() || inner.path.starts_with(site.path + ".");
    if (site.is_local && is_around) found = &site;
  }
  if (found != nullptr) found->demote(why);
  return found != nullptr;
}

// What a step did on DTensors, eagerly, and another did on DTensors or on plain tensors; each op once. A site
// that did otherwise is demoted. @returns whether any was
bool demote_by(const StepLog& eager, const StepLog& trial, std::deque<Site>& sites, const Comm& comm) {
  bool any = false, other = false;
  const auto demote = [&](Site* site, const std::string& why) {
    if (site == nullptr || !site->is_local) {
      other = true;
      return;
    }
    site->demote(why);
    any = true;
  };
  for (size_t r = 0; r < comm.ranks.size(); ++r) {
    std::unordered_multimap<std::string, size_t> open;
    const auto text = [&](const TimelineEntry& entry) { return text_of(entry, r, comm.positions[r]); };
    const auto close = [&](const std::string& done) {
      const auto it = open.find(done);
      if (it == open.end()) return false;
      open.erase(it);
      return true;
    };
    for (size_t i = 0; i < eager.timeline.size(); ++i) open.emplace(text(eager.timeline[i]), i);
    for (const auto& entry : trial.timeline) other |= !close(text(entry));
    for (const auto& op : trial.plain)
      if (op.rank == static_cast<int64_t>(r) && !close(op.text))
        demote(op.site, concat("does not on plain tensors what it does on DTensors: ", op.text));
    for (const auto& [left, entry] : open)
      demote(eager.of_entry(entry), concat("does on DTensors what it does not on plain ones: ", left));
  }
  if (other && !any)
    for (auto& site : sites) {
      any |= site.is_local;
      site.demote("the step is another when it is run again");
    }
  return any;
}

}  // namespace

class StaticEager::Model {
 public:
  Model(nn::Module& model, const std::function<void()>& step, const StaticEagerOptions& options)
      : sites(model, options) {
    const auto comm = comm_of_model(model);
    FromTheStart from(model, comm->context);
    StepLog eager;
    sites.run(step, Watch::kOps, eager, comm->context);
    demote_by(eager);
    plan = implicit_rows(eager, comments);
    from.again();
    StepLog unused;
    sites.run(step, Watch::kEnds, unused, comm->context);
    do {
      from.again();
      sites.find_regions(comm->ranks.size());
    } while (!try_it(step, eager, *comm));
    sites.static_calls = 0;
    sites.eager_calls.clear();
  }

  Sites sites;
  ParallelPlan plan;
  std::string comments;

 private:
  // Whether the step runs statically as it did eagerly; if not, one site is local no more.
  bool try_it(const std::function<void()>& step, const StepLog& eager, const Comm& comm) {
    StepLog trial;
    try {
      sites.run(step, Watch::kStatic, trial, comm.context);
    } catch (const std::exception& error) {
      const auto* site = sites.failed();
      if (site == nullptr && !trial.nodes.empty())
        if (const auto* stretch = trial.of_node(trial.nodes.back().second)) site = stretch->site;
      const auto why = concat("fails on plain tensors: ", std::string_view(error.what()).substr(0, 200));
      if (site == nullptr || !demote_around(sites.all(), *site, why)) throw;
      return false;
    }
    return !demote_by(eager, trial, sites.all(), comm);
  }
};

StaticEager::StaticEager(nn::Module& model, const std::function<void()>& step,
                         const StaticEagerOptions& options)
    : model_(std::make_unique<Model>(model, step, options)) {}

StaticEager::~StaticEager() = default;

std::vector<StaticPart> StaticEager::parts() const {
  std::vector<StaticPart> parts;
  for (const auto& site : model_->sites.all())
    parts.push_back({site.path, site.is_local, site.why, site.ops});
  return parts;
}

const std::string& StaticEager::on_the_way_back() const {
  return model_->comments;
}

const ParallelPlan& StaticEager::plan() const {
  return model_->plan;
}

int64_t StaticEager::static_calls() const {
  return model_->sites.static_calls;
}

const std::map<std::string, int64_t>& StaticEager::eager_calls() const {
  return model_->sites.eager_calls;
}

std::string to_string(const StaticEager& step) {
  auto text = to_string(step.plan());
  for (const auto& part : step.parts())
    text += concat("# ", part.path.empty() ? "(the model)" : part.path, ": ",
                   part.is_local ? concat("plain tensors, ", part.ops, " ops")
                                 : concat("DTensors: ", part.why),
                   "\n");
  return text + step.on_the_way_back();
}

}  // namespace lockstep
