// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/recorder.h"

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "dashboard/store/bits.h"
#include "dashboard/store/clock.h"
#include "dashboard/store/hash.h"
#include "dashboard/store/run_row.h"
#include "dashboard/store/sql.h"
#include "dashboard/store/statements.h"
#include "dashboard/store/store.h"

namespace lockstep::dashboard {

namespace {

constexpr int64_t kBatchCases = 256;
constexpr std::chrono::milliseconds kBatchTime{500};

// What must repeat when the case is run again.
Key outcome_of(const CaseRow& row) {
  Hasher hash;
  hash.add(name(row.verdict)).add(row.op).add(row.placement).add(row.bucket);
  for (const TensorDiff& d : row.diffs) {
    hash.add(d.value).add(d.bit_class).add(d.dtype).add(d.elements).add(d.different).add(d.max_ulp);
    hash.add(to_column(d.max_abs_bits)).add(d.rank).add(d.local_index);
    for (int64_t i : d.first_index) hash.add(i);
    hash.add(to_column(d.expected_bits)).add(to_column(d.actual_bits)).add(d.explained_by);
    hash.add(to_column(d.float64_bits.value_or(0))).add(to_column(d.bound_bits.value_or(0)));
  }
  return hash.key();
}

std::optional<int64_t> column(const std::optional<uint64_t>& bits) {
  return bits ? std::optional(to_column(*bits)) : std::nullopt;
}

}  // namespace

Recorder::Recorder(Store& store, const Run& run, std::string worker)
    : store_(store), run_(run), worker_(std::move(worker)) {
  const std::vector<PlanItem> plan = plan_of(run);
  try {
    sql_ = std::make_unique<Statements>(store_.database());
    begin();
    run_id_ = insert_run(store_.database(), run_, plan);
    flush();
  } catch (const SQLite::Exception&) {
    rethrow_as_store_error(store_.path());
  }
}

Recorder::~Recorder() {
  try {
    flush();
  } catch (const std::exception&) {
    // A destructor has nobody to tell; flush() and finish() do.
  }
}

// Every method that writes goes through here: a batch is open before, and SQLite's errors become StoreErrors
// after, with the batch rolled back.
template <class Write>
auto Recorder::write(Write&& action) {
  try {
    begin();
    return action(*sql_);
  } catch (const SQLite::Exception&) {
    abandon();
    rethrow_as_store_error(store_.path());
  }
}

void Recorder::begin() {
  if (open_) return;
  sql::run(sql_->begin);
  open_ = true;
  batch_cases_ = 0;
  batch_began_ = std::chrono::steady_clock::now();
}

void Recorder::abandon() {
  sql_->rollback.tryReset();
  sql_->rollback.tryExecuteStep();  // fails where SQLite has rolled back by itself
  open_ = false;
}

void Recorder::flush() {
  if (!open_) return;
  try {
    sql::run(sql_->commit);
    open_ = false;
  } catch (const SQLite::Exception&) {
    abandon();
    rethrow_as_store_error(store_.path());
  }
}

void Recorder::flush_if_due() {
  const bool due =
      batch_cases_ >= kBatchCases || std::chrono::steady_clock::now() - batch_began_ >= kBatchTime;
  if (open_ && due) flush();
}

int64_t Recorder::record(const CaseRow& row) {
  const int64_t outcomes = write([&](Statements& s) {
    const Key key = case_key(run_, row.suite, row.law, row.variant, row.token), outcome = outcome_of(row);
    if (const auto known = sql::find(s.find_case, key, run_id_, outcome)) {
      sql::run(s.touch_case, row.time_ns, *known);
    } else {
      sql::run(s.insert_case, run_id_, key, outcome, row.number, row.suite, row.law, row.variant,
               row.self_check, row.token, row.ops, row.mesh, row.verdict, row.op, row.placement,
               row.mesh_rank, row.evenness, row.dtype, row.how, row.time_ns, row.bytes_moved, row.bucket,
               row.explanation);
      write_diffs(store_.database().getLastInsertRowid(), row);
      if (!row.self_check) count(row);
    }
    ++batch_cases_;
    return *sql::find(s.count_outcomes, key, run_id_);
  });
  is_failure(row.verdict) && !row.self_check ? flush() : flush_if_due();
  return outcomes;
}

void Recorder::count(const CaseRow& row) {
  for (const Coverage& c : row.coverage) {
    sql::run(sql_->count_coverage, run_id_, worker_, c.op, c.placement, c.mesh_rank, c.evenness, c.verdict);
  }
  for (const std::string& label : row.labels) sql::run(sql_->count_label, run_id_, worker_, label);
  if (row.refusal)
    sql::run(sql_->count_refusal, run_id_, worker_, row.suite, row.refusal->op, row.refusal->reason);
  for (const ForgivenRow& f : row.forgiven)
    sql::run(sql_->count_forgiven, run_id_, worker_, f.kind, f.op, f.reason, f.count);
}

void Recorder::write_diffs(int64_t case_id, const CaseRow& row) {
  int64_t seq = 0;
  for (const TensorDiff& d : row.diffs) {
    sql::run(sql_->insert_diff, case_id, seq++, d.value, d.bit_class, d.dtype, d.elements, d.different,
             d.max_ulp, to_column(d.max_abs_bits), nlohmann::json(d.first_index).dump(), d.rank,
             d.local_index, to_column(d.expected_bits), to_column(d.actual_bits), column(d.float64_bits),
             column(d.bound_bits), d.explained_by);
  }
}

void Recorder::record(const Failure& row) {
  write([&](Statements& s) {
    return sql::run(s.put_failure, run_id_, row.bucket, row.ops, row.token, row.suite, row.law, row.verdict,
                    row.program, row.shrink_steps, row.budget_ended);
  });
  flush();
}

void Recorder::record(const PlantedFault& row) {
  write([&](Statements& s) {
    return sql::run(s.put_fault, run_id_, row.name, row.klass, row.found, row.cases, row.shrunk_ops,
                    row.suite, row.token, row.note);
  });
}

void Recorder::record(const ExpectedException& row) {
  write([&](Statements& s) {
    return sql::run(s.count_exception, run_id_, worker_, row.op, row.dtype, row.reason, row.count);
  });
}

void Recorder::record(const Measurement& row) {
  write([&](Statements& s) {
    const int64_t seq = *sql::find(s.next_sample, run_id_, worker_, row.series, row.arm);
    return sql::run(s.insert_sample, run_id_, worker_, row.series, row.arm, seq, row.unit,
                    to_column(std::bit_cast<uint64_t>(row.value)), row.value);
  });
}

void Recorder::record(const Gate& row) {
  write([&](Statements& s) {
    return sql::run(s.put_gate, run_id_, row.rule, row.passed, row.required, row.got);
  });
}

void Recorder::record(const Series& row) {
  write([&](Statements& s) {
    return sql::run(s.put_series, run_id_, row.name, row.area, row.counted ? "counted" : "timed",
                    row.more_is_better ? "more" : "less", row.unit);
  });
}

void Recorder::record(const Replayed& row) {
  write([&](Statements& s) {
    return sql::run(s.put_replayed, run_id_, row.token, row.bucket, row.verdict, row.now);
  });
}

void Recorder::record(const Divergence& row) {
  write([&](Statements& s) {
    return sql::run(s.put_divergence, run_id_, row.curve, row.reference, row.compared, row.step, row.position,
                    row.op, row.rank, row.what, row.expected, row.got);
  });
}

void Recorder::record_fact(const std::string& name, const std::string& value) {
  write([&](Statements& s) { return sql::run(s.put_fact, run_id_, name, value); });
}

void Recorder::keep(const KeptCase& row) {
  write([&](Statements& s) {
    return sql::run(s.keep_case, row.token, row.suite, row.bucket, row.origin, row.since_ms, row.note);
  });
}

void Recorder::expect_op(const std::string& op) {
  write([&](Statements& s) { return sql::run(s.expect_op, run_id_, op); });
}

int64_t Recorder::open_curve(const Curve& row) {
  return write([&](Statements& s) {
    sql::run(s.insert_curve, run_id_, row.name, row.model, row.variant, row.mesh, row.policy, row.lane,
             row.dtype, row.reference, row.digits, row.fields);
    const int64_t id = *sql::find(s.find_curve, run_id_, row.name, row.model, row.variant, row.mesh,
                                  row.policy, row.lane, row.dtype, row.reference);
    curve_dtype_[id] = row.dtype;
    return id;
  });
}

void Recorder::record(int64_t curve, const CurvePoint& p) {
  const std::string& dtype = curve_dtype_.at(curve);
  const double rate = std::isfinite(p.tokens_per_second) ? p.tokens_per_second : 0;
  write([&](Statements& s) {
    return sql::run(s.insert_point, curve, p.step, to_column(p.loss_bits), to_column(p.grad_norm_bits),
                    p.chain, value_of(p.loss_bits, dtype), value_of(p.grad_norm_bits, dtype), rate,
                    p.peak_bytes, p.verdict);
  });
  flush_if_due();
}

std::vector<int64_t> Recorder::recorded_numbers(const std::string& suite) {
  return write([&](Statements& s) {
    std::vector<int64_t> numbers;
    sql::bind(s.numbers, run_id_, suite);
    while (s.numbers.executeStep()) numbers.push_back(s.numbers.getColumn(0).getInt64());
    s.numbers.reset();
    return numbers;
  });
}

void Recorder::finish(const std::string& state, int exit_code) {
  const int64_t ended = run_.ended_ms.value_or(now_ms());
  write([&](Statements& s) { return sql::run(s.finish, ended, state, exit_code, run_id_); });
  flush();
}

}  // namespace lockstep::dashboard
