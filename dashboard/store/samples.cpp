// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/samples.h"

#include <bit>

#include "dashboard/store/sql.h"

namespace lockstep::dashboard {

std::vector<MeasuredRun> measured_runs(const Store& store) {
  SQLite::Statement rows(store.database(), R"(SELECT id, name, commit_id, build_hash, cpu, cores, started_ms
      FROM run r WHERE EXISTS (SELECT 1 FROM measurement m WHERE m.run = r.id)
      ORDER BY started_ms DESC, id DESC)");
  std::vector<MeasuredRun> runs;
  while (rows.executeStep())
    runs.push_back({rows.getColumn(0).getInt64(), rows.getColumn(1).getString(),
                    rows.getColumn(2).getString(), rows.getColumn(3).getString(),
                    rows.getColumn(4).getString(), rows.getColumn(5).getInt64(),
                    rows.getColumn(6).getInt64()});
  return runs;
}

std::vector<MeasuredSeries> measured_series(const Store& store, int64_t run) {
  SQLite::Statement rows(store.database(), R"(SELECT m.series, coalesce(s.area, ''),
      coalesce(s.kind, 'timed') = 'counted', coalesce(s.better, 'less') = 'more', m.unit, m.arm, m.worker,
      m.seq, m.value_bits
    FROM measurement m LEFT JOIN series s ON s.run = m.run AND s.name = m.series WHERE m.run = ?
    ORDER BY m.series, m.arm, m.worker, m.seq)");
  sql::bind(rows, run);
  std::vector<MeasuredSeries> result;
  while (rows.executeStep()) {
    const std::string name = rows.getColumn(0).getString();
    if (result.empty() || result.back().series.name != name)
      result.push_back({{name, rows.getColumn(1).getString(), rows.getColumn(2).getInt() != 0,
                         rows.getColumn(3).getInt() != 0, rows.getColumn(4).getString()},
                        {}});
    result.back().samples.push_back({rows.getColumn(5).getString(), rows.getColumn(6).getString(),
                                     rows.getColumn(7).getInt64(),
                                     std::bit_cast<double>(rows.getColumn(8).getInt64())});
  }
  return result;
}

}  // namespace lockstep::dashboard
