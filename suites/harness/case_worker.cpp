// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/case_worker.h"

#include <chrono>

#include "engine/values/error.h"
#include "engine/values/exit_code.h"
#include "generators/cases/arguments.h"
#include "generators/cases/labels.h"
#include "oracle/program/options.h"
#include "suites/core/by_library.h"
#include "suites/core/refusal.h"
#include "suites/core/spawn.h"
#include "suites/engines/crew.h"
#include "suites/engines/make_engine.h"
#include "suites/faults/fault.h"
#include "suites/harness/examine.h"
#include "suites/harness/run_rows.h"
#include "suites/harness/tell.h"

namespace lockstep::suites {
namespace {

constexpr int kShrinksPerBucket = 2;
constexpr int64_t kLargeEach = 40;  // of so many redistributions that the library reduces, one is large
static_assert(dashboard::Recorder::kBatchCases <= kMostUnsaved);

// Every store error ends the run with its code; the rest is the pool's to report.
template <class F>
void storing(F&& f) {
  try {
    f();
  } catch (const dashboard::StoreError& e) {
    throw WorkerExit{kStoreUnusable, e.what()};
  }
}

std::vector<const Suite*> named(const std::vector<std::string>& names) {
  std::vector<const Suite*> found;
  for (const auto& name : names) found.push_back(&find_suite(name));
  return found;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& w : words) text += (text.empty() ? "" : " ") + w;
  return text;
}

dashboard::Verdict verdict_at(const Outcome& outcome, const std::string& op) {
  if (const auto* f = std::get_if<Failed>(&outcome))
    return f->op == op ? f->kind : dashboard::Verdict::kEqual;
  if (const auto* p = std::get_if<Passed>(&outcome))
    for (const auto& [name, verdict] : p->explained)
      if (name == op) return verdict;
  return dashboard::Verdict::kEqual;
}

}  // namespace

std::string shard_path(const std::string& db, int worker) {
  return concat(db, ".shard-", worker);
}

struct CaseWorker::Judged {
  Outcome outcome;
  Facts facts;
  int64_t time_ns = 0;
};

CaseWorker::CaseWorker(const CaseJob& job)
    : options_(job.options),
      run_(job.run),
      kept_(job.kept),
      recorded_(job.recorded),
      sequence_(named(job.chosen)) {}

Planned CaseWorker::planned(int64_t number) {
  const auto before = static_cast<int64_t>(kept_.size());
  if (number < before) return {&find_suite(kept_[static_cast<size_t>(number)].suite), -1 - number};
  return sequence_.at((number - before) * options_.shards + options_.shard);
}

const dashboard::KeptCase* CaseWorker::kept(const Planned& planned) const {
  return planned.index < 0 ? &kept_[static_cast<size_t>(-1 - planned.index)] : nullptr;
}

oracle::Case CaseWorker::case_of(const Planned& planned) const {
  const auto* k = kept(planned);
  auto c =
      k != nullptr ? oracle::parse_token(k->token) : planned.suite->generate(options_.seed, planned.index);
  // A kept case of another lane or device is judged in that of this run.
  c.numerics = options_.lane;
  c.mesh = c.mesh.on(parse_device_type(options_.device));
  if (options_.library && planned.suite->check == nullptr) make_by_library(c);
  if (options_.fallback && planned.suite->check == nullptr) oracle::allow_fallback(c);
  if (options_.library && c.suite == "redistribute" && planned.index % kLargeEach == kLargeEach - 1)
    c = enlarged(std::move(c));
  // Gloo reduces where one process hosts all ranks in the host's memory; elsewhere a kept case of its order
  // is judged without.
  if (options_.world != "local" || options_.engine != "lockstep" || options_.device != "cpu")
    c.options.erase("reduce");
  return c;
}

// Of a launcher's processes the others have met the worker before, and go with it.
void CaseWorker::begin(int worker, bool again) {
  has_nobody_ = again && joins(options_.world, options_.ranks);
  storing([&] {
    store_ =
        std::make_unique<dashboard::Store>(dashboard::Store::open_writer(shard_path(options_.db, worker)));
    recorder_ = std::make_unique<dashboard::Recorder>(*store_, run_, concat("worker ", worker));
    for (const auto& f : read_summary(*store_, run_).failures) shrunk_[f.bucket] = f.cases;
  });
}

void CaseWorker::ready() {
  if (has_nobody_) return stop_pool();
  engine_ = options_.fault.empty()
                ? make_engine(options_.engine, {.world = options_.world,
                                                .device = parse_device_type(options_.device),
                                                .ranks = options_.ranks,
                                                .chaos = options_.chaos,
                                                .seconds = options_.hang_seconds})
                : find_fault(options_.fault).plant();
}

void CaseWorker::run(int64_t number) {
  if (has_nobody_) return;  // what is run again is lost
  const auto p = planned(number);
  if (const auto known = recorded_.find(p.suite->name);
      known != recorded_.end() && known->second.contains(p.index))
    return;
  oracle::Case c;
  Judged judged;
  const auto began = std::chrono::steady_clock::now();
  Observing engine(*engine_, judged.facts);
  try {
    c = case_of(p);
    judged.outcome = judge_and_repeat(*p.suite, c, engine);
  } catch (const std::exception& e) {
    judged.outcome =
        HarnessBroken{concat("generating case ", p.index, " of ", p.suite->name, ": ", e.what())};
  }
  judged.time_ns = (std::chrono::steady_clock::now() - began) / std::chrono::nanoseconds(1);
  storing([&] { record(p, c, judged); });
  settled(recorder_->saved());
  if (engine_->is_gone()) {
    stop_pool();
    return tell(p, c, judged.outcome);
  }
  if (const auto* f = std::get_if<Failed>(&judged.outcome)) return shrink_and_tell(p, c, *f);
  if (dashboard::is_failure(verdict_of(judged.outcome))) tell(p, c, judged.outcome);
}

void CaseWorker::lost(const Lost& lost) {
  const auto p = planned(lost.number);
  Judged judged;
  oracle::Case c;
  c.suite = p.suite->name;
  if (!lost.again) c = case_of(p);
  const auto f = lost_outcome(c, lost);
  judged.outcome = f;
  storing([&] {
    record(p, c, judged);
    recorder_->flush();  // it cannot be run again, should this worker die too
  });
  settled(true);
  const bool cannot = has_nobody_ || lost.again || lost.hung;
  if (cannot || p.suite->self_check || ++shrunk_[f.bucket] > kShrinksPerBucket)
    return tell(p, c, judged.outcome);
  std::vector<std::string> replay{kThisProgram, "replay",        "--alone", "--fault",     options_.fault,
                                  "--engine",   options_.engine, "--world", options_.world};
  if (options_.ranks > 0) replay.insert(replay.end(), {"--ranks", concat(options_.ranks)});
  const auto minimal = shrink_crash(c, replay);
  record_minimal(p, f, minimal);
  tell(p, minimal.c, judged.outcome);
}

void CaseWorker::save() {
  storing([&] { recorder_->flush(); });
}

// Processes of a launcher wait to be told.
void CaseWorker::leave() {
  engine_.reset();
}

dashboard::CaseRow CaseWorker::row(const Planned& planned, const oracle::Case& c) const {
  dashboard::CaseRow r;
  r.suite = planned.suite->name;
  r.law = planned.suite->law;
  r.variant = options_.fault;
  r.self_check = planned.suite->self_check;
  r.number = planned.index;
  r.how = kept(planned) != nullptr ? "corpus" : "random";
  if (c.mesh.size() == 0) {  // could not be generated
    r.token = concat("none: case ", planned.index, " of ", planned.suite->name);
    return r;
  }
  r.token = oracle::to_token(c);
  r.ops = join(op_names(c.program));
  r.mesh = to_string(c.mesh);
  r.mesh_rank = c.mesh.ndim();
  r.evenness = evenness(c);
  r.placement = placement_pattern(c);
  r.labels = generators::labels(c);
  for (auto& name : generators::arguments(c)) r.labels.push_back(std::move(name));
  if (c.program.calls.size() == 1) r.op = c.program.calls[0].op;
  if (!c.program.inputs.empty()) r.dtype = dtype_name(c.program.inputs[0].dtype);

  return r;
}

void CaseWorker::record(const Planned& planned, const oracle::Case& c, const Judged& judged) {
  auto r = row(planned, c);
  r.verdict = verdict_of(judged.outcome);
  r.explanation = explanation_of(judged.outcome);
  r.time_ns = judged.time_ns;
  r.bytes_moved = judged.facts.bytes_moved;
  for (const auto& [op, placement, mesh_rank, even] : judged.facts.coverage)
    r.coverage.push_back({op, placement, mesh_rank, even, verdict_at(judged.outcome, op)});
  if (judged.facts.fallbacks > 0) r.labels.push_back(fallback_label(judged.facts.fallbacks));
  // The two suites that go round the table of ops say which rows are reached; the others would repeat it.
  if (r.suite == "ops" || r.suite == "gradient")
    r.labels.insert(r.labels.end(), judged.facts.rows.begin(), judged.facts.rows.end());
  if (const auto* f = std::get_if<Failed>(&judged.outcome)) {
    r.op = f->op;
    r.placement = f->pattern;
    r.dtype = f->dtype;
    r.bucket = f->bucket;
    r.diffs = f->differences;
    r.labels.insert(r.labels.end(), f->labels.begin(), f->labels.end());
    r.bytes_moved += f->bytes_moved;
    if (f->fault) recorder_->record(*f->fault);
  } else if (const auto* passed = std::get_if<Passed>(&judged.outcome)) {
    r.diffs = passed->differences;
    r.labels.insert(r.labels.end(), passed->labels.begin(), passed->labels.end());
    r.bytes_moved += passed->bytes_moved;
    r.forgiven = passed->forgiven;
    r.refusal = passed->refusal;
    for (const auto& e : passed->exceptions) recorder_->record(e);
    if (passed->fault) recorder_->record(*passed->fault);
  } else if (const auto* gave_up = std::get_if<GaveUp>(&judged.outcome)) {
    r.refusal = gave_up->refusal;
  } else if (dashboard::is_failure(r.verdict)) {
    r.bucket = bucket(r.suite, dashboard::name(r.verdict), "", r.placement, r.dtype);
  }
  if (r.refusal)
    if (auto label = refusal_label(r.refusal->reason); !label.empty()) r.labels.push_back(std::move(label));
  record_replay(planned, r);
  recorder_->record(r);  // the last row, so that a batch that it ends holds all of the case
  if (options_.fail_fast && dashboard::is_failure(r.verdict)) stop_pool();
}

void CaseWorker::record_replay(const Planned& planned, const dashboard::CaseRow& row) {
  if (const auto* k = kept(planned))
    recorder_->record(dashboard::Replayed{k->token, k->bucket, row.verdict, row.bucket});
}

void CaseWorker::record_minimal(const Planned& planned, const Failed& failure, const Minimal& minimal) {
  dashboard::Failure f;
  f.bucket = failure.bucket;
  f.suite = planned.suite->name;
  f.law = planned.suite->law;
  f.verdict = failure.kind;
  f.token = oracle::to_token(minimal.c);
  f.program = oracle::describe(minimal.c);
  f.ops = static_cast<int64_t>(minimal.c.program.calls.size());
  f.shrink_steps = minimal.steps;
  f.budget_ended = minimal.budget_ended;
  storing([&] {
    recorder_->record(f);
    recorder_->flush();
  });
}

void CaseWorker::shrink_and_tell(const Planned& planned, const oracle::Case& c, const Failed& failure) {
  // Each candidate would wait, too; and what chaos does is no matter of the case.
  const bool as_it_is = failure.kind == dashboard::Verdict::kHung || !options_.chaos.empty();
  if (as_it_is || planned.suite->self_check || ++shrunk_[failure.bucket] > kShrinksPerBucket)
    return tell(planned, c, failure);
  // An engine that dies is started anew for each candidate.
  const int64_t budget = failure.kind == dashboard::Verdict::kCrashed ? kCrashBudget : kShrinkBudget;
  const auto before = own_flights();
  const auto minimal = shrink_failure(*planned.suite, c, failure, *engine_, budget);
  record_minimal(planned, failure, minimal);
  auto again = judge_safely(*planned.suite, minimal.c, *engine_);
  if (!std::holds_alternative<Failed>(again)) again = failure;
  drop_flights(before, concat(failure.explanation, explanation_of(again)));
  tell(planned, minimal.c, again);
}

void CaseWorker::tell(const Planned& planned, const oracle::Case& c, const Outcome& outcome) {
  say(failure_text(
      planned, c, outcome,
      replay_flags(options_.fault, options_.engine, options_.world, options_.ranks, options_.chaos)));
}

void work_on(const CaseJob& job) {
  CaseWorker worker(job);
  work_in_pool({.begin = [&](int index, bool again) { worker.begin(index, again); },
                .ready = [&] { worker.ready(); },
                .run = [&](int64_t number) { worker.run(number); },
                .lost = [&](const Lost& lost) { worker.lost(lost); },
                .save = [&] { worker.save(); },
                .leave = [&] { worker.leave(); }});
}

}  // namespace lockstep::suites
