// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/queries.h"

namespace lockstep::gate {

// c_failures, b_failures: buckets of v_failures; b_buckets: the life of all buckets that the baseline's file
// knows.

const char* const kHarnessErrors = R"(
  SELECT bucket AS subject, 'no case breaks the harness' AS expected, cases || ' broken' AS got,
         first_line(explanation) AS detail, replay
  FROM c_failures WHERE verdict = 'broken')";

const char* const kNewDifferences = R"(
  SELECT f.bucket AS subject, 'no failure' AS expected, 'different' AS got,
         f.cases || iif(f.cases = 1, ' case', ' cases') ||
         iif(k.bucket IS NULL, '', ', seen before: last at ' || k.last_commit) ||
         ': ' || first_line(f.explanation) AS detail, f.replay
  FROM c_failures f LEFT JOIN b_buckets k ON k.bucket = f.bucket
  WHERE f.verdict = 'different' AND f.suite <> 'golden' AND coalesce(k.state, '') <> 'fixed'
    AND f.bucket NOT IN (SELECT bucket FROM b_failures))";

const char* const kRegressed = R"(
  SELECT f.bucket AS subject, 'fixed since ' || k.last_commit AS expected, f.verdict AS got,
         f.cases || ' cases fail again after ' || k.clean_commits || ' clean commits: ' ||
         first_line(f.explanation) AS detail, f.replay
  FROM c_failures f JOIN b_buckets k ON k.bucket = f.bucket
  WHERE k.state = 'fixed' AND f.verdict = 'different' AND f.suite <> 'golden'
    AND f.bucket NOT IN (SELECT bucket FROM b_failures))";

const char* const kCrashes = R"(
  SELECT bucket AS subject, 'no crash' AS expected, 'crashed' AS got,
         cases || iif(cases = 1, ' case', ' cases') || ': ' || first_line(explanation) AS detail, replay
  FROM c_failures WHERE verdict = 'crashed' AND bucket NOT IN (SELECT bucket FROM b_failures))";

const char* const kHangs = R"(
  SELECT bucket AS subject, 'no hang' AS expected, 'hung' AS got,
         cases || iif(cases = 1, ' case', ' cases') || ': ' || first_line(explanation) AS detail, replay
  FROM c_failures WHERE verdict = 'hung' AND bucket NOT IN (SELECT bucket FROM b_failures))";

const char* const kGoldenMismatches = R"(
  SELECT bucket AS subject, 'the golden' AS expected, 'different' AS got, first_line(explanation) AS detail,
      replay
  FROM c_failures WHERE suite = 'golden' AND verdict = 'different'
    AND bucket NOT IN (SELECT bucket FROM b_failures))";

const char* const kKnownDifferences = R"(
  SELECT f.bucket AS subject, 'mended or muted' AS expected, f.verdict AS got,
         f.cases || iif(f.cases = 1, ' case', ' cases') || ', as in the baseline' ||
         coalesce(' since ' || k.first_commit, '') || ': ' || first_line(f.explanation) AS detail, f.replay
  FROM c_failures f JOIN b_failures b ON b.bucket = f.bucket LEFT JOIN b_buckets k ON k.bucket = f.bucket
  WHERE f.verdict IN ('different', 'crashed', 'hung'))";

// Within the candidate; and, where baseline and candidate are one binary, between the two.
const char* const kNondeterminismQuery = R"(
  SELECT bucket AS subject, 'one outcome' AS expected, 'nondeterministic' AS got,
         cases || iif(cases = 1, ' case', ' cases') || ': ' || first_line(explanation) AS detail, replay
  FROM c_failures WHERE verdict = 'nondeterministic'
  UNION ALL
  SELECT n.suite || ': ' || shortened(n.what), 'one outcome', n.outcomes || ' outcomes',
         'the same binary, seed and case came out as ' || n.verdicts,
         iif(n.suite = 'train', '', 'lockstep replay ' || shell_quoted(n.what))
  FROM main.v_nondeterminism n WHERE n.run_id IN (SELECT id FROM c_run)
  UNION ALL
  SELECT series, expected, got, detail, '' FROM speed WHERE reason = 'nondeterministic'
  UNION ALL
  SELECT c.suite || ': ' || shortened(c.token), b.verdict, c.verdict,
         'the same binary and case came out otherwise than in the baseline',
         'lockstep replay ' || shell_quoted(c.token)
  FROM (SELECT 1 WHERE EXISTS (SELECT 1 FROM b_run x JOIN c_run y ON x.build_hash = y.build_hash)) same
  JOIN base.cases b JOIN b_run ON b_run.id = b.run
  JOIN main.cases c ON c.key = b.key AND c.outcome <> b.outcome JOIN c_run ON c_run.id = c.run)";

}  // namespace lockstep::gate
