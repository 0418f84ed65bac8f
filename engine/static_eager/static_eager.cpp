// SPDX-License-Identifier: Apache-2.0
#include "engine/static_eager/static_eager.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <unordered_map>

#include "engine/context/activity.h"
#include "engine/static_eager/implicit_rows.h"
#include "engine/static_eager/sites.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/world/collectives.h"

namespace lockstep {
namespace {

// While alive, each run begins with the random state and the buffers of the first one, and without gradients;
// afterwards all are what they were.
class FromTheStart {
 public:
  FromTheStart(nn::Module& model, ContextPtr context)
      : parameters_(model.parameters()),
        context_(std::move(context)),
        generator_(context_->generator),
        plain_state_(plain_.get_state()) {
    for (const auto& parameter : parameters_) gradients_.push_back(parameter.grad());
    const at::NoGradGuard values;
    for (const auto& [path, buffer] : model.named_buffers()) buffers_.emplace_back(buffer, buffer.clone());
    for (auto& parameter : parameters_) parameter.mutable_grad() = at::Tensor();
  }
  ~FromTheStart() {
    again();
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = gradients_[i];
  }
  FromTheStart(const FromTheStart&) = delete;
  FromTheStart& operator=(const FromTheStart&) = delete;

  void again() {
    context_->generator = generator_;
    plain_.set_state(plain_state_);
    const at::NoGradGuard values;
    for (auto& [buffer, value] : buffers_) buffer.copy_(value);
    for (auto& parameter : parameters_) parameter.mutable_grad() = at::Tensor();
  }

 private:
  std::vector<at::Tensor> parameters_, gradients_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;
  ContextPtr context_;
  Generator generator_;
  at::Generator plain_ = at::detail::getDefaultCPUGenerator();
  at::Tensor plain_state_;
};

// That of all parameters.
CommPtr comm_of_model(const nn::Module& model) {
  CommPtr comm;
  for (const auto& [path, parameter] : model.named_parameters()) {
    const auto* impl = dtensor_impl(parameter);
    LOCKSTEP_CHECK(impl != nullptr, "[static_eager] the parameter '", path,
                   "' is no DTensor; parallelize the model first");
    if (comm == nullptr) comm = impl->comm();
    LOCKSTEP_CHECK(impl->comm()->mesh == comm->mesh && impl->comm()->ranks == comm->ranks &&
                       impl->comm()->world == comm->world,
                   "[static_eager] the parameter '", path, "' is on mesh ", impl->comm()->mesh,
                   ", and others are on ", comm->mesh, "; run each part statically by itself");
  }
  LOCKSTEP_CHECK(comm != nullptr, "[static_eager] the model has no parameters; run it eagerly");
  const auto type = comm->mesh.device_type();
  LOCKSTEP_CHECK(type == c10::kCPU, "[static_eager] the model is on ", type,
                 ", and what runs statically is compared op by op on the CPU alone; run it eagerly");
  return comm;
}

bool is_around(const Site& outer, const Site& inner) {
  return &outer == &inner || outer.path.empty() || inner.path.starts_with(outer.path + ".");
}

// What each site does, by the log of an eager step, and which of them do what plain ops cannot. What moves on
// the way back may be a gradient that has left the module.
void demote_by(const StepLog& eager, std::deque<Site>& sites, const DeviceMesh& mesh) {
  for (size_t i = 0; i < eager.timeline.size(); ++i) {
    auto* site = eager.of_entry(i);
    if (site == nullptr) continue;
    ++site->ops;
    const auto& entry = eager.timeline[i];
    const bool is_backward = eager.forward_of(i) == nullptr;
    if (!is_on(entry, mesh)) site->demote(concat(entry.op, " is on another mesh"));
    if (entry.op == "lockstep::redistribute" && is_backward) continue;
    if (auto why = unlike_plain(entry); !why.empty()) site->demote(std::move(why));
    if (!is_backward || !adds_nothing(entry)) continue;
    for (auto& outer : sites)
      if (is_around(outer, *site)) outer.demote("adds up gradients of which one is zero, in an order unseen");
  }
}

// And with it those that stand where it stands in other layers, which are likely to do the same.
void demote_alike(std::deque<Site>& sites, const Site& site, const std::string& why) {
  static const std::regex kNumber("(^|\\.)\\d+");
  const auto place = [](const Site& s) { return std::regex_replace(s.path, kNumber, "$1#"); };
  for (auto& other : sites)
    if (place(other) == place(site)) other.demote(why);
}

// The innermost that is local of this one and those around it. @returns false: there is none
bool demote_around(std::deque<Site>& sites, const Site& inner, const std::string& why) {
  const auto found = std::find_if(sites.rbegin(), sites.rend(),
                                  [&](const Site& site) { return site.is_local && is_around(site, inner); });
  if (found == sites.rend()) return false;
  demote_alike(sites, *found, why);
  return true;
}

// Whose region it is that this one is in; null: it is in none.
Site* root_of(std::deque<Site>& sites, const Site* inner) {
  const auto has_it = [&](const Site& site) {
    return site.is_local && std::find(site.members.begin(), site.members.end(), inner) != site.members.end();
  };
  const auto found = std::find_if(sites.begin(), sites.end(), has_it);
  return found == sites.end() ? nullptr : &*found;
}

// What a step did on DTensors, on each hosted rank; and then what another has not done.
class Open {
 public:
  Open(const StepLog& eager, const Comm& comm) : ranks_(comm.ranks.size()), comm_(comm) {
    for (size_t r = 0; r < ranks_.size(); ++r)
      for (size_t i = 0; i < eager.timeline.size(); ++i)
        if (const auto& entry = eager.timeline[i]; !moves_nothing(entry))
          ranks_[r].emplace(text(entry, r), i);
  }
  // What is to be done by both.
  bool counts(const TimelineEntry& entry) const { return !moves_nothing(entry) && is_on(entry, comm_.mesh); }
  // @returns false: it was not done
  bool close(const PlainOp& op) { return close(ranks_[as_size(op.rank)], op.text); }
  bool close(const TimelineEntry& entry) {
    bool all = true;
    for (size_t r = 0; r < ranks_.size(); ++r) all &= close(ranks_[r], text(entry, r));
    return all;
  }
  // The first one that is left.
  std::optional<size_t> first() const {
    std::optional<size_t> least;
    for (const auto& rank : ranks_)
      for (const auto& [text, entry] : rank)
        if (!least || entry < *least) least = entry;
    return least;
  }

 private:
  using Texts = std::unordered_multimap<std::string, size_t>;
  std::string text(const TimelineEntry& entry, size_t r) const {
    return text_of(entry, r, comm_.positions[r]);
  }
  static bool close(Texts& texts, const std::string& done) {
    const auto found = texts.find(done);
    if (found == texts.end()) return false;
    texts.erase(found);
    return true;
  }

  std::vector<Texts> ranks_;
  const Comm& comm_;
};

// Each op that a step did eagerly, another has done once, on DTensors or on plain tensors. If not, who did
// otherwise first is demoted: what comes after goes by what he gave.
void demote_by(const StepLog& eager, const StepLog& trial, std::deque<Site>& sites, const Comm& comm) {
  Open open(eager, comm);
  bool other = false;
  for (const auto& entry : trial.timeline)
    if (open.counts(entry)) other |= !open.close(entry);
  for (const auto& op : trial.plain)
    if (op.rank >= 0 && !open.close(op)) {
      const auto name = op.text.substr(0, op.text.find(' '));
      return demote_alike(sites, *op.site, concat(name, " does otherwise on plain tensors"));
    }
  const auto left = open.first();
  if (left)
    if (auto* root = root_of(sites, eager.of_entry(*left)); root != nullptr) {
      const auto& name = eager.timeline[*left].op;
      return demote_alike(sites, *root, concat(name, " is not done on plain tensors"));
    }
  if (!left && !other) return;
  const bool any = std::any_of(sites.begin(), sites.end(), [](const Site& site) { return site.is_local; });
  LOCKSTEP_CHECK(any, "[static_eager] the step does something else when it is run again",
                 left ? concat(": not ", eager.timeline[*left].op) : "",
                 "; a step resets what it adds to, and reads and draws the same each time");
  for (auto& site : sites) site.demote("the step is another when it is run again");
}

// Which sites are local on all ranks: what one rank cannot, none does, or they would not meet.
std::vector<bool> agreed(std::deque<Site>& sites, const Comm& comm) {
  std::vector<uint8_t> demoted;
  for (const auto& site : sites) demoted.push_back(!site.is_local);
  const PerRank<at::Tensor> own(comm.ranks.size(), at::tensor(demoted, at::kByte));
  all_gather(*comm.world, comm.whole, own, [&](size_t, const at::Tensor& other) {
    for (size_t i = 0; i < sites.size(); ++i)
      if (other.const_data_ptr<uint8_t>()[i] != 0) sites[i].demote("runs otherwise on another rank");
  }).wait();
  std::vector<bool> local;
  for (const auto& site : sites) local.push_back(site.is_local);
  return local;
}

}  // namespace

class StaticEager::Model {
 public:
  Model(nn::Module& model, const std::function<void()>& step, const StaticEagerOptions& options)
      : sites(model, options) {
    const auto comm = comm_of_model(model);
    // Trials are not of the step that somebody records.
    const Within<Timeline*> unseen(comm->context, &Context::timeline, nullptr);
    const Recording by_nobody(nullptr);
    FromTheStart from(model, comm->context);
    StepLog eager;
    sites.run(step, Watch::kOps, eager, comm->context);
    const auto is_root = [this](const Stretch& s) { return s.site == &sites.all().front(); };
    LOCKSTEP_CHECK(std::any_of(eager.stretches.begin(), eager.stretches.end(), is_root),
                   "[static_eager] the step does not call the model; call it, not what is within it");
    demote_by(eager, sites.all(), comm->mesh);
    if (comm->ranks.empty())
      for (auto& site : sites.all()) site.demote("this process hosts no rank of the mesh");
    plan = implicit_rows(eager, comments);
    from.again();
    StepLog unused;
    sites.run(step, Watch::kEnds, unused, comm->context);
    while (true) {
      from.again();
      sites.find_regions(comm->ranks.size());
      const auto before = agreed(sites.all(), *comm);
      try_it(step, eager, *comm);
      if (agreed(sites.all(), *comm) == before) break;
    }
    sites.static_calls = 0;
    sites.eager_calls.clear();
  }

  Sites sites;
  ParallelPlan plan;
  std::string comments;

 private:
  // Runs the step statically. If it does otherwise than eagerly, a site is local no more.
  void try_it(const std::function<void()>& step, const StepLog& eager, const Comm& comm) {
    StepLog trial;
    try {
      sites.run(step, Watch::kStatic, trial, comm.context);
    } catch (const std::exception& error) {
      const auto* site = sites.failed();
      if (site == nullptr && !trial.nodes.empty())
        if (const auto* stretch = trial.of_node(trial.nodes.back().second)) site = stretch->site;
      const std::string_view said = error.what();
      const auto why = concat("fails on plain tensors: ", said.substr(0, said.find('\n')));
      if (site == nullptr || !demote_around(sites.all(), *site, why)) throw;
      return;
    }
    demote_by(eager, trial, sites.all(), comm);
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
    text += concat(
        "# ", part.path.empty() ? "(the model)" : part.path, ": ",
        part.is_local ? concat("plain tensors, ", part.ops, " ops") : concat("DTensors: ", part.why), "\n");
  return text + step.on_the_way_back();
}

}  // namespace lockstep
