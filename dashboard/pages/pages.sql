-- SPDX-License-Identifier: Apache-2.0
-- The pages of the site, each with one question on top, and the panels that only make sense with links; in the form of
-- report/panels.sql, and of a page:
--   page PATH: TITLE      PATH: after the name of the database ("-": the first one); a TITLE in parentheses is not in
--                         the navigation
--   question
--   answer                a query whose row has a text, status ("ok", "warn", "bad" or "") and headline, and markup
--                         below
--   parameters NAME …     whose values are the ?1, ?2 … of the answer and of the panels
--   missing               what is said, with 404, where the answer has no row
--   section PANEL: TITLE  a panel, with a title other than its own if there is one

--# page -: Overview
--# question Is it equal, and since when?
--# answer
WITH told AS (SELECT *, failures = 0 AND nondeterministic = 0 AND cases > 0 AS good FROM v_commits),
newest AS (SELECT * FROM told ORDER BY position DESC LIMIT 1),
same AS (SELECT * FROM told WHERE position > coalesce((
  SELECT max(position) FROM told WHERE good <> (SELECT good FROM newest)), 0)),
since AS (SELECT *, (SELECT count(*) FROM same) AS commits FROM same ORDER BY position LIMIT 1)
SELECT CASE WHEN n.failures > 0 THEN 'bad No: ' || plural(n.failures, 'case fails.', 'cases fail.')
            WHEN n.nondeterministic > 0 THEN 'bad No: ' ||
              plural(n.nondeterministic, 'case does not repeat itself.', 'cases do not repeat themselves.')
            WHEN n.cases = 0 THEN 'warn Not measured: the newest commit has no case.'
            WHEN n.unfinished THEN 'warn Yes, so far: every case is equal or explained.'
            ELSE 'ok Yes: every case is equal or explained.' END,
       html('It has been so since commit ', el('code', cut(s.commit_id, 16)), ' of ', at(s.time), ', for ',
            plural(s.commits, 'commit', 'commits'),
            iif(s.commits = (SELECT count(*) FROM told), ', as far back as this store goes', ''), '.')
FROM newest n, since s
UNION ALL SELECT 'warn Nothing was recorded.', html(el('code', 'lockstep run --db …'), ' fills this store.')
WHERE NOT EXISTS (SELECT 1 FROM v_commits)
--# section hero:
--# section judgement: What the gate decided last
--# section verdicts:
--# section buckets: Failures by bucket
--# section commits:

--# page failures: Failures
--# question What fails, since when, and how do I repeat it?
--# answer
SELECT CASE WHEN failing = 0 AND waiting > 0 THEN 'warn ' WHEN failing = 0 THEN 'ok ' ELSE 'bad ' END ||
  iif(failing = 0, 'Nothing fails', plural(failing, 'bucket fails', 'buckets fail')) || ' at the newest commit.'
FROM (SELECT total(state IN ('new', 'regressed', 'active')) AS failing, total(state = 'incubating') AS waiting
      FROM v_buckets)
--# parameters state
--# section buckets: Buckets, and their life
--# section failures: In the runs shown here

--# page bucket: (Bucket)
--# question What is this failure, since when, and how do I repeat it?
--# answer
SELECT CASE WHEN state IN ('fixed', 'muted') THEN 'ok ' WHEN state = 'incubating' THEN 'warn ' ELSE 'bad ' END ||
         words(verdict) || ': ' || cut(op, 80) || ' on ' || cut(placement, 60),
       html(state(state), ' First seen at ', el('code', cut(first_commit, 16)), ', last at ',
            el('code', cut(last_commit, 16)), '; ', plural(clean_commits, 'clean commit', 'clean commits'), ' since; ',
            plural(cases, 'case', 'cases'), '.', ' Muted by ' || owner || ' until ' || expires || ': ' || reason)
FROM v_buckets WHERE content_id(bucket) = ?1
--# parameters id
--# missing No bucket of this store has this id.
--# section repeat-bucket:
--# section bucket-differences:
--# section bucket-history:
--# section bucket-cases:

--# page matrix: Matrix
--# question Which operator fails on which placement and which mesh?
--# answer
SELECT iif(n = 0, 'ok No operator fails anywhere.', 'bad ' ||
           plural(n, 'operator fails somewhere.', 'operators fail somewhere.'))
FROM (SELECT count(DISTINCT op) AS n FROM v_matrix
      WHERE run_id IN shown AND verdict IN (SELECT name FROM verdict WHERE failure))

--# page cases: Cases
--# question Which cases ran, and what did each say?

--# page case: (Case)
--# question What did this case say, and how do I repeat it?
--# answer
SELECT ' ' || plural(n, 'outcome', 'outcomes') FROM (SELECT count(*) AS n FROM cases WHERE key = from_hex(?1))
WHERE n > 0
--# parameters key
--# missing No case of this store has this key.
--# section repeat-case:
--# section outcomes:

--# page curves: Curves
--# question Does training follow the curve of one device, and where does it leave it?
--# answer
SELECT CASE WHEN curves = 0 THEN 'warn No curve was compared.'
            ELSE CASE WHEN unexplained > 0 THEN 'bad ' WHEN identical = curves THEN 'ok ' ELSE ' ' END ||
                 grouped(identical) || ' of ' || plural(curves, 'curve keeps', 'curves keep') ||
                 ' the bits of the reference throughout.' END
FROM (SELECT count(*) AS curves, total(first_differing_step IS NULL) AS identical,
             total(unexplained > 0) AS unexplained FROM v_curve_diff WHERE run_id IN shown)
--# section curves:
--# section drift: Drift
--# section divergence:

--# page performance: Performance
--# question Did it become slower, and since which commit?
--# answer
SELECT CASE WHEN series = 0 THEN 'warn Nothing was measured.'
            WHEN slower > 0 THEN 'bad ' || plural(slower, 'series is worse.', 'series are worse.')
            WHEN NOT judged THEN 'warn ' || plural(series, 'series', 'series') || ' measured, none judged yet.'
            WHEN unmeasured > 0
              THEN 'warn ' || plural(unmeasured, 'series was', 'series were') || ' not measured well enough to say.'
            ELSE 'ok No series is slower.' END
FROM (SELECT (SELECT count(DISTINCT series) FROM v_series) AS series,
             EXISTS (SELECT 1 FROM v_series_verdicts) AS judged,
             total(verdict IN ('slower', 'changed')) AS slower, total(verdict = 'not measured') AS unmeasured
      FROM v_series_verdicts WHERE judgement = (SELECT judgement FROM newest_judgement))
--# section series: Series over commits
--# section throughput: Throughput of the runs shown here

--# page series: (Series)
--# question How did this series move, and when?
--# answer
SELECT ' ' || cut(series, 120) FROM points WHERE series = ?1 LIMIT 1
--# parameters name
--# missing No series of this store has this name.
--# section one-series:
--# section one-series-levels:
--# section one-series-judged:

--# page coverage: Coverage
--# question What was covered, and what was never seen?
--# answer
SELECT CASE WHEN ops = 0 THEN 'warn Nothing was covered.'
            WHEN gaps > 0 THEN 'warn ' || plural(gaps, 'op was never reached.', 'ops were never reached.')
            ELSE 'ok ' || plural(ops, 'op was reached, none is missing.', 'ops were reached, none is missing.') END
FROM (SELECT (SELECT count(*) FROM v_coverage_gaps WHERE run_id IN shown AND kind = 'op') AS gaps,
             (SELECT count(DISTINCT op) FROM v_coverage WHERE run_id IN shown) AS ops)
--# section coverage:

--# page checks: Self-checks
--# question Would this harness notice a bug?
--# answer
SELECT iif(planted = 0, 'warn Not measured: no fault was planted.', iif(found = planted, 'ok ', 'bad ') ||
           grouped(found) || ' of ' || plural(planted, 'planted fault was found.', 'planted faults were found.'))
FROM (SELECT count(*) AS planted, total(found) AS found FROM v_faults WHERE run_id IN shown)
--# section faults:
--# section goldens:
--# section exceptions:
--# section refusals:

--# page gate: Gate
--# question What did the gate decide, and why?
--# answer
SELECT coalesce((SELECT iif(exit_code = 0, 'ok The newest judgement passed.', 'bad The newest judgement is red.')
                 FROM v_judgements JOIN newest_judgement USING (judgement)), 'warn No judgement is stored.')
--# section judgement: The newest judgement
--# section judgements:
--# section blessings:

--# page judgement: (Judgement)
--# question What did the gate find?
--# answer
SELECT iif(exit_code = 0, 'ok It passed.', 'bad It is red, with code ' || exit_code || '.') FROM v_judgements
WHERE judgement = CAST(?1 AS INTEGER)
--# parameters id
--# missing No judgement of this store has this number.
--# section judgement: Findings
--# section policy:

--# page runs: Runs
--# question Which runs are in this store, and how do two of them differ?
--# answer
SELECT ' ' || plural(count(*), 'run', 'runs') FROM v_summary
--# parameters commit page
--# section runs:

--# page environment: Environment
--# question Where did this run, and with what?
--# answer
SELECT iif(n = 0, 'ok The runs shown here had one environment.',
           'warn ' || plural(n, 'fact differs between these runs.', 'facts differ between these runs.'))
FROM (SELECT count(*) AS n FROM (SELECT name FROM v_environment WHERE run_id IN shown GROUP BY name
                                 HAVING count(DISTINCT value) > 1))
--# section environment:

-- What a page speaks about. ?1: whether it is one run.
--# panel scope:
--# text {SELECT CASE WHEN runs = 0 THEN 'no run yet' WHEN ?1 THEN 'run ' || cut(run, 60) ELSE 'newest build ' ||
cut(build, 12) || ', ' || plural(runs, 'run', 'runs') END, iif(runs = 0, '', ', ' || plural(cases, 'case', 'cases') ||
', ' || at(time)) FROM (SELECT count(*) AS runs, max(run) AS run, max(build_hash) AS build, coalesce(sum(cases), 0) AS
cases, max(time) AS time FROM v_summary WHERE run_id IN shown)}

--# panel commits: Commit by commit
--# draw trend
--# table Commits, the newest first
SELECT el('code', cut(commit_id, 16)) AS "Commit", at(time) AS "First measured",
       html(iif(cases = 0, el('span.quiet', 'no case'),
                yes_no(failures = 0 AND nondeterministic = 0, 'equal or explained', 'red')),
            iif(unfinished, html(' ', el('span.quiet', 'unfinished')), '')) AS Outcome,
       cases AS "#Cases", failures AS "#Failures", nondeterministic AS "#Not repeatable",
       coalesce(exit_codes, '') AS "Exit codes", link(runs, 'runs', 'commit', commit_id) AS "#Runs"
FROM v_commits ORDER BY position DESC LIMIT 60
--# after {SELECT el('p.quiet', n - ?9, ' older commits are in the view v_commits.') FROM (SELECT count(*) AS n FROM
v_commits) WHERE n > ?9}

--# panel repeat-bucket: How to repeat it
--# list - div
SELECT el('p', iif(explanation = '', 'No explanation was recorded.', explanation)),
       el('p.quiet', 'Suite ', suite, ' · law: ', law, ' · mesh ', mesh, ' · ', dtype, ' · bucket ',
          el('code.wrap', cut(bucket, 400))),
       iif(program = '', '', code_block('program', 'Program', program)),
       code_block('replay', 'Replay', replay), code_block('token', 'Token', token)
FROM v_buckets WHERE content_id(bucket) = ?1

--# panel bucket-differences: What differs
--# list - div
SELECT panel('differences', f.case_id, 20) FROM v_buckets b
JOIN v_failures f ON f.run_id = b.run_id AND f.bucket = b.bucket WHERE content_id(b.bucket) = ?1

-- Commit by commit: did it fail, did it pass its replay, or does the commit say nothing?
--# panel bucket-history: Commit by commit
--# table History by commit
WITH it AS MATERIALIZED (SELECT bucket FROM v_buckets WHERE content_id(bucket) = ?1),
failing AS (SELECT r.commit_id, count(DISTINCT c.key) AS cases FROM run r CROSS JOIN cases c
  ON c.run = r.id AND c.bucket = (SELECT bucket FROM it) AND c.bucket <> '' AND NOT c.self_check GROUP BY r.commit_id),
clean AS (SELECT DISTINCT r.commit_id FROM v_replayed y JOIN run r ON r.id = y.run_id
  WHERE y.bucket = (SELECT bucket FROM it) AND y.now <> y.bucket)
SELECT el('code', cut(v.commit_id, 16)) AS "Commit", at(v.time) AS "First measured",
       CASE WHEN f.cases > 0 THEN yes_no(0, '', 'fails') WHEN k.commit_id IS NOT NULL
            THEN yes_no(1, 'passed its replay', '') ELSE el('span.quiet', '· not replayed') END AS Bucket,
       coalesce(f.cases, 0) AS "#Cases"
FROM v_commits v LEFT JOIN failing f ON f.commit_id = v.commit_id LEFT JOIN clean k ON k.commit_id = v.commit_id
ORDER BY v.position DESC LIMIT 200

--# panel bucket-cases: Its cases
--# table Cases of the bucket
SELECT link(el('code.wrap', cut(c.token, 200)), 'case', 'key', hex(c.key)) AS "Case", cut(r.name, 60) AS Run,
       c.mesh AS Mesh, c.dtype AS Dtype
FROM run r CROSS JOIN cases c ON c.run = r.id AND c.bucket <> ''
  AND c.bucket = (SELECT bucket FROM v_buckets WHERE content_id(bucket) = ?1)
ORDER BY r.id DESC, length(c.token) LIMIT 50

--# panel repeat-case: How to repeat it
--# list - div
SELECT code_block('replay', 'Replay', replay)
FROM v_cases WHERE case_id IN (SELECT id FROM cases WHERE key = from_hex(?1)) LIMIT 1

--# panel outcomes: Outcome
--# list - div.group
SELECT el('p', chip(verdict), ' in run ', link(cut(run, 60), '', 'run', run_id)),
  iif(explanation = '', '', el('p', cut(explanation, 4000))),
  el('dl.facts', fact('Suite', suite), fact('Law', law), fact('Variant', variant), fact('Op', op),
     fact('Placement', placement), fact('Mesh', mesh), fact('Evenness', evenness), fact('Dtype', dtype),
     fact('Made', how), fact('Took', took(seconds)), fact('Moved', size(bytes_moved))),
  coalesce(nullif(panel('differences', case_id, 100), x''), el('p.empty', iif(verdict = 'equal',
    'Every bit of every tensor on every rank is equal.', 'No tensor was recorded as different.'))),
  iif(bucket = '', '', el('p', 'Bucket ', link(el('code.wrap', cut(bucket, 200)), 'bucket', 'id', content_id(bucket))))
FROM v_cases WHERE case_id IN (SELECT id FROM cases WHERE key = from_hex(?1)) ORDER BY severity DESC, run_id

-- ?1: JSON, [[op, mesh, verdict, cases], …].
--# panel matrix-by-mesh:
--# text {DELETE FROM squares}{INSERT OR IGNORE INTO squares SELECT json_extract(value, '$[0]'), json_extract(value,
'$[1]'), v.name, severity, json_extract(value, '$[3]') FROM json_each(?1) JOIN verdict v ON v.name = json_extract(value,
'$[2]')} {SELECT el('p', 'Each square is the worst verdict of the cases on a mesh that contain the op; another op of the
case may be ' || 'to blame.') WHERE EXISTS (SELECT 1 FROM squares)}{SELECT panel('squares', 'mesh', 'mesh')}

-- Those with the numbers in the JSON ?1.
--# panel cases-of:
--# table Cases
SELECT link(el('code.wrap', cut(token, 120)), 'case', 'key', c.key) AS "Case", chip(verdict) AS Verdict,
       cut(suite, 60) AS Suite, el('code.wrap', cut(coalesce(nullif(op, ''), ops), 120)) AS Op,
       el('code', cut(placement, 40)) AS Placement, cut(mesh, 40) AS Mesh, cut(dtype, 20) AS Dtype,
       took(seconds) AS "#Took"
FROM json_each(?1) i CROSS JOIN v_cases c ON c.case_id = i.value ORDER BY c.case_id

--# panel one-series: Commit by commit
--# text <p>{SELECT kind, ', less is ', iif(better = 'less', 'better', 'worse'), ', ', plural(count(*) OVER (), 'run',
'runs') FROM points WHERE series = ?1 LIMIT 1}. The line is the median of each run, the band the range of its
samples.</p>
--# draw one-series
--# table Points of the series
SELECT el('code', cut(commit_id, 16)) AS "Commit", at(time) AS Measured, html(brief(value), ' ', unit) AS "#Median",
       low AS "#Lowest", high AS "#Highest", samples AS "#Samples", judged(coalesce(verdict, '')) AS "The gate says"
FROM points WHERE series = ?1 ORDER BY time DESC, run_id DESC LIMIT 500

--# panel one-series-levels: Where it changed its level
--# table Changes of level
SELECT "Since commit", Measured, "#Before", "#After", "#Change", "#p" FROM level_changes WHERE series = ?1 ORDER BY n
--# none No change of level was found on the machine that measured last.
--# text <p class="quiet">E-divisive over the last {SELECT plural(min(count(*), 200), 'run', 'runs') FROM history WHERE
series = ?1} of the machine that measured last; a level has at least 5 runs, so one that began with the newest 4 is not
seen yet.</p>

--# panel one-series-judged: What the gate said of it
--# table Judgements of the series
SELECT link(at(time), 'judgement', 'id', judgement) AS Judged, says AS Verdict, Against, "#Ratio", "#Interval",
       "#p, corrected", "#Smallest effect it can see", "#False alarms"
FROM compared_series WHERE series = ?1 ORDER BY time DESC LIMIT 100
--# none The gate never compared this series. <code>lockstep gate</code> does.

--# panel policy: Policy in force
--# list - div
SELECT code_block('policy-text', 'Policy', policy) FROM v_judgements WHERE judgement = CAST(?1 AS INTEGER)

--# panel judgements: All judgements
--# table Judgements, the newest first
SELECT link(at(time), 'judgement', 'id', judgement) AS Judged,
       yes_no(exit_code = 0, 'passed', 'code ' || exit_code) AS Outcome, el('code', cut(commit_id, 16)) AS "Commit",
       blocking AS "#Blocking", warnings AS "#Warnings", findings AS "#Findings",
       el('code.wrap', cut(candidate, 80)) AS Candidate, el('code.wrap', cut(baseline, 80)) AS Baseline
FROM v_judgements ORDER BY time DESC, judgement DESC LIMIT 200
--# none There is none yet.

--# panel blessings: Blessed changes
--# table Blessed changes
SELECT rule AS Rule, el('span.wrap', cut(subject, 200)) AS Subject, cut(got, 120) AS Value, cut(reason, 400) AS Reason,
       blessed_by AS "By", at(time) AS "When" FROM v_blessings ORDER BY time DESC LIMIT 200
--# none Nobody blessed a change. <code>lockstep bless</code> does, with a reason.

--# panel runs: Runs
--# table Runs, the newest first
WITH listed AS (
  SELECT *, row_number() OVER (ORDER BY time DESC, run) - 1 AS n FROM v_summary WHERE ?1 = '' OR commit_id = ?1),
page AS (SELECT 100 * (min(max(CAST(?2 AS INTEGER), 1), 1000000) - 1) AS first)
SELECT link(cut(run, 60), '', 'run', run_id) AS Run,
       html(pick('a', 'first', run_id, run, n - first = 1), ' ', pick('b', 'second', run_id, run, n = first)) AS
         Compare,
       html(state, ', code ' || exit_code) AS State, cases AS "#Cases",
       iif(failures > 0, el('span.no', '✗ ', failures), 0) AS "#Failures", el('code', cut(commit_id, 16)) AS "Commit",
       at(time) AS Started, took(seconds) AS "#Took", el('code.wrap', cut(command, 160)) AS Command
FROM listed, page WHERE n >= first ORDER BY n LIMIT 100
--# none No run is here. <code>lockstep run --db …</code> makes one.
--# before <form method="get" action="/compare" aria-label="Compare two runs"><p>Choose a first and a second run, then
<button type="submit">Compare them</button></p>
--# after </form>{SELECT el('p', link('Older runs', 'runs', 'page', page + 1, 'commit', ?1)) FROM ( SELECT
min(max(CAST(?2 AS INTEGER), 1), 1000000) AS page, (SELECT count(*) FROM v_summary WHERE ?1 = '' OR commit_id = ?1) AS
runs) WHERE runs > 100 * page}

-- ?1: JSON, [[name, file, newest commit, whether it is equal, cases, what it is without one], …].
--# panel databases: Databases
--# table Databases
SELECT el('a href="/db/' || json_extract(value, '$[0]') || '/"', json_extract(value, '$[0]')) AS Database,
       el('code.wrap', json_extract(value, '$[1]')) AS File,
       el('code', cut(json_extract(value, '$[2]'), 16)) AS "Newest commit",
       coalesce(yes_no(json_extract(value, '$[3]'), 'equal or explained', 'red'),
                el('span.quiet', json_extract(value, '$[5]'))) AS Outcome,
       json_extract(value, '$[4]') AS "#Cases" FROM json_each(?1)

-- Of two runs: what each found, and in what they differ. compare.cpp fills the table `fact`.
--# view
CREATE TEMP VIEW IF NOT EXISTS pair AS
SELECT kind, name, max(unit) AS unit, max(value) FILTER (WHERE run = 0) AS a, max(value) FILTER (WHERE run = 1) AS b,
       coalesce(max(value) FILTER (WHERE run = 1), 0) - coalesce(max(value) FILTER (WHERE run = 0), 0) AS more
FROM temp.fact GROUP BY kind, name;
CREATE TEMP VIEW IF NOT EXISTS pair_texts AS
SELECT kind, name, cut(name, 80) AS Fact, el('span.wrap', nullif(cut(a, 300), '')) AS "First run",
       el('span.wrap', nullif(cut(b, 300), '')) AS "Second run",
       iif(a IS b, el('span.quiet', 'same'), el('span.differs', '≠ differs')) AS Same FROM pair;
CREATE TEMP VIEW IF NOT EXISTS pair_counts AS
SELECT kind, name, coalesce(a, 0) AS "#First run", coalesce(b, 0) AS "#Second run", more,
       iif(more = 0, el('span.quiet', 'same'), iif(more > 0, '+', '−') || grouped(abs(more))) AS "#Difference" 
FROM pair;

--# panel compared: The two runs
--# table The two runs
SELECT Fact, "First run", "Second run", Same FROM pair_texts WHERE kind = 'summary' ORDER BY name

--# panel compared-verdicts: Verdicts
--# table Verdicts
SELECT chip(name) AS Verdict, "#First run", "#Second run", "#Difference" FROM pair_counts WHERE kind = 'verdict'
ORDER BY name
--# none Neither has any.

--# panel compared-buckets: Buckets
--# table Only in the first run
SELECT el('span.wrap', cut(name, 200)) AS Bucket, a AS "#Count" FROM pair WHERE kind = 'bucket' AND b IS NULL
ORDER BY name LIMIT 100
--# none Only in the first run: nothing.
--# before <h3>Only in the first run</h3>
--# table Only in the second run
SELECT el('span.wrap', cut(name, 200)) AS Bucket, b AS "#Count" FROM pair WHERE kind = 'bucket' AND a IS NULL
ORDER BY name LIMIT 100
--# none Only in the second run: nothing.
--# before <h3>Only in the second run</h3>

--# panel compared-coverage: Coverage
--# table Covered only by the first run
SELECT el('span.wrap', cut(name, 200)) AS "Op and placement", a AS "#Count" FROM pair WHERE kind = 'tuple' AND b IS NULL
ORDER BY name LIMIT 100
--# none Covered only by the first run: nothing.
--# before <h3>Covered only by the first run</h3>
--# after {SELECT el('p.quiet', n - ?9, ' more.') FROM ( SELECT count(*) AS n FROM pair WHERE kind = 'tuple' AND b IS
NULL) WHERE n > ?9}
--# table Covered only by the second run
SELECT el('span.wrap', cut(name, 200)) AS "Op and placement", b AS "#Count" FROM pair WHERE kind = 'tuple' AND a IS NULL
ORDER BY name LIMIT 100
--# none Covered only by the second run: nothing.
--# before <h3>Covered only by the second run</h3>
--# after {SELECT el('p.quiet', n - ?9, ' more.') FROM ( SELECT count(*) AS n FROM pair WHERE kind = 'tuple' AND a IS
NULL) WHERE n > ?9}

--# panel compared-labels: Labels that differ
--# table Labels
SELECT el('span.wrap', cut(name, 200)) AS Label, "#First run", "#Second run", "#Difference" FROM pair_counts
WHERE kind = 'label' AND more <> 0 ORDER BY name LIMIT 100
--# good The two agree.
--# after {SELECT el('p.quiet', n - ?9, ' more differ.') FROM ( SELECT count(*) AS n FROM pair WHERE kind = 'label' AND
more <> 0) WHERE n > ?9}

--# panel compared-rates: Rates
--# table Rates
SELECT cut(name, 120) AS What, brief(a) || ' ' || unit AS "#First run", brief(b) || ' ' || unit AS "#Second run",
       iif(a = 0, NULL, b / a) AS "#Second / first" FROM pair WHERE kind = 'rate' ORDER BY name LIMIT 400
--# none Neither was timed.

--# panel compared-environment: Environment
--# table Environment
SELECT Fact, "First run", "Second run", Same FROM pair_texts WHERE kind = 'environment' ORDER BY name
