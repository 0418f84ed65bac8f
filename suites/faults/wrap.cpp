// SPDX-License-Identifier: Apache-2.0
#include "suites/faults/wrap.h"

#include <ATen/ATen.h>

#include <map>

#include "engine/ops/rules/table.h"
#include "engine/values/error.h"
#include "suites/engines/lockstep_engine.h"

namespace lockstep::suites {
namespace {

class FaultyWorld : public World {
 public:
  FaultyWorld(WorldPtr world, WorldFault fault) : world_(std::move(world)), fault_(std::move(fault)) {}
  std::string name() const override { return world_->name(); }
  int64_t size() const override { return world_->size(); }
  const std::vector<int64_t>& hosted() const override { return world_->hosted(); }

  PerRank<Received> all_gather(const std::vector<int64_t>& ranks, const std::vector<Group>& groups,
                               const PerRank<at::Tensor>& sent) override {
    auto received = world_->all_gather(ranks, groups, spoilt(sent));
    if (fault_.gathered) fault_.gathered(received, groups);
    return received;
  }
  PerRank<Received> all_to_all(const std::vector<int64_t>& ranks, const std::vector<Group>& groups,
                               const PerRank<Received>& sent) override {
    PerRank<Received> pieces;
    for (const auto& one : sent) pieces.push_back(spoilt(one));
    auto received = world_->all_to_all(ranks, groups, pieces);
    if (fault_.exchanged) fault_.exchanged(received, groups);
    return received;
  }
  PerRank<at::Tensor> broadcast(const std::vector<int64_t>& ranks, const std::vector<Group>& groups,
                                int64_t root, const PerRank<at::Tensor>& sent) override {
    return world_->broadcast(ranks, groups, root, sent);
  }

 private:
  std::vector<at::Tensor> spoilt(std::vector<at::Tensor> tensors) const {
    if (fault_.sent)
      for (auto& t : tensors) t = fault_.sent(t);
    return tensors;
  }
  WorldPtr world_;
  WorldFault fault_;
};

// An engine that does something around each run of Lockstep's.
class Around : public EngineUnderTest {
 public:
  using Run = std::function<EngineResult(EngineUnderTest&, const oracle::Case&, bool)>;
  Around(Run around, LockstepEngine::Decorate decorate = nullptr)
      : engine_(std::move(decorate)), around_(std::move(around)) {}
  std::string name() const override { return "lockstep with a planted fault"; }
  EngineResult run(const oracle::Case& c, bool want_timeline) override {
    return around_(engine_, c, want_timeline);
  }

 private:
  LockstepEngine engine_;
  Run around_;
};

// User rules are global; the scope takes them back.
class RuleScope {
 public:
  RuleScope(const std::string& op, ChangeRows change) : op_(op) {
    const auto* entry = find_op(op);
    if (entry == nullptr) throw Broken(concat("[faults] ", op, " has no rule to spoil"));
    register_sharding(op,
                      [rows = entry->rows, change](const OpCall& call) { return change(call, rows(call)); });
  }
  ~RuleScope() { unregister_sharding(op_); }
  RuleScope(const RuleScope&) = delete;
  RuleScope& operator=(const RuleScope&) = delete;

 private:
  std::string op_;
};

// Lockstep's own, judged by an oracle that draws in another way.
class Misjudged : public LockstepEngine {
 public:
  explicit Misjudged(MakeSource make) : make_(make) {}
  std::unique_ptr<RandomSource> plain_source() override { return make_(); }

 private:
  MakeSource make_;
};

EngineResult copy_of(const EngineResult& result) {
  auto copy = result;
  for (auto& value : copy.values)
    for (auto& local : value.locals) local = local.clone();
  return copy;
}

}  // namespace

WorldPtr spoilt_world(WorldPtr world, WorldFault fault) {
  return std::make_shared<FaultyWorld>(std::move(world), std::move(fault));
}

EnginePtr with_world(WorldFault fault) {
  return with_world_made([fault = std::move(fault)] { return fault; });
}

EnginePtr with_world_made(std::function<WorldFault()> make) {
  return std::make_unique<Around>(
      [](EngineUnderTest& engine, const oracle::Case& c, bool timeline) { return engine.run(c, timeline); },
      [make = std::move(make)](WorldPtr world) { return spoilt_world(std::move(world), make()); });
}

EnginePtr with_rows(std::string op, ChangeRows change) {
  return std::make_unique<Around>(
      [op, change](EngineUnderTest& engine, const oracle::Case& c, bool timeline) {
        const RuleScope scope(op, change);
        return engine.run(c, timeline);
      });
}

EnginePtr with_policy(RandomPolicy policy) {
  return std::make_unique<Around>([policy](EngineUnderTest& engine, const oracle::Case& c, bool timeline) {
    const RandomPolicyScope scope(policy);
    return engine.run(c, timeline);
  });
}

EnginePtr with_drawing(std::function<Drawing()> make) {
  return std::make_unique<Around>([make](EngineUnderTest& engine, const oracle::Case& c, bool timeline) {
    const Drawing drawing = make();
    const DrawingScope scope(drawing);
    return engine.run(c, timeline);
  });
}

EnginePtr with_plain_source(MakeSource make) {
  return std::make_unique<Misjudged>(make);
}

EnginePtr with_program(Rewritten (*rewrite)(const oracle::Case& c)) {
  return std::make_unique<Around>([rewrite](EngineUnderTest& engine, const oracle::Case& c, bool timeline) {
    const auto other = rewrite(c);
    auto result = engine.run(other.c, timeline);
    std::vector<EngineValue> values;
    for (const auto number : other.values) values.push_back(result.values.at(static_cast<size_t>(number)));
    result.values = std::move(values);
    return result;
  });
}

EnginePtr with_result(void (*spoil)(const oracle::Case& c, EngineResult& result)) {
  return std::make_unique<Around>([spoil](EngineUnderTest& engine, const oracle::Case& c, bool timeline) {
    auto result = engine.run(c, timeline);
    spoil(c, result);
    return result;
  });
}

EnginePtr with_stale_cache(std::string (*key)(const oracle::Case& c)) {
  auto cache = std::make_shared<std::map<std::string, EngineResult>>();
  return std::make_unique<Around>(
      [key, cache](EngineUnderTest& engine, const oracle::Case& c, bool timeline) {
        const auto text = key(c);
        if (const auto hit = cache->find(text); hit != cache->end()) return copy_of(hit->second);
        auto result = engine.run(c, timeline);
        cache->clear();  // a cache of one entry: what matters is the case right before
        (*cache)[text] = copy_of(result);
        return result;
      });
}

}  // namespace lockstep::suites
