// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/examine.h"

#include <signal.h>
#include <sys/wait.h>

#include "engine/values/error.h"
#include "generators/shrink/shrink.h"
#include "oracle/ownership/compare.h"
#include "oracle/plain/evaluate.h"
#include "oracle/random/random_simulation.h"
#include "suites/core/facts.h"
#include "suites/core/heartbeat.h"
#include "suites/core/judge.h"
#include "suites/core/spawn.h"

namespace lockstep::suites {
namespace {

// Two plain runs of the Program, compared as bits; empty if they agree.
std::string oracle_repeats(const oracle::Case& c) {
  oracle::SimulatedSource first, second;
  const auto a = oracle::evaluate(c, first), b = oracle::evaluate(c, second);
  for (size_t v = 0; v < a.size(); ++v) {
    if (!a[v].defined()) continue;
    const auto d = oracle::compare(a[v], b[v]);
    if (!d.equal()) return oracle::describe(d, a[v].scalar_type());
  }
  return "";
}

generators::Simpler simpler_of(const Suite& suite) {
  return suite.simpler == nullptr ? generators::candidates : suite.simpler;
}

const Failed* failed_in(const Outcome& outcome, const std::string& bucket) {
  const auto* f = std::get_if<Failed>(&outcome);
  return f != nullptr && f->bucket == bucket ? f : nullptr;
}

// The side that gave other bits when it ran again.
Outcome flaky(const oracle::Case& c, EngineUnderTest& engine, const Failed& failure) {
  std::string text;
  try {
    const auto plain = oracle_repeats(c);
    if (!plain.empty()) return Flaky{"oracle", plain};
    text = first_disagreement(engine.run(c, false), engine.run(c, false));
  } catch (const c10::AcceleratorError&) {
    throw;
  } catch (const std::exception& e) {  // as a refusal does, which the failure kept from being told
    text = e.what();
  }
  return Flaky{"engine", concat("the failure did not repeat itself: ", failure.explanation,
                                text.empty() ? "" : "\nit ran again: ", text)};
}

// True if the command died of this token, within 10 s.
bool crashes(std::vector<std::string> judge, const oracle::Case& c) {
  beat();
  judge.push_back(oracle::to_token(c));
  const pid_t child = spawn({.command = std::move(judge), .seconds = 10});
  if (child < 0) return false;
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) != SIGALRM;
}

}  // namespace

Outcome judge_and_repeat(const Suite& suite, const oracle::Case& c, EngineUnderTest& engine) {
  auto outcome = judge_safely(suite, c, engine);
  const auto* failure = std::get_if<Failed>(&outcome);
  if (failure == nullptr || suite.self_check || failure->kind == dashboard::Verdict::kHung) return outcome;
  if (failed_in(judge_safely(suite, c, engine), failure->bucket) != nullptr) return outcome;
  return flaky(c, engine, *failure);
}

Failed lost_outcome(const oracle::Case& c, const Lost& lost) {
  auto f = failed(c.suite, lost.hung ? "hang" : lost.detail, "", placement_pattern(c), "",
                  concat("the case took its process along: ", lost.detail,
                         lost.again ? ", and once more where it was to be generated for this report" : ""));
  f.kind = lost.hung ? dashboard::Verdict::kHung : dashboard::Verdict::kCrashed;
  return f;
}

Minimal shrink_failure(const Suite& suite, const oracle::Case& c, const Failed& failure,
                       EngineUnderTest& engine, int64_t budget) {
  const auto same_bucket = [&](const oracle::Case& candidate) {
    return failed_in(judge_safely(suite, candidate, engine), failure.bucket) != nullptr;
  };
  const auto shrunk = generators::shrink(c, same_bucket, budget, simpler_of(suite));
  return {shrunk.smallest, shrunk.accepted, !shrunk.minimal};
}

Minimal shrink_crash(const oracle::Case& c, const std::vector<std::string>& judge, int64_t budget) {
  const auto dies = [&](const oracle::Case& candidate) { return crashes(judge, candidate); };
  if (!dies(c)) return {c, 0, false};
  const auto shrunk = generators::shrink(c, dies, budget, simpler_of(find_suite(c.suite)));
  return {shrunk.smallest, shrunk.accepted, !shrunk.minimal};
}

}  // namespace lockstep::suites
