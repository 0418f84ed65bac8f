// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/rules.h"
#include "engine/values/exit_code.h"

namespace lockstep::gate {

namespace {

constexpr Effect kBlock = Effect::kBlock, kWarn = Effect::kWarn;

const Rule kRules[] = {
    {"lost_suite", kNotMeasured, kBlock, true, "every suite that the baseline measured is measured", R"(
  SELECT 'suite ' || b.suite, b.cases || ' cases', '0 cases', 'the baseline ran this suite'
  FROM b_measured b WHERE b.cases > 0
    AND NOT EXISTS (SELECT 1 FROM c_measured c WHERE c.suite = b.suite AND c.cases > 0))"},

    {"fewer_cases", kNotMeasured, kBlock, true, "no suite measures far fewer cases than in the baseline",
     R"(
  SELECT 'suite ' || b.suite, b.cases || ' cases', c.cases || ' cases',
         printf('%.0f %% of the baseline, and the policy asks for %.0f %%', 100.0 * c.cases / b.cases,
                100.0 * n.value)
  FROM b_measured b JOIN c_measured c ON c.suite = b.suite JOIN number n ON n.name = 'cases_ratio'
  WHERE c.cases > 0 AND c.cases < n.value * b.cases)"},

    {"no_longer_judged", kNotMeasured, kBlock, true,
     "a case that was equal or explained is not given up or excused", R"(
  SELECT suite || ' | ' || before || ' -> ' || verdict, before, count(*) || ' ' || verdict,
         count(*) || ' cases, for example ' || first_line(min(explanation)),
         min(replay)
  FROM same_case
  WHERE (before IN ('equal', 'bounded') OR before LIKE 'explained%')
    AND verdict IN ('gave_up', 'expected_exception')
  GROUP BY suite, before, verdict)"},

    // Of one seed and as many cases, the counts are compared; else they are draws, judged as those of
    // explained_more are: by suite, op and reason, and pooled over the ops of a suite by reason. A baseline
    // of schema 2 did not count.
    {"refuses_more", kNotMeasured, kBlock, true,
     "no op, and no suite for a reason, gives up more cases than in the baseline, beyond chance", R"(
  WITH size AS (SELECT c.suite, c.n AS c, b.n AS b,
                       c.n = b.n AND NOT EXISTS (SELECT seed, numerics FROM c_run EXCEPT
                                                 SELECT seed, numerics FROM b_run) AS same
                FROM (SELECT suite, sum(cases) AS n FROM c_verdicts GROUP BY suite) c
                JOIN (SELECT suite, sum(cases) AS n FROM b_verdicts GROUP BY suite) b USING (suite)),
  hit AS (SELECT suite, op, reason, hits AS c, 0 AS b FROM c_refusals
          UNION ALL SELECT suite, op, reason, 0, hits FROM b_refusals),
  rate AS (SELECT suite, op, reason, sum(c) AS c, sum(b) AS b FROM hit GROUP BY suite, op, reason
           UNION ALL SELECT suite, NULL, reason, sum(c), sum(b) FROM hit GROUP BY suite, reason),
  alarm AS (SELECT r.*, s.c AS c_n, s.b AS b_n
            FROM rate r JOIN size s USING (suite) JOIN number n ON n.name = 'false_alarm'
            WHERE iif(s.same, r.c > r.b,
                      r.c > 0 AND chance_of_more(r.c, s.c, r.b, s.b)
                                  <= n.value / (SELECT count(*) FROM rate)))
  SELECT suite || ' | ' || coalesce(op || ' | ', '') || reason, b || ' of ' || b_n, c || ' of ' || c_n,
         'more cases give up than in the baseline'
  FROM alarm a WHERE NOT EXISTS (SELECT 1 FROM b_run WHERE version = '')
    AND (op IS NOT NULL OR NOT EXISTS (SELECT 1 FROM alarm f WHERE f.op IS NOT NULL
                                         AND (f.suite, f.reason) = (a.suite, a.reason))))"},

    // Cases are drawn: what is absent is lost only if so many cases should have had it at least
    // `expected_hits` times. With 10, a stranger to the draw is accused once in e^10 = 22,026 times.
    {"lost_op", kNotMeasured, kBlock, true, "every op that the baseline covered often is covered", R"(
  SELECT 'op ' || op, sum(hits) || ' hits', '0 hits', 'no case of the candidate dispatched it'
  FROM b_coverage JOIN often WHERE op NOT IN (SELECT op FROM c_coverage)
  GROUP BY op HAVING sum(hits) * share >= least)"},

    {"lost_pair", kNotMeasured, kBlock, true,
     "every op on a placement that the baseline covered often is covered", R"(
  SELECT op || '/' || placement, hits || ' hits', '0 hits',
         'no case of the candidate has this op on this placement'
  FROM b_coverage JOIN often WHERE op IN (SELECT op FROM c_coverage)
    AND (op, placement) NOT IN (SELECT op, placement FROM c_coverage) AND hits * share >= least)"},

    {"lost_label", kNotMeasured, kBlock, true, "every label that the baseline had often is there", R"(
  SELECT 'label ' || label, hits || ' hits', '0 hits', 'no case of the candidate has this label'
  FROM b_labels JOIN often WHERE label NOT IN (SELECT label FROM c_labels) AND hits * share >= least)"},

    // The whole list is in the plan of each run, also of one too small to be judged by it.
    {"lost_demand", kNotMeasured, kBlock, true, "what a run must cover is not struck off its list", R"(
  WITH b AS (SELECT e.key AS name, max(e.value) AS least FROM b_run, json_each(b_run.plan, '$.list') e
             GROUP BY e.key),
       c AS (SELECT e.key AS name, max(e.value) AS least FROM c_run, json_each(c_run.plan, '$.list') e
             GROUP BY e.key)
  SELECT 'coverage of ' || b.name, 'at least ' || b.least,
         iif(c.least IS NULL, 'not asked for', 'at least ' || c.least),
         'the list of what a run must cover (golden/coverage.txt) asks for less'
  FROM b LEFT JOIN c ON c.name = b.name
  WHERE coalesce(c.least, 0) < b.least
    AND EXISTS (SELECT 1 FROM c_run WHERE json_type(plan, '$.list') = 'object'))"},

    // Where the candidate plants faults at all; a lost suite is told by lost_suite.
    {"lost_fault", kNotMeasured, kBlock, true, "every fault that the baseline planted is planted", R"(
  SELECT DISTINCT 'fault ' || fault, 'planted', 'not planted', 'the harness is no longer tested against it'
  FROM b_faults WHERE EXISTS (SELECT 1 FROM c_faults) AND fault NOT IN (SELECT fault FROM c_faults))"},

    {"lost_curve", kNotMeasured, kBlock, true, "every curve that the baseline trained is trained", R"(
  SELECT 'curve ' || curve || ' (' || variant || ')', steps || ' steps', '0 steps', 'the baseline trained it'
  FROM b_curves WHERE (curve, model, variant, mesh, policy)
    NOT IN (SELECT curve, model, variant, mesh, policy FROM c_curves))"},

    {"lost_series", kNotMeasured, kBlock, true, "every series that the baseline measured is measured", R"(
  SELECT 'series ' || series, samples || ' samples', '0 samples', 'the baseline measured it'
  FROM b_series WHERE EXISTS (SELECT 1 FROM c_series WHERE kind <> '')
    AND area <> '' AND series NOT IN (SELECT series FROM c_series))"},

    {"expired_mute", kNotMeasured, kBlock, false, "no mute is past its day", R"(
  SELECT bucket, 'mended by ' || expires, 'muted', 'the mute of ' || owner || ' ended: ' || reason
  FROM mute WHERE NOT in_force)"},

    {"unexpected_pass", kNotMeasured, kBlock, true,
     "a muted failure still fails; where it passes, remove the mute or bless it", R"(
  SELECT m.bucket, 'fails', 'passes',
         'muted by ' || m.owner || ', but its kept case passes now: remove the mute',
         min(r.replay)
  FROM mute m JOIN c_replayed r ON r.bucket = m.bucket AND r.now <> r.bucket
  WHERE m.bucket NOT IN (SELECT bucket FROM c_failures) GROUP BY m.bucket)"},

    {"unproven_mute", kNotMeasured, kWarn, false, "the kept case of a muted failure is replayed", R"(
  SELECT bucket, 'its kept case replayed', 'not replayed',
         'nobody knows whether it still fails: run with --corpus of a database that has it'
  FROM mute WHERE bucket NOT IN (SELECT bucket FROM c_failures UNION SELECT bucket FROM c_replayed)
    AND bucket IN (SELECT bucket FROM b_buckets))"},

    {"unknown_mute", kNotMeasured, kWarn, false, "a mute names a failure that was seen", R"(
  SELECT bucket, 'a bucket that was seen', 'never seen',
         'no failure of candidate or baseline has this signature; is it misspelt?'
  FROM mute WHERE bucket NOT IN (SELECT bucket FROM c_failures UNION SELECT bucket FROM c_replayed
                                 UNION SELECT bucket FROM b_buckets))"},
};

}  // namespace

std::span<const Rule> rules_of_losses() {
  return kRules;
}

}  // namespace lockstep::gate
