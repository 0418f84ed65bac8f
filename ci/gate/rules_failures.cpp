// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/rules.h"
#include "engine/values/exit_code.h"

namespace lockstep::gate {

namespace {

constexpr Effect kBlock = Effect::kBlock;

const Rule kRules[] = {
    {"new_difference", kDifference, kBlock, false, "nothing differs that did not differ in the baseline",
     R"(
  SELECT bucket, 'no failure', 'different',
         counted || coalesce(', seen before: last at ' || last_commit, '') || ': ' || line, replay
  FROM fresh WHERE verdict = 'different' AND suite <> 'golden' AND coalesce(state, '') <> 'fixed')"},

    {"regressed", kDifference, kBlock, false, "what was fixed stays fixed", R"(
  SELECT bucket, 'fixed since ' || last_commit, verdict,
         cases || ' cases fail again after ' || clean_commits || ' clean commits: ' || line, replay
  FROM fresh WHERE state = 'fixed' AND verdict = 'different' AND suite <> 'golden')"},

    {"crash", kDifference, kBlock, false, "no case takes its process along", R"(
  SELECT bucket, 'no crash', verdict, counted || ': ' || line, replay FROM fresh WHERE verdict = 'crashed')"},

    {"hang", kDifference, kBlock, false, "no case hangs", R"(
  SELECT bucket, 'no hang', verdict, counted || ': ' || line, replay FROM fresh WHERE verdict = 'hung')"},

    {"golden_mismatch", kDifference, kBlock, false, "goldens match", R"(
  SELECT bucket, 'the golden', 'different', line, replay
  FROM fresh WHERE suite = 'golden' AND verdict = 'different')"},

    {"known_difference", kDifference, kBlock, false, "what differs in the baseline is mended or muted", R"(
  SELECT f.bucket, 'mended or muted', f.verdict,
         f.counted || ', as in the baseline' || coalesce(' since ' || k.first_commit, '') || ': ' || f.line,
         f.replay
  FROM c_failures f LEFT JOIN b_buckets k ON k.bucket = f.bucket
  WHERE f.bucket IN (SELECT bucket FROM b_failures) AND f.verdict IN ('different', 'crashed', 'hung'))"},

    // same_case: cases of the candidate that are not equal, with what the baseline's binary made of them.
    // Cases that fall into a new bucket are that bucket's finding, not one more of these.
    {"worse_verdict", kDifference, kBlock, true, "no case has a worse class of verdict than in the baseline",
     R"(
  SELECT suite || ' | ' || op || ' | ' || before || ' -> ' || verdict, before, verdict,
         count(*) || ' cases, for example ' || first_line(min(explanation)),
         min(replay)
  FROM same_case
  WHERE severity > severity_before
    AND (verdict LIKE 'explained%' OR verdict = 'bounded'
         OR (failure AND verdict <> 'nondeterministic' AND bucket IN (SELECT bucket FROM b_failures)))
  GROUP BY suite, op, before, verdict)"},

    // Of the cases that only one side has. The rates of cases that are explained, of each op on a placement
    // in a suite; pooled, where these are too few to tell, over the placements of the op in the suite, over
    // the op's suites, over the suite's ops. Each is judged by Fisher's exact test (chance.h) at the policy's
    // `false_alarm`, divided by the number of rates that could alarm at all, those with an explained case on
    // either side: so the chance that any of them alarms without reason is at most `false_alarm`. A pooled
    // rate is told where no part of it alarms. An op of 13 cases on each side alarms if all go from equal to
    // explained. A baseline of schema 3 did not count.
    {"explained_more", kDifference, kBlock, true,
     "in no suite is an op on a placement, an op or all of it explained more often than in the baseline, "
     "beyond chance",
     R"(
  WITH hit AS (SELECT suite, op, placement, hits AS c, n AS c_n, 0 AS b, 0 AS b_n FROM c_explained
               UNION ALL SELECT suite, op, placement, 0, 0, hits, n FROM b_explained),
  each AS (SELECT suite, op, placement, sum(c) AS c, sum(c_n) AS c_n, sum(b) AS b, sum(b_n) AS b_n
           FROM hit GROUP BY suite, op, placement),
  rate AS (SELECT iif(op = '', 3, iif(placement = '', 1, 0)) AS level, suite, nullif(op, '') AS op,
                  nullif(placement, '') AS placement, c, c_n, b, b_n FROM each
           UNION ALL SELECT 2, NULL, op, NULL, sum(c), sum(c_n), sum(b), sum(b_n) FROM each
                     WHERE op <> '' AND placement = '' GROUP BY op),
  alarm AS (SELECT rate.* FROM rate JOIN number n ON n.name = 'false_alarm'
            WHERE c > 0 AND chance_of_more(c, c_n, b, b_n)
                  <= n.value / (SELECT count(*) FROM rate WHERE c + b > 0))
  SELECT iif(suite IS NULL, op, suite || coalesce(' | ' || op, '') || coalesce(' | ' || placement, '')),
         b || ' of ' || b_n, c || ' of ' || c_n,
         'more cases are explained than in the baseline'
  FROM alarm a WHERE NOT EXISTS (SELECT 1 FROM alarm f WHERE f.level < a.level
    AND coalesce(f.suite = a.suite, a.suite IS NULL) AND coalesce(f.op = a.op, a.op IS NULL)))"},

    // Of the cases that passed in both, all of a suite: what ranks send depends on the Program and the engine
    // alone.
    {"moved_more", kDifference, kBlock, true, "the cases of a suite move no more bytes than in the baseline",
     R"(
  SELECT m.suite, b.bytes_moved || ' bytes', m.bytes_moved || ' bytes',
         m.cases || ' cases, the same as in the baseline, move more between ranks'
  FROM moved m JOIN (SELECT suite, sum(cases) AS cases, sum(bytes_moved) AS bytes_moved FROM b_verdicts
                     WHERE NOT self_check GROUP BY suite) b ON b.suite = m.suite
  WHERE m.known = m.cases AND m.cases = b.cases AND m.bytes_moved > b.bytes_moved
    AND NOT EXISTS (SELECT 1 FROM c_verdicts f WHERE f.suite = m.suite AND f.failure))"},

    // A curve that the baseline does not have may not have unexplained steps.
    {"curve_divergence", kDifference, kBlock, true,
     "no loss curve leaves its reference earlier, farther or less explained than in the baseline", R"(
  SELECT c.curve,
         iif(b.curve IS NULL, 'every judged step equal or explained',
             b.identical_prefix || ' identical steps, ' || b.unexplained || ' unexplained'),
         c.identical_prefix || ' identical steps, ' || c.unexplained || ' unexplained',
         c.curve || ' against ' || c.reference ||
         coalesce(': first differs at step ' || c.first_differing_step, '') ||
         coalesce(', by at most ' || c.max_loss_ulp || ' ulp', '')
  FROM c_curves c
  LEFT JOIN b_curves b ON (b.curve, b.reference, b.model, b.variant, b.mesh, b.policy, b.lane, b.dtype)
                        = (c.curve, c.reference, c.model, c.variant, c.mesh, c.policy, c.lane, c.dtype)
  WHERE iif(b.curve IS NULL, c.unexplained > 0,
            c.unexplained > b.unexplained
            OR (c.identical_prefix < b.identical_prefix AND c.identical_prefix < c.steps)))"},

    {"curve_changed", kDifference, kBlock, true, "loss curves have the bits that they have in the baseline",
     R"(
  WITH both AS (SELECT c.*, b.chain AS before FROM c_points c JOIN b_points b
                ON (b.curve, b.model, b.variant, b.mesh, b.policy, b.lane, b.dtype, b.step)
                 = (c.curve, c.model, c.variant, c.mesh, c.policy, c.lane, c.dtype, c.step)),
  last AS (SELECT curve, model, variant, max(step) AS step FROM both GROUP BY curve, model, variant)
  SELECT curve || ' (' || variant || ')' AS subject, 'chain ' || before, 'chain ' || chain,
         'the bits up to step ' || step || ' are not those of the baseline'
  FROM last JOIN both USING (curve, model, variant, step)
  WHERE before <> chain
    AND EXISTS (SELECT 1 FROM b_run x JOIN c_run y ON x.libtorch = y.libtorch AND x.numerics = y.numerics)
  GROUP BY subject)"},

    // Within the candidate; and, where baseline and candidate are one binary, between the two.
    {"nondeterminism", kNondeterminism, kBlock, false, "a case comes out in one way", R"(
  SELECT bucket, 'one outcome', 'nondeterministic', counted || ': ' || line, replay
  FROM c_failures WHERE verdict = 'nondeterministic'
  UNION ALL
  SELECT n.suite || ': ' || shortened(n.what), 'one outcome', n.outcomes || ' outcomes',
         'the same binary, seed and case came out as ' || n.verdicts, n.replay
  FROM main.v_nondeterminism n WHERE n.run_id IN (SELECT id FROM c_run)
  UNION ALL
  SELECT series, expected, got, detail, '' FROM speed WHERE reason = 'nondeterministic'
  UNION ALL
  SELECT c.suite || ': ' || shortened(c.token), b.verdict, c.verdict,
         'the same binary and case came out otherwise than in the baseline',
         v.replay
  FROM (SELECT 1 WHERE EXISTS (SELECT 1 FROM b_run x JOIN c_run y ON x.build_hash = y.build_hash)) same
  JOIN base.cases b JOIN b_run ON b_run.id = b.run
  JOIN main.cases c ON c.key = b.key AND c.outcome <> b.outcome JOIN c_run ON c_run.id = c.run
  JOIN main.v_cases v ON v.case_id = c.id)"},
};

}  // namespace

std::span<const Rule> rules_of_failures() {
  return kRules;
}

}  // namespace lockstep::gate
