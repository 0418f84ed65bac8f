// SPDX-License-Identifier: Apache-2.0
// The law: a model under a plan computes what one device computes, in bits or with proof; tensors are where
// the rows say; in buffers, and optimized, it has the same bits, moves no more, and its ops read what they
// read where they did. suites/plans/parallelizing.h says what a case is.
#include <ATen/ATen.h>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "oracle/judge/check.h"
#include "oracle/ownership/compare.h"
#include "oracle/ownership/ownership.h"
#include "oracle/plain/hosted_source.h"
#include "oracle/plain/recording.h"
#include "suites/core/judge.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/laws/laws.h"
#include "suites/plans/parallelized.h"

namespace lockstep::suites {
namespace {

constexpr const char* kAs[] = {"as it stands", "in buffers", "optimized", "hoisted", "statically"};

Failed fails(const Parallelizing& p, const std::string& verdict, const std::string& op,
             const std::string& text) {
  return failed("plans", verdict, op, "-", dtype_name(p.dtype), text);
}

// What one device computes, against what the ranks hold.
class OneDevice {
 public:
  OneDevice(const Parallelizing& p, std::unique_ptr<RandomSource> source, const Acted& acted)
      : p_(p), source_(std::move(source)), model_(model_of(p)) {
    act_alike(p, *model_, acted);
    x_ = p.x().to(p.mesh.device_type()).requires_grad_();
    for (const auto& parameter : model_->parameters()) starts_.push_back(parameter.detach());
    generator() = {{p.seed, 0}, p.device};
    oracle::HostedSource hosted(*source_);
    const RandomScope plain(hosted);
    recording_.device = p.mesh.device_type();
    const oracle::RecordingScope recorder(recording_);
    losses_ = train(*model_, x_, p, {}, [&](const nn::Tensors& passes) { return recording_.add_up(passes); });
    recorder.check();
    random_after_ = generator().state;
  }

  // Nothing: equal or explained, which `judgement` says.
  std::optional<Failed> unlike(const EngineResult& result, oracle::Judgement& judgement) const {
    const auto ends = ends_of(*model_, x_, losses_);
    if (result.values.size() != ends.size())
      return fails(p_, "different", "",
                   concat(result.values.size(), " values come of it, not ", ends.size()));
    if (result.random_after != random_after_)
      return fails(p_, "different", "", "the random stream ends elsewhere than on one device");
    std::vector<oracle::Start> starts;
    std::vector<oracle::Final> finals;
    const size_t parameters = starts_.size(), x = losses_.size();
    for (size_t v = 0; v < ends.size(); ++v) {
      const auto& value = result.values[v];
      if (value.defined() != ends[v].defined())
        return fails(p_, "different", "", concat("value ", v, " is there on one side alone"));
      if (!value.defined()) continue;
      if (v == x) starts.push_back({x_.detach(), value.spec, {}});
      if (v > x + 1 && v < x + 2 + parameters) starts.push_back({starts_[v - x - 2], value.spec, {}});
      finals.push_back({ends[v], record(value.spec, value.locals), v == x + 1 || v >= x + 2 + parameters});
    }
    judgement = oracle::check(recording_, result.timeline, starts, finals, p_.numerics);
    if (!judgement.mismatch) return std::nullopt;
    return fails(p_, dashboard::name(dashboard::Verdict::kDifferent), judgement.mismatch->op,
                 oracle::describe(judgement));
  }

 private:
  const Parallelizing& p_;
  std::unique_ptr<RandomSource> source_;
  std::shared_ptr<nn::Module> model_;
  at::Tensor x_;
  nn::Tensors starts_, losses_;
  oracle::Recording recording_;
  RandomState random_after_;
};

// Whole values, wherever they are.
std::string unlike(const EngineResult& a, const EngineResult& b) {
  if (a.values.size() != b.values.size()) return "there are not as many values";
  for (size_t v = 0; v < a.values.size(); ++v) {
    if (a.values[v].defined() != b.values[v].defined()) return concat("value ", v, " is there in one alone");
    if (!a.values[v].defined()) continue;
    const auto x = oracle::assemble(a.values[v].locals, *a.values[v].spec);
    const auto y = oracle::assemble(b.values[v].locals, *b.values[v].spec);
    for (const auto* whole : {&x, &y})
      if (whole->disagreement) return concat("value ", v, ": ", whole->disagreement->text);
    const auto difference = oracle::compare(x.global, y.global);
    if (!difference.equal())
      return concat("value ", v, ": ", oracle::describe(difference, x.global.scalar_type()));
  }
  return "";
}

}  // namespace

oracle::Case plans_case(uint64_t run_seed, int64_t index) {
  return case_of(any_parallelizing(run_seed, index));
}

void check_plans(const oracle::Case& c) {
  parallelizing_of(c);
}

std::vector<oracle::Case> simpler_plans(const oracle::Case& c) {
  return simpler_parallelizings(c);
}

EngineResult run_plans(const WorldPtr& world, const oracle::Case& c) {
  return parallelized(world, parallelizing_of(c));
}

// What is in buffers, optimized or runs statically is held against the plan as it stands, and that against
// one device; what is hoisted, whose sums are others, against one device itself.
Outcome judge_plans(const oracle::Case& c, EngineUnderTest& engine) {
  const auto p = parallelizing_of(c);
  auto stands = p;
  if (p.as != kHoisted) stands.as = kAsItStands;
  const ForkRng keep;
  EngineResult result, other;
  if (auto failure = fails_to_run(case_of(stands), engine, result)) return *std::move(failure);
  const OneDevice plain(stands, engine.plain_source(), result.acted);
  oracle::Judgement judgement;
  if (auto failure = plain.unlike(result, judgement)) return *std::move(failure);
  auto passed = passed_with(judgement);
  passed.bytes_moved = result.bytes_moved;
  if (stands.as == p.as) return passed;
  if (auto failure = fails_to_run(c, engine, other)) return *std::move(failure);
  if (const auto why = unlike(result, other); !why.empty())
    return fails(p, "unequal", "", concat(kAs[as_size(p.as)], ": ", why));
  return passed;
}

}  // namespace lockstep::suites
