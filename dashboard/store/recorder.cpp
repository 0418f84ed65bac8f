// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/recorder.h"

#include <bit>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "dashboard/store/bits.h"
#include "dashboard/store/hash.h"
#include "dashboard/store/run_row.h"
#include "dashboard/store/sql.h"
#include "dashboard/store/store.h"
#include "dashboard/store/tables.h"

namespace lockstep::dashboard {

namespace {

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

// What a row does whose key is there: else it is joined by the rule of its table.
constexpr const char* kJoined = "";
constexpr const char* kReplaces = "replaces";
constexpr const char* kAdds = "ON CONFLICT DO UPDATE SET hits = hits + excluded.hits";

}  // namespace

// Prepared once, each with its first use.
struct Recorder::Statements {
  explicit Statements(SQLite::Database& database) : db(database) {}

  SQLite::Statement& operator[](const std::string& text) {
    return prepared.try_emplace(text, db, text).first->second;
  }
  SQLite::Statement& insert(const std::string& table, const std::string& how) {
    auto& statement = inserts[table];
    if (!statement) {
      const std::string clause = how == kJoined ? on_conflict(db, table) : how == kReplaces ? "" : how;
      statement = std::make_unique<SQLite::Statement>(
          db, (how == kReplaces ? "INSERT OR REPLACE INTO " : "INSERT INTO ") + table + " (" +
                  columns_of(db, table) + ") VALUES (" + columns_of(db, table, "?") + ") " + clause);
    }
    return *statement;
  }

  SQLite::Database& db;
  std::map<std::string, SQLite::Statement> prepared;
  std::map<std::string, std::unique_ptr<SQLite::Statement>> inserts;  // by table
};

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

// A row of these values, in the order of the table's columns.
template <class... Values>
void Recorder::put(const char* table, const char* how, const Values&... values) {
  write([&](Statements& s) { return sql::run(s.insert(table, how), values...); });
}

void Recorder::begin() {
  if (open_) return;
  sql::run((*sql_)["BEGIN IMMEDIATE"]);
  open_ = true;
  batch_cases_ = 0;
  batch_began_ = std::chrono::steady_clock::now();
}

void Recorder::abandon() {
  store_.database().tryExec("ROLLBACK");  // fails where SQLite has rolled back by itself
  open_ = false;
}

void Recorder::flush() {
  if (!open_) return;
  try {
    sql::run((*sql_)["COMMIT"]);
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
    if (const auto known = sql::find(s["SELECT id FROM cases WHERE key = ? AND run = ? AND outcome = ?"], key,
                                     run_id_, outcome)) {
      sql::run(s["UPDATE cases SET time_ns = min(time_ns, ?) WHERE id = ?"], row.time_ns, *known);
      // Drawn as well as kept: whichever worker replayed it, it is one of those that were drawn.
      const bool was_kept =
          row.how != "corpus" &&
          sql::run(s["UPDATE cases SET how = ? WHERE id = ? AND how = 'corpus'"], row.how, *known) > 0;
      if (was_kept) count_refusal(row);
    } else {
      put("cases", kJoined, run_id_, key, outcome, row.number, row.suite, row.law, row.variant,
          row.self_check, row.token, row.ops, row.mesh, row.verdict, row.op, row.placement, row.mesh_rank,
          row.evenness, row.dtype, row.how, row.time_ns, row.bytes_moved, row.bucket, row.explanation);
      write_diffs(store_.database().getLastInsertRowid(), row);
      if (!row.self_check) count(row);
    }
    ++batch_cases_;
    return *sql::find(s["SELECT count(*) FROM cases WHERE key = ? AND run = ?"], key, run_id_);
  });
  is_failure(row.verdict) && !row.self_check ? flush() : flush_if_due();
  return outcomes;
}

// A case that was kept by one run and not by another would look as if more were refused.
void Recorder::count_refusal(const CaseRow& row) {
  if (row.refusal && row.how != "corpus" && !row.self_check)
    put("refusal", kAdds, run_id_, worker_, row.suite, row.refusal->op, row.refusal->reason, 1);
}

// A case that has an op twice counts once, at its worse verdict: what a rate counts does not depend on each
// other.
void Recorder::count_rates(const CaseRow& row) {
  if (row.how == "corpus" || row.self_check) return;
  std::map<std::pair<std::string, std::string>, Verdict> rates = {{{"", ""}, row.verdict}};
  for (const Coverage& c : row.coverage)
    for (const std::string& placement : {std::string(), c.placement}) {
      auto& verdict = rates.emplace(std::pair(c.op, placement), c.verdict).first->second;
      verdict = std::max(verdict, c.verdict);
    }
  for (const auto& [of, verdict] : rates)
    put("rate", kAdds, run_id_, worker_, row.suite, of.first, of.second, verdict, 1);
}

void Recorder::count(const CaseRow& row) {
  for (const Coverage& c : row.coverage)
    put("coverage", kAdds, run_id_, worker_, c.op, c.placement, c.mesh_rank, c.evenness, c.verdict, 1);
  for (const std::string& label : row.labels) put("label", kAdds, run_id_, worker_, label, 1);
  count_rates(row);
  count_refusal(row);
  for (const ForgivenRow& f : row.forgiven)
    put("forgiven", kAdds, run_id_, worker_, f.kind, f.op, f.reason, f.count);
}

void Recorder::write_diffs(int64_t case_id, const CaseRow& row) {
  int64_t seq = 0;
  for (const TensorDiff& d : row.diffs)
    put("tensor_diff", kJoined, case_id, seq++, d.value, d.bit_class, d.dtype, d.elements, d.different,
        d.max_ulp, to_column(d.max_abs_bits), nlohmann::json(d.first_index).dump(), d.rank, d.local_index,
        to_column(d.expected_bits), to_column(d.actual_bits), column(d.float64_bits), column(d.bound_bits),
        d.explained_by);
}

void Recorder::record(const Failure& row) {
  put("failure", kJoined, run_id_, row.bucket, row.ops, row.token, row.suite, row.law, row.verdict,
      row.program, row.shrink_steps, row.budget_ended);
  flush();
}

void Recorder::record(const PlantedFault& row) {
  put("planted_fault", kJoined, run_id_, row.name, row.klass, row.found, row.cases, row.shrunk_ops, row.suite,
      row.token, row.note);
}

void Recorder::record(const ExpectedException& row) {
  put("expected_exception", kAdds, run_id_, worker_, row.op, row.dtype, row.reason, row.count);
}

void Recorder::record(const Measurement& row) {
  const int64_t seq = write([&](Statements& s) {
    return *sql::find(s[R"(SELECT coalesce(max(seq) + 1, 0) FROM measurement
        WHERE run = ? AND worker = ? AND series = ? AND arm = ?)"],
                      run_id_, worker_, row.series, row.arm);
  });
  put("measurement", kJoined, run_id_, worker_, row.series, row.arm, seq, row.unit,
      to_column(std::bit_cast<uint64_t>(row.value)), row.value);
}

void Recorder::record(const Gate& row) {
  put("gate", kReplaces, run_id_, row.rule, row.passed, row.required, row.got);
}

void Recorder::record(const Series& row) {
  put("series", kJoined, run_id_, row.name, row.area, row.counted ? "counted" : "timed",
      row.more_is_better ? "more" : "less", row.unit);
}

void Recorder::record(const Replayed& row) {
  put("replayed", kJoined, run_id_, row.token, row.bucket, row.verdict, row.now);
}

void Recorder::record(const Divergence& row) {
  put("divergence", kReplaces, run_id_, row.curve, row.reference, row.compared, row.step, row.position,
      row.op, row.rank, row.what, row.expected, row.got);
}

void Recorder::record_fact(const std::string& name, const std::string& value) {
  put("fact", kJoined, run_id_, name, value);
}

void Recorder::keep(const KeptCase& row) {
  put("corpus", kJoined, row.token, row.suite, row.bucket, row.origin, row.since_ms, row.note);
}

void Recorder::expect_op(const std::string& op) {
  put("expected_op", kJoined, run_id_, op);
}

int64_t Recorder::open_curve(const Curve& row) {
  put("curve", kJoined, run_id_, row.name, row.model, row.variant, row.mesh, row.policy, row.lane, row.dtype,
      row.reference, row.digits, row.fields);
  const int64_t id = write([&](Statements& s) {
    return *sql::find(s[R"(SELECT id FROM curve WHERE run = ? AND name = ? AND model = ? AND variant = ?
        AND mesh = ? AND policy = ? AND lane = ? AND dtype = ? AND reference = ?)"],
                      run_id_, row.name, row.model, row.variant, row.mesh, row.policy, row.lane, row.dtype,
                      row.reference);
  });
  curve_dtype_[id] = row.dtype;
  return id;
}

void Recorder::record(int64_t curve, const CurvePoint& p) {
  const std::string& dtype = curve_dtype_.at(curve);
  const double rate = std::isfinite(p.tokens_per_second) ? p.tokens_per_second : 0;
  put("curve_point", kJoined, curve, p.step, to_column(p.loss_bits), to_column(p.grad_norm_bits), p.chain,
      value_of(p.loss_bits, dtype), value_of(p.grad_norm_bits, dtype), rate, p.peak_bytes, p.verdict);
  flush_if_due();
}

std::vector<int64_t> Recorder::recorded_numbers(const std::string& suite) {
  return write([&](Statements& s) {
    std::vector<int64_t> numbers;
    SQLite::Statement& rows =
        s["SELECT DISTINCT number FROM cases WHERE run = ? AND suite = ? ORDER BY number"];
    sql::bind(rows, run_id_, suite);
    while (rows.executeStep()) numbers.push_back(rows.getColumn(0).getInt64());
    rows.reset();
    return numbers;
  });
}

void Recorder::finish(const std::string& state, int exit_code) {
  const int64_t ended = run_.ended_ms.value_or(now_ms());
  write([&](Statements& s) {
    return sql::run(s["UPDATE run SET ended_ms = ?, state = ?, exit_code = ? WHERE id = ?"], ended, state,
                    exit_code, run_id_);
  });
  flush();
}

}  // namespace lockstep::dashboard
