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
