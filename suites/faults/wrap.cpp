// SPDX-License-Identifier: Apache-2.0
#include "suites/faults/wrap.h"

#include <ATen/ATen.h>

#include <map>
#include <set>

#include "engine/layout/route.h"
#include "engine/ops/rules/table.h"
#include "engine/values/error.h"
#include "engine/world/bits.h"
#include "engine/world/world.h"
#include "oracle/program/before_call.h"
#include "oracle/program/statements.h"
#include "suites/core/by_library.h"
#include "suites/engines/make_engine.h"
#include "suites/faults/rewrite.h"
#include "suites/train/memory.h"

namespace lockstep::suites {
namespace {

at::Tensor flat(const Received& pieces) {
  Received all;
  for (const auto& piece : pieces) all.push_back(piece.reshape({-1}));
  return all.empty() ? at::empty({0}) : at::cat(all);
}

// While alive, nobody counts what is allocated: a fault's own copies are no engine's.
struct Uncounted {
  const MemoryReports nobody{c10::kCPU, [](int64_t) {}};
};

// What arrived for the ranks of an exchange, kept until all of it can be spoilt.
class Arrivals {
 public:
  explicit Arrivals(const Exchange& asked) : asked_(asked), pieces_(asked.parts.size()) {}

  void add(size_t part, const at::Tensor& piece) {
    const Uncounted copy;
    pieces_[part].push_back(piece.clone());
  }

  // A general exchange names a rank several times, and whoever has no elements is not named at all: as a
  // hook sees it, each gave one tensor, flat ones.
  void spoil(const SpoilReceived& hook) {
    const Uncounted copies;
    Arrived seen(pieces_.size());
    Groups groups;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      groups.push_back(*asked_.parts[i].group);
      for (size_t place = 0; place < groups[i].ranks.size(); ++place) {
        const auto from = of(i, place);
        seen[i].push_back(is_flat() || from.empty() ? flat(from) : from.front());
      }
    }
    hook(seen, groups);
    for (size_t i = 0; i < pieces_.size(); ++i) take(i, seen[i]);
  }

  const Arrived& pieces() const { return pieces_; }

 private:
  // A place is named several times, as by a general exchange, by a list and by fully_shard's reduction.
  bool is_flat() const {
    if (std::string_view(asked_.op) == name(StepKind::kExchange)) return true;
    for (const auto& part : asked_.parts) {
      std::set<int64_t> places;
      for (const auto& parcel : part.received)
        if (!places.insert(parcel.place).second) return true;
    }
    return false;
  }

  Received of(size_t i, size_t place) const {
    Received from;
    for (size_t k = 0; k < pieces_[i].size(); ++k)
      if (asked_.parts[i].received[k].place == static_cast<int64_t>(place)) from.push_back(pieces_[i][k]);
    return from;
  }

  void take(size_t i, const Received& spoilt) {
    std::vector<int64_t> taken(spoilt.size());
    for (size_t k = 0; k < pieces_[i].size(); ++k) {
      auto& piece = pieces_[i][k];
      const auto place = static_cast<size_t>(asked_.parts[i].received[k].place);
      if (!is_flat()) {
        piece = spoilt[place];
        continue;
      }
      piece = spoilt[place].narrow(0, taken[place], piece.numel()).reshape(piece.sizes());
      taken[place] += piece.numel();
    }
  }

  const Exchange& asked_;
  Arrived pieces_;
};

class FaultyWorld : public World {
 public:
  FaultyWorld(WorldPtr world, WorldFault fault)
      : World(*world), world_(std::move(world)), fault_(std::move(fault)) {}

  Work exchange(Exchange asked) override {
    const std::string_view op = asked.op;
    if (op == "broadcast" || op == "barrier") return world_->exchange(std::move(asked));
    auto& hook = op == "all_reduce" && fault_.all_reduced   ? fault_.all_reduced
                 : op == "all_gather" || op == "all_reduce" ? fault_.gathered
                                                            : fault_.exchanged;
    auto inner = asked;
    if (fault_.sent)
      for (auto& part : inner.parts)
        for (auto& piece : part.sent) piece.slab = fault_.sent(piece.tensor());
    if (fault_.arrived && asked.arrived)
      inner.arrived = [next = asked.arrived, arrived = fault_.arrived](size_t part, size_t parcel,
                                                                       const at::Tensor& piece) {
        next(part, parcel, arrived(piece));
      };
    if (!hook) return world_->exchange(std::move(inner));
    const auto outer = std::make_shared<const Exchange>(std::move(asked));
    const auto arrivals = std::make_shared<Arrivals>(*outer);
    inner.arrived = [arrivals](size_t i, size_t, const at::Tensor& piece) { arrivals->add(i, piece); };
    return world_->exchange(std::move(inner)).then([outer, arrivals, &hook] {
      arrivals->spoil(hook);
      deliver(*outer, arrivals->pieces());
    });
  }
  Library* library() override { return world_->library(); }

 private:
  WorldPtr world_;
  WorldFault fault_;
};

// An engine that does something around each run of Lockstep's.
class Around : public EngineUnderTest {
 public:
  using Run = std::function<EngineResult(EngineUnderTest&, const oracle::Case&, bool)>;
  explicit Around(Run run) : around_(std::move(run)) {}
  const EngineProfile& profile() const override { return engine_->profile(); }
  EngineResult run(const oracle::Case& c, bool want_timeline) override {
    return around_(*engine_, c, want_timeline);
  }
  std::unique_ptr<RandomSource> plain_source() override { return engine_->plain_source(); }

 private:
  EnginePtr engine_ = make_engine("lockstep");
  Run around_;
};
Plant around(Around::Run run) {
  return [=] { return std::make_unique<Around>(run); };
}

RowsOf changed(const std::string& op, ChangeRows change) {
  const auto* entry = find_op(op);
  if (entry == nullptr) throw Broken(concat("[faults] ", op, " has no rule to spoil"));
  return [rows = entry->rows, change](const OpCall& call) { return change(call, rows(call)); };
}

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

EngineResult with_values_of(EngineResult result, const Rewritten& other) {
  std::vector<EngineValue> values;
  for (const auto number : other.values) values.push_back(result.values.at(static_cast<size_t>(number)));
  result.values = std::move(values);
  return result;
}

std::vector<oracle::Ref> first_argument(const oracle::Call& call) {
  if (const auto* list = std::get_if<std::vector<oracle::Ref>>(&call.args.at(0))) return *list;
  return {std::get<oracle::Ref>(call.args[0])};
}

// The tensors of the call's first argument are copies on every rank, from then on.
Rewritten moved_for(const oracle::Case& c, size_t call) {
  const oracle::Target everywhere{Placements(static_cast<size_t>(c.mesh.ndim()), Replicate{}), {}};
  Rewriter r(c);
  for (size_t k = 0; k < c.program.calls.size(); ++k) {
    if (k == call)
      for (const auto ref : first_argument(c.program.calls[k]))
        r.become(ref, r.insert(std::string(oracle::kRedistribute), {oracle::Ref{r.now(ref)}, everywhere}));
    r.copy(c.program.calls[k]);
  }
  return std::move(r).finish();
}

// The run of a Program of which some call is refused.
EngineResult run_moved(EngineUnderTest& engine, const oracle::Case& c, bool timeline) {
  size_t call = 0, entries = 0;
  try {
    for (; call < c.program.calls.size(); ++call)
      entries = engine.run(oracle::before_call(c, call + 1), timeline).timeline.size();
  } catch (const Refused&) {
    const auto other = moved_for(c, call);
    auto result = engine.run(other.c, timeline);
    for (auto k = entries; k < result.timeline.size() && result.timeline[k].op == oracle::kRedistribute; ++k)
      result.timeline[k].implicit = true;
    return with_values_of(std::move(result), other);
  }
  throw Broken("[faults] refused once, and then not");
}

}  // namespace

void deliver(const Exchange& asked, const Arrived& pieces) {
  for (size_t i = 0; i < pieces.size(); ++i)
    for (size_t k = 0; k < pieces[i].size(); ++k)
      if (asked.arrived)
        asked.arrived(i, k, pieces[i][k]);
      else
        copy_bits(asked.parts[i].received[k].slab, pieces[i][k]);
}

WorldPtr spoilt_world(WorldPtr world, WorldFault fault) {
  return std::make_shared<FaultyWorld>(std::move(world), std::move(fault));
}

Plant with_received(SpoilReceived gathered, SpoilReceived exchanged) {
  return with_world_made([=] { return WorldFault{.gathered = gathered, .exchanged = exchanged}; });
}

Plant with_sent(std::function<at::Tensor(const at::Tensor& sent)> spoil) {
  return with_world_made([=] { return WorldFault{.sent = spoil}; });
}

Plant with_world(WorldPtr (*around)(WorldPtr world)) {
  return [=] { return make_engine("lockstep", {.decorate = around}); };
}

Plant with_world_made(std::function<WorldFault()> make) {
  return [=] {
    return make_engine("lockstep",
                       {.decorate = [=](WorldPtr w) { return spoilt_world(std::move(w), make()); }});
  };
}

Plant with_moved(void (*spoil)(const at::Tensor& moved)) {
  return [=] { return make_engine("lockstep", {.spoil = spoil}); };
}

Plant with_meshes(DeviceMesh (*remade)(const DeviceMesh& whole, const DeviceMesh& made)) {
  return [=] { return make_engine("lockstep", {.remade = remade}); };
}

Plant with_rows(std::string op, ChangeRows change) {
  return around([=](EngineUnderTest& engine, const oracle::Case& c, bool timeline) {
    const RuleScope scope(op, changed(op, change));
    return engine.run(c, timeline);
  });
}

Plant with_bypasses(std::vector<Bypass> bypasses) {
  return around([=](EngineUnderTest& engine, const oracle::Case& c, bool timeline) {
    const BypassScope scope(bypasses);
    return engine.run(c, timeline);
  });
}

Plant with_policy(RandomPolicy policy) {
  return around([=](EngineUnderTest& engine, const oracle::Case& c, bool timeline) {
    const RandomPolicyScope scope(policy);
    return engine.run(c, timeline);
  });
}

Plant with_drawing(std::function<Drawing()> make) {
  return around([=](EngineUnderTest& engine, const oracle::Case& c, bool timeline) {
    const Drawing drawing = make();
    const DrawingScope scope(drawing);
    return engine.run(c, timeline);
  });
}

Plant with_plain_source(MakeSource make) {
  return [=] { return std::make_unique<Misjudged>(make); };
}

Plant with_program(Rewritten (*rewrite)(const oracle::Case& c)) {
  return around([=](EngineUnderTest& engine, const oracle::Case& c, bool timeline) {
    const auto other = rewrite(c);
    return with_values_of(engine.run(other.c, timeline), other);
  });
}

Plant with_refused_moved(Refusal why) {
  return around([=](EngineUnderTest& engine, const oracle::Case& c, bool timeline) {
    try {
      return engine.run(c, timeline);
    } catch (const Refused& e) {
      if (e.why != why) throw;
    }
    return run_moved(engine, c, timeline);
  });
}

Plant with_result(void (*spoil)(const oracle::Case& c, EngineResult& result)) {
  return around([=](EngineUnderTest& engine, const oracle::Case& c, bool timeline) {
    auto result = engine.run(c, timeline);
    spoil(c, result);
    return result;
  });
}

Plant with_library_order(void (*spoil)(ReductionOrder& order)) {
  return around([=](EngineUnderTest& engine, const oracle::Case& c, bool timeline) {
    if (c.integer_lane) return engine.run(c, timeline);
    auto by_library = c;
    make_by_library(by_library);
    auto result = engine.run(by_library, timeline);
    for (auto& entry : result.timeline) spoil(entry.order);
    return result;
  });
}

Plant with_stale_cache(std::string (*key)(const oracle::Case& c)) {
  using Answer = std::pair<std::string, EngineResult>;
  return [=] {
    auto last = std::make_shared<std::optional<Answer>>();  // what matters is the case right before
    return around([=](EngineUnderTest& engine, const oracle::Case& c, bool timeline) {
      const auto text = key(c);
      if (*last && (*last)->first == text) return copy_of((*last)->second);
      auto result = engine.run(c, timeline);
      *last = Answer{text, copy_of(result)};
      return result;
    })();
  };
}

}  // namespace lockstep::suites
