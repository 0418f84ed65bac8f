// SPDX-License-Identifier: Apache-2.0
// A store with each kind of row, for the tests of the report and of the pages.
#pragma once
#include <bit>
#include <string>
#include <vector>

#include "dashboard/store/testing.h"

namespace lockstep::dashboard::testing {

// Names that end a script, an attribute, a comment or a statement where they are not treated as text.
inline std::vector<std::string> hostile_names() {
  return {"</script><script>alert(1)</script>",
          "\"><img src=x onerror=alert(1)>",
          "' onmouseover='alert(1)",
          std::string("a\0b\x01\x1b[31m", 9),
          "\xff\xfe\xc3(",
          "<!--",
          "&lt;i&gt;",
          "]]>{{}}${1}",
          "' OR 1=1; DROP TABLE run; --",
          "../../etc/passwd"};
}

// A judgement with a finding of each effect, a verdict on a series, a mute and a blessing.
inline void judge(Store& store, const std::string& name) {
  SQLite::Database& db = store.database();
  const auto insert = [&](const std::string& values, int texts) {
    SQLite::Statement statement(db, "INSERT INTO " + values);
    for (int i = 1; i <= texts; ++i) statement.bind(i, name);
    statement.exec();
  };
  insert("judgement VALUES (NULL, randomblob(16), 1760000100000, ?, ?, ?, ?, ?, 1, '[1,4]')", 5);
  const std::string id = std::to_string(db.getLastInsertRowid());
  int64_t seq = 0;
  for (const char* effect : {"block", "warn", "note"})
    insert(
        "finding VALUES (" + id + ", " + std::to_string(seq++) + ", ?, ?, '" + effect + "', 1, ?, ?, ?, ?)",
        6);
  insert("series_verdict VALUES (" + id +
             ", ?, 'timed', 'turns', 'slower', 9, 1.2, 1.1, 1.3, 0.01, 0.05, 0.001)",
         1);
  insert("muted VALUES (" + id + ", ?, ?, ?, '2999-01-01')", 3);
  insert("blessing VALUES (?, ?, ?, ? || 'x', ?, 1760000000000)", 5);
}

// Each kind of row once, with every text replaced by `name`.
inline void fill(Store& store, const std::string& name) {
  dashboard::Run run = sample_run(name);
  run.command = run.commit = run.cpu = run.compiler = run.libtorch = name;
  dashboard::Run earlier = run;
  earlier.id += "0";
  earlier.started_ms -= 1000;
  earlier.commit += "0";
  Recorder(store, earlier, name).record(Measurement{name, name, 2});
  Recorder recorder(store, run, name);
  for (Verdict v : {Verdict::kEqual, Verdict::kExplained, Verdict::kDifferent, Verdict::kCrashed}) {
    CaseRow row = sample_case(static_cast<int64_t>(v), v);
    row.token = row.suite = row.law = row.variant = row.op = row.placement = row.mesh = row.dtype = name;
    row.explanation = row.ops = row.evenness = name;
    if (is_failure(v)) row.bucket = name + dashboard::name(v);
    row.labels = {name};
    row.coverage = {{name, name, 2, name, v}};
    row.refusal = {name, name};
    row.forgiven = {{name, name, name, 2}};
    for (TensorDiff& d : row.diffs) d.value = d.bit_class = d.dtype = d.explained_by = name;
    recorder.record(row);
    if (is_failure(v)) recorder.record(Failure{row.bucket, name, name, v, name, name, 1, 2, true});
  }
  for (bool reference : {true, false}) {
    const Curve curve{
        name + (reference ? "r" : "c"), name, reference ? "both" : name, name, name, name, "f32", reference};
    const int64_t id = recorder.open_curve(curve);
    for (int64_t step = 0; step < 4; ++step) {
      const float loss = static_cast<float>(3 - step) + (!reference && step == 3 ? 0.5f : 0.0f);
      CurvePoint p{.step = step,
                   .loss_bits = std::bit_cast<uint32_t>(loss),
                   .tokens_per_second = 100,
                   .peak_bytes = 7};
      recorder.record(id, p);
    }
  }
  recorder.record(PlantedFault{name, name, true, 3, 1, name, name, name});
  recorder.record(ExpectedException{name, name, name});
  recorder.record(Measurement{name, name, 1});
  recorder.record(Gate{name, name, name, true});
  recorder.expect_op(name + "2");
  recorder.record(Series{name, name, false, false, name});
  recorder.record(Replayed{name, name + "different", Verdict::kEqual, ""});
  recorder.record(Divergence{name, name, 3, 1, 2, name, 0, name, name, name});
  recorder.record_fact(name, name);
  recorder.keep(KeptCase{name, name, name, "failure", 5, name});
  recorder.finish("finished", 1);
  judge(store, name);
}

}  // namespace lockstep::dashboard::testing
