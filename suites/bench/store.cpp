// SPDX-License-Identifier: Apache-2.0
// The store: rows of cases a second, written in batches and durable, in this thread's own time.
#include "dashboard/store/store.h"
#include "dashboard/store/recorder.h"
#include "suites/bench/body.h"
#include "suites/bench/folder.h"
#include "suites/bench/measure.h"
#include "suites/harness/environment.h"

namespace lockstep::suites {
namespace {

constexpr int64_t kRows = 1024;

dashboard::CaseRow row(int64_t number) {
  dashboard::CaseRow row;
  row.token = "v1:program;mesh=2x2;seed=" + std::to_string(number) + ";x0=f32[7x13]:random@[S0,P]";
  row.suite = row.law = "program";
  row.number = number;
  row.ops = "aten::mm aten::relu aten::sum";
  row.mesh = "2x2";
  row.labels = {"2-D", "uneven", "partial"};
  row.coverage = {{"aten::mm", "S0,R", 2, "uneven", dashboard::Verdict::kEqual},
                  {"aten::relu", "S0", 2, "uneven", dashboard::Verdict::kEqual}};
  return row;
}

// @return seconds; `kept` is how many rows the file then holds.
double write_rows(size_t& kept) {
  const Folder folder;
  auto store = dashboard::Store::open_writer((folder.path / "bench.db").string());
  dashboard::Run run;
  describe_environment(run);
  dashboard::Recorder recorder(store, run, "bench");
  const double start = thread_seconds();
  for (int64_t i = 0; i < kRows; ++i) recorder.record(row(i));
  recorder.flush();
  const double seconds = thread_seconds() - start;
  kept = recorder.recorded_numbers("program").size();
  recorder.finish("finished", 0);
  return seconds;
}

Prepared prepare() {
  return {[] {
            size_t kept = 0;
            write_rows(kept);
            if (kept != kRows)
              throw WrongBits("[store] " + std::to_string(kept) + " of " + std::to_string(kRows) +
                              " rows were kept");
          },
          [](double) {
            size_t kept = 0;
            return static_cast<double>(kRows) / write_rows(kept);
          }};
}

}  // namespace

void add_store(Bodies& bodies) {
  bodies.push_back({{"store, rows of cases", "store", false, true, "1/s"}, prepare});
}

}  // namespace lockstep::suites
