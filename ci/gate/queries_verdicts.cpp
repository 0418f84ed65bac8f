// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/queries.h"

namespace lockstep::gate {

// same_case: cases of the candidate that are not equal, with what the baseline's binary made of them. Cases
// that fall
// into a new bucket are that bucket's finding, not one more of these.
const char* const kWorseVerdicts = R"(
  SELECT suite || ' | ' || op || ' | ' || before || ' -> ' || verdict AS subject, before AS expected, verdict
      AS got,
         count(*) || ' cases, for example ' || first_line(min(explanation)) AS detail,
         'lockstep replay ' || shell_quoted(min(token)) AS replay
  FROM same_case
  WHERE severity > severity_before
    AND (verdict LIKE 'explained%'
         OR (failure AND verdict <> 'nondeterministic' AND bucket IN (SELECT bucket FROM b_failures)))
  GROUP BY suite, op, before, verdict)";

const char* const kNoLongerJudged = R"(
  SELECT suite || ' | ' || before || ' -> ' || verdict AS subject, before AS expected,
         count(*) || ' ' || verdict AS got,
         count(*) || ' cases, for example ' || first_line(min(explanation)) AS detail,
         'lockstep replay ' || shell_quoted(min(token)) AS replay
  FROM same_case
  WHERE (before = 'equal' OR before LIKE 'explained%') AND verdict IN ('gave_up', 'expected_exception')
  GROUP BY suite, before, verdict)";

// c_refusals, b_refusals: cases that gave up, by suite, op and reason. Of one seed and as many cases, the
// counts are compared; else they are draws: of all such refusals a part as large as the candidate's of the
// cases should be the candidate's, and more than that is a finding if chance made it so at most once in e^10
// times (Chernoff's bound on a binomial; expected_hits is the 10). A baseline of schema 2 did not count.
const char* const kRefusesMore = R"(
  WITH size AS (SELECT c.suite, c.n AS c, b.n AS b,
                       c.n = b.n AND NOT EXISTS (SELECT seed, numerics FROM c_run EXCEPT
                                                 SELECT seed, numerics FROM b_run) AS same
                FROM (SELECT suite, sum(cases) AS n FROM c_verdicts GROUP BY suite) c
                JOIN (SELECT suite, sum(cases) AS n FROM b_verdicts GROUP BY suite) b USING (suite)),
  pair AS (SELECT c.suite, c.op, c.reason, c.hits AS c, coalesce(b.hits, 0) AS b, s.c AS c_cases,
                  s.b AS b_cases, s.same, 1.0 * s.c / (s.c + s.b) AS share,
                  1.0 * c.hits / (c.hits + coalesce(b.hits, 0)) AS got
           FROM c_refusals c JOIN size s USING (suite)
           LEFT JOIN b_refusals b ON (b.suite, b.op, b.reason) = (c.suite, c.op, c.reason))
  SELECT suite || ' | ' || op || ' | ' || reason AS subject, b || ' of ' || b_cases AS expected,
         c || ' of ' || c_cases AS got, 'more cases give up than in the baseline' AS detail, '' AS replay
  FROM pair JOIN number n ON n.name = 'expected_hits'
  WHERE NOT EXISTS (SELECT 1 FROM b_run WHERE version = '')
    AND iif(same, c > b,
            got > share AND (c + b) * (got * ln(got / share)
              + iif(got = 1, 0, (1 - got) * ln((1 - got) / (1 - share)))) >= n.value))";

// c_curves, b_curves: v_curve_diff of either side. A curve that the baseline does not have may not have
// unexplained steps.
const char* const kCurveDivergence = R"(
  SELECT c.curve AS subject,
         iif(b.curve IS NULL, 'every judged step equal or explained',
             b.identical_prefix || ' identical steps, ' || b.unexplained || ' unexplained') AS expected,
         c.identical_prefix || ' identical steps, ' || c.unexplained || ' unexplained' AS got,
         c.curve || ' against ' || c.reference ||
         iif(c.first_differing_step IS NULL, '', ': first differs at step ' || c.first_differing_step) ||
         coalesce(', by at most ' || c.max_loss_ulp || ' ulp', '') AS detail, '' AS replay
  FROM c_curves c
  LEFT JOIN b_curves b ON (b.curve, b.reference, b.model, b.variant, b.mesh, b.policy, b.lane, b.dtype)
                        = (c.curve, c.reference, c.model, c.variant, c.mesh, c.policy, c.lane, c.dtype)
  WHERE iif(b.curve IS NULL, c.unexplained > 0,
            c.unexplained > b.unexplained
            OR (c.identical_prefix < b.identical_prefix AND c.identical_prefix < c.steps)))";

const char* const kCurvesChanged = R"(
  WITH last AS (SELECT c.curve, c.model, c.variant, max(c.step) AS step
                FROM c_points c JOIN b_points b ON (b.curve, b.model, b.variant, b.mesh, b.policy, b.lane,
                    b.dtype,
                     b.step) = (c.curve, c.model, c.variant, c.mesh, c.policy, c.lane, c.dtype, c.step)
                GROUP BY c.curve, c.model, c.variant)
  SELECT c.curve || ' (' || c.variant || ')' AS subject, 'chain ' || b.chain AS expected, 'chain ' || c.chain
      AS got,
         'the bits up to step ' || c.step || ' are not those of the baseline' AS detail, '' AS replay
  FROM last JOIN c_points c USING (curve, model, variant, step)
  JOIN b_points b ON (b.curve, b.model, b.variant, b.mesh, b.policy, b.lane, b.dtype, b.step)
                   = (c.curve, c.model, c.variant, c.mesh, c.policy, c.lane, c.dtype, c.step)
  WHERE b.chain <> c.chain
    AND EXISTS (SELECT 1 FROM b_run x JOIN c_run y ON x.libtorch = y.libtorch AND x.numerics = y.numerics)
  GROUP BY subject)";

const char* const kFaultsSurvived = R"(
  SELECT fault AS subject, 'found' AS expected, 'survived ' || min(cases) || ' cases' AS got,
         'planted fault of class ' || class || coalesce(': ' || nullif(note, ''), '') AS detail, '' AS replay
  FROM main.v_faults WHERE run_id IN (SELECT id FROM c_run) GROUP BY fault HAVING NOT max(found)
  UNION ALL
  SELECT 'suite ' || suite, 'every case found', sum(cases) || ' ' || verdict,
         'what must fail did not', ''
  FROM c_verdicts WHERE self_check AND failure AND suite NOT IN ('faults') GROUP BY suite, verdict
  UNION ALL
  SELECT 'suite ' || suite, 'found', sum(cases) || ' ' || verdict, 'a planted fault was not found', ''
  FROM c_verdicts WHERE self_check AND failure AND suite = 'faults'
    AND NOT EXISTS (SELECT 1 FROM main.v_faults WHERE run_id IN (SELECT id FROM c_run) AND NOT found)
  GROUP BY suite, verdict)";

}  // namespace lockstep::gate
