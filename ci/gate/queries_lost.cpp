// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/queries.h"

namespace lockstep::gate {

const char* const kLostSuites = R"(
  SELECT 'suite ' || b.suite AS subject, b.cases || ' cases' AS expected, '0 cases' AS got,
         'the baseline ran this suite' AS detail, '' AS replay
  FROM b_measured b WHERE b.cases > 0
    AND NOT EXISTS (SELECT 1 FROM c_measured c WHERE c.suite = b.suite AND c.cases > 0))";

const char* const kFewerCases = R"(
  SELECT 'suite ' || b.suite AS subject, b.cases || ' cases' AS expected, c.cases || ' cases' AS got,
         printf('%.0f %% of the baseline, and the policy asks for %.0f %%', 100.0 * c.cases / b.cases,
                100.0 * n.value) AS detail, '' AS replay
  FROM b_measured b JOIN c_measured c ON c.suite = b.suite JOIN number n ON n.name = 'cases_ratio'
  WHERE c.cases > 0 AND c.cases < n.value * b.cases)";

// Cases are drawn: what is absent is lost only if so many cases should have had it at least `expected_hits`
// times. With 10, a stranger to the draw is accused once in e^10 = 22,026 times.
const char* const kLostOps = R"(
  SELECT 'op ' || b.op AS subject, b.hits || ' hits' AS expected, '0 hits' AS got,
         'no case of the candidate dispatched it' AS detail, '' AS replay
  FROM (SELECT op, sum(hits) AS hits FROM b_coverage GROUP BY op) b JOIN number n ON n.name = 'expected_hits'
  WHERE b.op NOT IN (SELECT op FROM c_coverage) AND b.hits * (SELECT value FROM share) >= n.value)";

const char* const kLostPairs = R"(
  SELECT b.op || '/' || b.placement AS subject, b.hits || ' hits' AS expected, '0 hits' AS got,
         'no case of the candidate has this op on this placement' AS detail, '' AS replay
  FROM (SELECT op, placement, sum(hits) AS hits FROM b_coverage GROUP BY op, placement) b
  JOIN number n ON n.name = 'expected_hits'
  WHERE b.op IN (SELECT op FROM c_coverage)
    AND NOT EXISTS (SELECT 1 FROM c_coverage c WHERE c.op = b.op AND c.placement = b.placement)
    AND b.hits * (SELECT value FROM share) >= n.value)";

const char* const kLostLabels = R"(
  SELECT 'label ' || b.label AS subject, b.hits || ' hits' AS expected, '0 hits' AS got,
         'no case of the candidate has this label' AS detail, '' AS replay
  FROM (SELECT label, sum(hits) AS hits FROM b_labels GROUP BY label) b
      JOIN number n ON n.name = 'expected_hits'
  WHERE b.label NOT IN (SELECT label FROM c_labels) AND b.hits * (SELECT value FROM share) >= n.value)";

// The whole list is in the plan of each run, also of one too small to be judged by it.
const char* const kLostDemands = R"(
  WITH b AS (SELECT e.key AS name, max(e.value) AS least FROM b_run, json_each(b_run.plan, '$.list') e
             GROUP BY e.key),
       c AS (SELECT e.key AS name, max(e.value) AS least FROM c_run, json_each(c_run.plan, '$.list') e
             GROUP BY e.key)
  SELECT 'coverage of ' || b.name AS subject, 'at least ' || b.least AS expected,
         iif(c.least IS NULL, 'not asked for', 'at least ' || c.least) AS got,
         'the list of what a run must cover (golden/coverage.txt) asks for less' AS detail, '' AS replay
  FROM b LEFT JOIN c ON c.name = b.name
  WHERE coalesce(c.least, 0) < b.least
    AND EXISTS (SELECT 1 FROM c_run WHERE json_type(plan, '$.list') = 'object'))";

// Where the candidate plants faults at all; a lost suite is told by lost_suite.
const char* const kLostFaults = R"(
  SELECT 'fault ' || b.fault AS subject, 'planted' AS expected, 'not planted' AS got,
         'the harness is no longer tested against it' AS detail, '' AS replay
  FROM (SELECT DISTINCT fault FROM base.v_faults WHERE run_id IN (SELECT id FROM b_run)) b
  WHERE EXISTS (SELECT 1 FROM main.v_faults WHERE run_id IN (SELECT id FROM c_run))
    AND NOT EXISTS (SELECT 1 FROM main.v_faults f WHERE f.run_id IN (SELECT id FROM c_run)
        AND f.fault = b.fault))";

const char* const kLostCurves = R"(
  SELECT 'curve ' || b.curve || ' (' || b.variant || ')' AS subject, b.steps || ' steps' AS expected,
         '0 steps' AS got, 'the baseline trained it' AS detail, '' AS replay
  FROM b_curves b WHERE NOT EXISTS (
    SELECT 1 FROM c_curves c WHERE (c.curve, c.model, c.variant, c.mesh, c.policy)
                                 = (b.curve, b.model, b.variant, b.mesh, b.policy)))";

const char* const kLostSeries = R"(
  SELECT 'series ' || b.series AS subject, b.samples || ' samples' AS expected, '0 samples' AS got,
         'the baseline measured it' AS detail, '' AS replay
  FROM b_series b WHERE EXISTS (SELECT 1 FROM c_series WHERE kind <> '')
    AND b.area <> '' AND b.series NOT IN (SELECT series FROM c_series))";

// mute: bucket, owner, reason, expires, in_force
const char* const kExpiredMutes = R"(
  SELECT m.bucket AS subject, 'mended by ' || m.expires AS expected, 'muted' AS got,
         'the mute of ' || m.owner || ' ended: ' || m.reason AS detail, '' AS replay
  FROM mute m WHERE NOT m.in_force)";

const char* const kUnexpectedPasses = R"(
  SELECT m.bucket AS subject, 'fails' AS expected, 'passes' AS got,
         'muted by ' || m.owner || ', but its kept case passes now: remove the mute' AS detail,
         'lockstep replay ' || shell_quoted(min(r.token)) AS replay
  FROM mute m JOIN main.v_replayed r ON r.bucket = m.bucket AND r.run_id IN (SELECT id FROM c_run)
  WHERE m.bucket NOT IN (SELECT bucket FROM c_failures) AND r.now <> r.bucket
  GROUP BY m.bucket)";

const char* const kUnprovenMutes = R"(
  SELECT m.bucket AS subject, 'its kept case replayed' AS expected, 'not replayed' AS got,
         'nobody knows whether it still fails: run with --corpus of a database that has it' AS detail, ''
             AS replay
  FROM mute m WHERE m.bucket NOT IN (SELECT bucket FROM c_failures)
    AND NOT EXISTS (SELECT 1 FROM main.v_replayed r
                    WHERE r.bucket = m.bucket AND r.run_id IN (SELECT id FROM c_run))
    AND m.bucket IN (SELECT bucket FROM b_buckets))";

const char* const kUnknownMutes = R"(
  SELECT m.bucket AS subject, 'a bucket that was seen' AS expected, 'never seen' AS got,
         'no failure of candidate or baseline has this signature; is it misspelt?' AS detail, '' AS replay
  FROM mute m WHERE m.bucket NOT IN (SELECT bucket FROM c_failures) AND m.bucket NOT IN (SELECT bucket
      FROM b_buckets)
    AND NOT EXISTS (SELECT 1 FROM main.v_replayed r
                    WHERE r.bucket = m.bucket AND r.run_id IN (SELECT id FROM c_run)))";

}  // namespace lockstep::gate
