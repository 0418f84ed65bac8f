// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/queries.h"

namespace lockstep::gate {

const char* const kNotMeasuredQuery = R"(
  SELECT 'run ' || name AS subject, 'finished' AS expected, state AS got,
         'the run stopped before its end; `lockstep run --resume` completes it' AS detail, '' AS replay
  FROM c_run WHERE state <> 'finished'
  UNION ALL
  SELECT p.kind || ' ' || p.name, 'at least ' || p.least, p.got, 'the plan of run ' || p.run ||
      ' asked for more', ''
  FROM main.v_plan p WHERE p.run_id IN (SELECT id FROM c_run) AND NOT p.met
  UNION ALL
  SELECT 'run ' || g.run || ': ' || g.rule, g.required, g.got, 'the run itself found too little', ''
  FROM main.v_gates g WHERE g.run_id IN (SELECT id FROM c_run) AND NOT g.passed
    AND g.rule NOT IN ('no unexplained difference', 'cases per second and core')

  UNION ALL
  SELECT 'candidate', 'a case, a curve or a series', 'nothing', 'an empty candidate proves nothing', ''
  WHERE NOT EXISTS (SELECT 1 FROM c_verdicts) AND NOT EXISTS (SELECT 1 FROM c_curves)
    AND NOT EXISTS (SELECT 1 FROM c_series)
  UNION ALL
  SELECT 'baseline', 'a run', 'nothing',
      CASE WHEN NOT EXISTS (SELECT 1 FROM base.run) THEN 'there is nothing to compare with'
           WHEN EXISTS (SELECT 1 FROM base.run WHERE engine IN (SELECT engine FROM c_run))
           THEN 'its runs are those that are being judged'
           ELSE 'its runs are of another engine' END || '; pass the database of an earlier run', ''
  WHERE NOT EXISTS (SELECT 1 FROM b_run))";

// Shards of one run: the same build, lane, seed and request but for the number of the shard.
const char* const kMissingShards = R"(
  WITH RECURSIVE part AS (
    SELECT build_hash, seed, json_extract(plan, '$.request.shards') AS shards,
           json_extract(plan, '$.request.shard') AS shard,
           json_remove(json_extract(plan, '$.request'), '$.shard', '$.planned') AS request
    FROM c_run WHERE json_extract(plan, '$.request.shards') > 1),
  whole AS (SELECT DISTINCT build_hash, seed, request, shards FROM part),
  wanted AS (SELECT *, 0 AS shard FROM whole
             UNION ALL SELECT build_hash, seed, request, shards, shard + 1 FROM wanted
                 WHERE shard + 1 < shards)
  SELECT 'shard ' || (w.shard + 1) || '/' || w.shards || ' of seed ' || printf('%llu', w.seed) AS subject,
         'there' AS expected, 'missing' AS got, 'merge its database into the candidate' AS detail, ''
             AS replay
  FROM wanted w WHERE NOT EXISTS (SELECT 1 FROM part p WHERE (p.build_hash, p.seed, p.request, p.shard)
                                                           = (w.build_hash, w.seed, w.request, w.shard)))";

const char* const kWrongCommit = R"(
  SELECT 'commit' AS subject, c.value AS expected, r.commit_id AS got,
         'the candidate was made from another commit than is claimed' AS detail, '' AS replay
  FROM claim c JOIN (SELECT DISTINCT commit_id FROM c_run) r
  WHERE c.name = 'commit' AND substr(r.commit_id, 1, length(c.value)) <> c.value
  UNION ALL
  SELECT 'commit', 'one', group_concat(commit_id), 'the candidate mixes runs of several commits', ''
  FROM (SELECT DISTINCT commit_id FROM c_run) HAVING count(*) > 1)";

const char* const kWrongBinary = R"(
  SELECT 'binary' AS subject, c.value AS expected, r.build_hash AS got,
         'the candidate was made by another binary than is claimed' AS detail, '' AS replay
  FROM claim c JOIN (SELECT DISTINCT build_hash FROM c_run) r
  WHERE c.name = 'build' AND r.build_hash <> c.value
  UNION ALL
  SELECT 'binary', 'one', group_concat(build_hash), 'the candidate mixes runs of several binaries', ''
  FROM (SELECT DISTINCT build_hash FROM c_run) HAVING count(*) > 1)";

const char* const kWrongEngine = R"(
  SELECT 'engine' AS subject, 'one' AS expected, group_concat(engine) AS got,
         'the candidate mixes runs of several engines; judge each in a file of its own' AS detail,
         '' AS replay
  FROM (SELECT DISTINCT engine FROM c_run ORDER BY engine) HAVING count(*) > 1)";

const char* const kDirtyCommit = R"(
  SELECT 'run ' || name AS subject, 'a commit' AS expected, commit_id AS got,
         'the source had changes that are in no commit; nobody can build this binary again' AS detail, ''
             AS replay
  FROM c_run WHERE commit_id LIKE '%+dirty')";

const char* const kDemanded = R"(
  SELECT d.kind || ' ' || d.name AS subject, 'at least ' || d.least AS expected, coalesce(s.got, 0) || ''
      AS got,
         'the policy requires it' AS detail, '' AS replay
  FROM demand d LEFT JOIN (
    SELECT 'suite' AS kind, suite AS name, sum(cases) AS got FROM c_verdicts
    WHERE verdict NOT IN ('gave_up', 'broken') GROUP BY suite
    UNION ALL SELECT 'op', op, sum(hits) FROM c_coverage GROUP BY op
    UNION ALL SELECT 'pair', op || '/' || placement, sum(hits) FROM c_coverage GROUP BY op, placement
    UNION ALL SELECT 'label', label, sum(hits) FROM c_labels GROUP BY label
    UNION ALL SELECT 'series', series, sum(samples) FROM c_series GROUP BY series
    UNION ALL SELECT 'curve', curve, sum(steps) FROM c_curves GROUP BY curve) s
  ON s.kind = d.kind AND s.name = d.name
  WHERE coalesce(s.got, 0) < d.least)";

const char* const kEnvironment = R"(
  WITH facts AS (
    SELECT 'c' AS side, name, group_concat(DISTINCT value) AS value FROM main.v_environment
    WHERE run_id IN (SELECT id FROM c_run) AND name NOT IN ('build', 'commit') GROUP BY name
    UNION ALL
    SELECT 'b', name, group_concat(DISTINCT value) FROM base.v_environment
    WHERE run_id IN (SELECT id FROM b_run) AND name NOT IN ('build', 'commit') GROUP BY name)
  SELECT c.name AS subject, b.value AS expected, c.value AS got,
         'another environment may compute other bits, and other times' AS detail, '' AS replay
  FROM facts c JOIN facts b ON c.side = 'c' AND b.side = 'b' AND b.name = c.name WHERE b.value <> c.value)";

}  // namespace lockstep::gate
