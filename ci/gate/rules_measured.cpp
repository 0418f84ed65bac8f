// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/rules.h"
#include "engine/values/exit_code.h"

namespace lockstep::gate {

namespace {

constexpr Effect kBlock = Effect::kBlock, kWarn = Effect::kWarn;

const Rule kRules[] = {
    {"harness_error", kHarnessError, kBlock, false, "the harness itself works", R"(
  SELECT bucket, 'no case breaks the harness', cases || ' broken', line, replay
  FROM c_failures WHERE verdict = 'broken')"},

    {"fault_survived", kFaultSurvived, kBlock, false, "every planted fault and the canary are found", R"(
  SELECT fault, 'found', 'survived ' || min(cases) || ' cases',
         'planted fault of class ' || class || coalesce(': ' || nullif(note, ''), '')
  FROM c_faults GROUP BY fault HAVING NOT max(found)
  UNION ALL
  SELECT 'suite ' || suite, 'every case found', sum(cases) || ' ' || verdict, 'what must fail did not'
  FROM c_verdicts WHERE self_check AND failure AND suite <> 'faults' GROUP BY suite, verdict
  UNION ALL
  SELECT 'suite ' || suite, 'found', sum(cases) || ' ' || verdict, 'a planted fault was not found'
  FROM c_verdicts WHERE self_check AND failure AND suite = 'faults'
    AND NOT EXISTS (SELECT 1 FROM c_faults WHERE NOT found) GROUP BY suite, verdict)"},

    {"not_measured", kNotMeasured, kBlock, false, "every run ended and did what its plan demands", R"(
  SELECT 'run ' || name, 'finished', state,
         'the run stopped before its end; `lockstep run --resume` completes it'
  FROM c_run WHERE state <> 'finished'
  UNION ALL
  SELECT kind || ' ' || name, 'at least ' || least, got, 'the plan of run ' || run || ' asked for more'
  FROM c_plan WHERE NOT met
  UNION ALL
  SELECT 'run ' || run || ': ' || rule, required, got, 'the run itself found too little'
  FROM c_gates WHERE NOT passed AND rule NOT IN ('no unexplained difference', 'cases per second and core')
  UNION ALL
  SELECT 'candidate', 'a case, a curve or a series', 'nothing', 'an empty candidate proves nothing'
  WHERE NOT EXISTS (SELECT 1 FROM c_verdicts) AND NOT EXISTS (SELECT 1 FROM c_curves)
    AND NOT EXISTS (SELECT 1 FROM c_series)
  UNION ALL
  SELECT 'baseline', 'a run', 'nothing',
         CASE WHEN NOT EXISTS (SELECT 1 FROM base.run) THEN 'there is nothing to compare with'
              WHEN EXISTS (SELECT 1 FROM base.run WHERE engine IN (SELECT engine FROM c_run))
              THEN 'its runs are those that are being judged'
              ELSE 'its runs are of another engine' END || '; pass the database of an earlier run'
  WHERE NOT EXISTS (SELECT 1 FROM b_run))"},

    // Shards of one run: the same build, lane, seed and request but for the number of the shard.
    {"missing_shard", kNotMeasured, kBlock, false, "of a run in shards, every shard is there", R"(
  WITH RECURSIVE part AS (
    SELECT build_hash, seed, json_extract(plan, '$.request.shards') AS shards,
           json_extract(plan, '$.request.shard') AS shard,
           json_remove(json_extract(plan, '$.request'), '$.shard', '$.planned') AS request
    FROM c_run WHERE json_extract(plan, '$.request.shards') > 1),
  wanted AS (SELECT DISTINCT build_hash, seed, request, shards, 0 AS shard FROM part
             UNION ALL SELECT build_hash, seed, request, shards, shard + 1 FROM wanted
                 WHERE shard + 1 < shards)
  SELECT 'shard ' || (w.shard + 1) || '/' || w.shards || ' of seed ' || printf('%llu', w.seed), 'there',
         'missing', 'merge its database into the candidate'
  FROM wanted w WHERE NOT EXISTS (SELECT 1 FROM part p WHERE (p.build_hash, p.seed, p.request, p.shard)
                                                           = (w.build_hash, w.seed, w.request, w.shard)))"},

    {"wrong_commit", kNotMeasured, kBlock, false,
     "the runs are of the commit that is claimed, and of one commit", R"(
  SELECT DISTINCT 'commit', c.value, r.commit_id, 'the candidate was made from another commit than is claimed'
  FROM claim c JOIN c_run r
  WHERE c.name = 'commit' AND substr(r.commit_id, 1, length(c.value)) <> c.value
  UNION ALL
  SELECT 'commit', 'one', group_concat(commit_id), 'the candidate mixes runs of several commits'
  FROM (SELECT DISTINCT commit_id FROM c_run) HAVING count(*) > 1)"},

    {"wrong_binary", kNotMeasured, kBlock, false,
     "the runs are of the binary that is claimed, and of one binary", R"(
  SELECT DISTINCT 'binary', c.value, r.build_hash, 'the candidate was made by another binary than is claimed'
  FROM claim c JOIN c_run r WHERE c.name = 'build' AND r.build_hash <> c.value
  UNION ALL
  SELECT 'binary', 'one', group_concat(build_hash), 'the candidate mixes runs of several binaries'
  FROM (SELECT DISTINCT build_hash FROM c_run) HAVING count(*) > 1)"},

    {"wrong_engine", kNotMeasured, kBlock, false, "the runs are of one engine", R"(
  SELECT 'engine', 'one', group_concat(engine),
         'the candidate mixes runs of several engines; judge each in a file of its own'
  FROM (SELECT DISTINCT engine FROM c_run ORDER BY engine) HAVING count(*) > 1)"},

    {"dirty_commit", kNotMeasured, kWarn, false, "the source was committed", R"(
  SELECT 'run ' || name, 'a commit', commit_id,
         'the source had changes that are in no commit; nobody can build this binary again'
  FROM c_run WHERE commit_id LIKE '%+dirty')"},

    {"demanded", kNotMeasured, kBlock, false, "what the policy requires was measured", R"(
  SELECT d.kind || ' ' || d.name, 'at least ' || d.least, coalesce(s.got, 0) || '', 'the policy requires it'
  FROM demand d LEFT JOIN (
    SELECT 'suite' AS kind, suite AS name, cases AS got FROM c_measured
    UNION ALL SELECT 'op', op, sum(hits) FROM c_coverage GROUP BY op
    UNION ALL SELECT 'pair', op || '/' || placement, hits FROM c_coverage
    UNION ALL SELECT 'label', label, hits FROM c_labels
    UNION ALL SELECT 'series', series, sum(samples) FROM c_series GROUP BY series
    UNION ALL SELECT 'curve', curve, sum(steps) FROM c_curves GROUP BY curve) s
  ON s.kind = d.kind AND s.name = d.name
  WHERE coalesce(s.got, 0) < d.least)"},
};

}  // namespace

std::span<const Rule> rules_of_measuring() {
  return kRules;
}

}  // namespace lockstep::gate
