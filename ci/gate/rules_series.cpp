// SPDX-License-Identifier: Apache-2.0
// Measured series. Counted work is compared here, exactly; timed work is judged by `ci/speed`, whose verdicts
// the caller brings. The table `speed` holds both.
#include "ci/gate/rules.h"
#include "ci/gate/sides.h"
#include "engine/values/exit_code.h"

namespace lockstep::gate {

// Law: "same" if and only if every sample of the candidate is the one number that every sample of the other
// side is: of the baseline binary, if it was measured in turns, else of the baseline's store. Counts that
// differ among themselves are compared with nothing, nor are instructions of two processors.
const char* const kJudgeCounted = R"(
  CREATE TEMP TABLE speed AS
  WITH sample AS (
    SELECT s.name, s.better, s.unit, r.cpu, m.value,
           iif(m.arm IN ('baseline', 'confirm-baseline'), 'turns', 'mine') AS side
    FROM main.measurement m JOIN c_run r ON r.id = m.run
    JOIN main.series s ON s.run = m.run AND s.name = m.series WHERE s.kind = 'counted' AND s.area <> ''
    UNION ALL
    SELECT s.name, s.better, s.unit, r.cpu, m.value, 'store'
    FROM base.measurement m JOIN b_run r ON r.id = m.run
    JOIN base.series s ON s.run = m.run AND s.name = m.series
    WHERE s.kind = 'counted' AND m.arm NOT IN ('baseline', 'confirm-baseline')),
  side AS (SELECT name, side, max(better) AS better, max(unit) AS unit, max(cpu) AS cpu, min(value) AS low,
                  max(value) AS high, count(*) AS samples FROM sample GROUP BY name, side),
  pair AS (SELECT c.*, coalesce(t.low, s.low) AS was_low, coalesce(t.high, s.high) AS was_high,
                  iif(t.name IS NULL, s.cpu, c.cpu) AS was_cpu
           FROM side c LEFT JOIN side t ON t.name = c.name AND t.side = 'turns'
                       LEFT JOIN side s ON s.name = c.name AND s.side = 'store' WHERE c.side = 'mine'),
  judged AS (SELECT *, CASE WHEN low <> high OR was_low <> was_high THEN 'nondeterministic'
                            WHEN was_low IS NULL OR (unit = 'instructions' AND cpu <> was_cpu) THEN 'new'
                            ELSE '' END AS reason FROM pair)
  SELECT name AS series, 'counted' AS kind, 'exact' AS against,
         CASE WHEN reason <> '' THEN 'not measured' WHEN low = was_low THEN 'same' ELSE 'changed' END
             AS verdict,
         reason, (low > was_low) = (better = 'less') AS worse, samples, iif(reason = '' AND was_low <> 0,
         low / was_low, NULL) AS ratio, NULL AS low, NULL AS high, NULL AS p, NULL AS detectable,
         NULL AS false_alarms,
         iif(reason = '', rtrim(printf('%.6g %s', was_low, unit)), 'one count') AS expected,
         iif(reason = '', rtrim(printf('%.6g %s', low, unit)), reason) AS got,
         iif(reason = '', printf('%.16g became %.16g %s', was_low, low, unit),
             'counts of one binary differ: ' || iif(low <> high, printf('%.16g to %.16g', low, high),
             printf('%.16g to %.16g in the baseline', was_low, was_high))) AS detail
  FROM judged)";

// ?1: the text of a file of `ci/speed`. Verdicts on other runs than the candidate's do not count.
const char* const kReadTimed = R"(
  INSERT INTO speed
  SELECT v ->> 'series', 'timed', v ->> 'against', v ->> 'verdict', v ->> 'reason',
         v ->> 'verdict' = 'slower', v ->> 'samples', v ->> 'ratio', v ->> 'low', v ->> 'high', v ->> 'p',
         v ->> 'detectable',
         v ->> 'false_alarms',
         iif(v ->> 'verdict' = 'not measured', 'a verdict',
             printf('%.6g %s', v ->> 'baseline_value', v ->> 'unit')),
         iif(v ->> 'verdict' = 'not measured', v ->> 'reason',
             printf('%.6g %s', v ->> 'candidate_value', v ->> 'unit')),
         v ->> 'detail'
  FROM (SELECT value AS v FROM json_each(?1, '$.series'))
  WHERE v ->> 'area' <> '' AND v ->> 'run' IN (SELECT hex(key) FROM c_run))";

const char* const kTimedWithoutVerdict = R"(
  INSERT INTO speed
  SELECT DISTINCT s.name, 'timed', '', 'not measured', 'not judged', 0, 0, NULL, NULL, NULL, NULL, NULL, NULL,
         'a verdict', 'not judged',
         'no verdict was brought: `ci/speed DB -o FILE` judges it, `lockstep gate --speed FILE` reads that'
  FROM main.series s JOIN c_run r ON r.id = s.run
  WHERE s.kind = 'timed' AND s.area <> '' AND s.name NOT IN (SELECT series FROM speed))";

// Rows of `number` that a file of `ci/speed` was not judged with.
const char* const kOtherNumbers = R"(
  SELECT n.name FROM json_each(?1, '$.numbers') j JOIN number n ON n.name = j.key WHERE n.value <> j.value)";

namespace {

constexpr Effect kBlock = Effect::kBlock, kNote = Effect::kNote;

const Rule kRules[] = {
    {"slower", kSlower, kBlock, true, "no timed series is slower, beyond its noise", R"(
  SELECT series, expected, got, detail FROM speed WHERE verdict = 'slower')"},

    {"counted_more", kSlower, kBlock, true, "no counted series counts more work", R"(
  SELECT series, expected, got, detail FROM speed WHERE verdict = 'changed' AND worse)"},

    {"counted_less", kNotMeasured, kBlock, true, "less counted work is expected by somebody", R"(
  SELECT series, expected, got, detail FROM speed WHERE verdict = 'changed' AND NOT worse)"},

    {"faster", kNotMeasured, kNote, true, "a series that got faster is told", R"(
  SELECT series, expected, got, detail FROM speed WHERE verdict = 'faster')"},

    {"series_not_measured", kNotMeasured, kBlock, true,
     "each timed series can tell a slowdown of the size that the policy asks for", R"(
  SELECT series, expected, got, detail FROM speed
  WHERE verdict = 'not measured' AND reason NOT IN ('new', 'nondeterministic'))"},

    {"environment", kNotMeasured, kNote, false, "baseline and candidate ran in the same environment", R"(
  SELECT name, b.value, c.value, 'another environment may compute other bits, and other times'
  FROM (SELECT name, group_concat(DISTINCT value) AS value FROM c_environment GROUP BY name) c
  JOIN (SELECT name, group_concat(DISTINCT value) AS value FROM b_environment GROUP BY name) b USING (name)
  WHERE b.value <> c.value AND name NOT IN ('build', 'commit'))"},
};

}  // namespace

std::span<const Rule> rules_of_series() {
  return kRules;
}

}  // namespace lockstep::gate
