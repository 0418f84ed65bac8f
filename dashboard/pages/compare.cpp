// SPDX-License-Identifier: Apache-2.0
#include "dashboard/pages/compare.h"

#include "dashboard/pages/pages.h"
#include "dashboard/report/frame.h"
#include "dashboard/store/sql.h"

namespace lockstep::dashboard {

namespace {

// All that is compared of a run: kind, name, value, unit.
constexpr const char* kFacts = R"(
SELECT 'summary', key, value, '' FROM v_summary, json_each(json_object('command', command, 'seed', seed,
  'numerics', numerics, 'state', state, 'exit code', exit_code, 'build', build_hash, 'commit', commit_id,
  'started', at(time), 'took', took(seconds), 'cases', grouped(cases), 'failures', grouped(failures),
  'buckets', grouped(buckets))) WHERE run_id IN shown
UNION ALL SELECT 'verdict', verdict, sum(cases), '' FROM v_verdicts WHERE run_id IN shown AND NOT self_check
  GROUP BY verdict
UNION ALL SELECT 'bucket', bucket, cases, '' FROM v_failures WHERE run_id IN shown
UNION ALL SELECT 'tuple', op || ' on ' || placement, sum(hits), '' FROM v_coverage WHERE run_id IN shown
  GROUP BY op, placement
UNION ALL SELECT 'label', label, hits, '' FROM v_labels WHERE run_id IN shown
UNION ALL SELECT 'rate', kind || ' ' || name, avg(value), unit FROM v_throughput
  WHERE run_id IN shown AND value IS NOT NULL GROUP BY kind, name
UNION ALL SELECT 'environment', name, value, '' FROM v_environment WHERE run_id IN shown)";

}  // namespace

Comparison::Comparison() : db_(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE) {
  db_.exec("CREATE TEMP TABLE fact (run, kind, name, value, unit)");
}

void Comparison::add(const Source& source) {
  names_[count_] = source.text("SELECT cut(run, 60) FROM v_summary WHERE run_id IN shown");
  links_[count_] =
      source.fill("{SELECT link(cut(run, 60), '', 'run', run_id) FROM v_summary WHERE run_id IN shown}");
  SQLite::Statement insert(db_, "INSERT INTO fact VALUES (?, ?, ?, ?, ?)");
  source.each(kFacts, [&](const Row& r) {
    const nlohmann::json value = r.json(2);
    sql::bind(insert, count_, r.text(0), r.text(1), r.text(2), r.text(3));
    if (value.is_null()) insert.bind(4);
    if (value.is_number_integer()) insert.bind(4, value.get<int64_t>());
    if (value.is_number_float()) insert.bind(4, value.get<double>());
    insert.exec();
  });
  ++count_;
}

std::string Comparison::html() {
  const Source source(db_);
  nlohmann::json charts;
  std::string all = answered("How do two runs differ?", " " + names_[0] + " and " + names_[1],
                             "First: " + links_[0] + ". Second: " + links_[1] + ".");
  for (const Panel& p : panels())
    if (p.id.starts_with("compared")) all += section(p.id, p.title, body(p, source, charts));
  return all;
}

}  // namespace lockstep::dashboard
