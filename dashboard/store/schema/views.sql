-- SPDX-License-Identifier: Apache-2.0
-- The public interface of a store: README.md documents every column. Tables may change behind these views.
-- They are dropped and created anew by each migration. Each begins with run_id, run (its printed name).

-- The cases of the file and those that `lockstep prune` removed.
CREATE VIEW v_verdicts AS
SELECT r.id AS run_id, r.name AS run, c.suite, c.self_check, c.verdict, v.severity, v.failure,
       sum(c.cases) AS cases, sum(c.time_ns) / 1e9 AS seconds, sum(c.bytes_moved) AS bytes_moved,
       sum(c.kept) AS kept
FROM (SELECT run, suite, self_check, verdict, count(*) AS cases, sum(time_ns) AS time_ns,
             sum(bytes_moved) AS bytes_moved, count(*) AS kept
      FROM cases GROUP BY run, suite, self_check, verdict
      UNION ALL SELECT run, suite, self_check, verdict, cases, time_ns, bytes_moved, 0 FROM pruned) c
JOIN run r ON r.id = c.run JOIN verdict v ON v.name = c.verdict
GROUP BY r.id, c.suite, c.self_check, c.verdict;

-- Cases in which the harness checks itself (planted faults, the canary) are counted in `self_checks` alone.
CREATE VIEW v_summary AS
SELECT r.id AS run_id, r.name AS run, r.command, printf('%llu', r.seed) AS seed, r.numerics, r.state,
       r.exit_code, r.build_hash, r.commit_id, r.started_ms / 1000 AS time,
       (r.ended_ms - r.started_ms) / 1000.0 AS seconds,
       coalesce(sum(c.cases) FILTER (WHERE NOT c.self_check), 0) AS cases,
       coalesce(sum(c.cases) FILTER (WHERE c.verdict = 'equal' AND NOT c.self_check), 0) AS equal,
       coalesce(sum(c.cases) FILTER (WHERE c.verdict LIKE 'explained%' AND NOT c.self_check), 0) AS explained,
       coalesce(sum(c.cases) FILTER (WHERE c.verdict = 'different' AND NOT c.self_check), 0) AS different,
       coalesce(sum(c.cases) FILTER (WHERE c.verdict = 'crashed' AND NOT c.self_check), 0) AS crashed,
       coalesce(sum(c.cases) FILTER (WHERE c.verdict = 'hung' AND NOT c.self_check), 0) AS hung,
       coalesce(sum(c.cases) FILTER (WHERE c.verdict = 'nondeterministic' AND NOT c.self_check), 0)
         AS nondeterministic,
       coalesce(sum(c.cases) FILTER (WHERE c.verdict = 'broken' AND NOT c.self_check), 0) AS broken,
       coalesce(sum(c.cases) FILTER (WHERE c.verdict = 'gave_up' AND NOT c.self_check), 0) AS gave_up,
       coalesce(sum(c.cases) FILTER (WHERE c.verdict = 'expected_exception' AND NOT c.self_check), 0)
         AS expected_exceptions,
       coalesce(sum(c.cases) FILTER (WHERE c.failure AND NOT c.self_check), 0) AS failures,
       (SELECT count(DISTINCT bucket) FROM cases WHERE run = r.id AND bucket <> '' AND NOT self_check) AS buckets,
       coalesce(sum(c.cases) FILTER (WHERE c.self_check), 0) AS self_checks,
       (SELECT count(DISTINCT op) FROM coverage WHERE run = r.id) AS ops,
       coalesce(sum(c.bytes_moved) FILTER (WHERE NOT c.self_check), 0) AS bytes_moved,
       r.engine, r.version AS engine_version
FROM run r LEFT JOIN v_verdicts c ON c.run_id = r.id
GROUP BY r.id;

CREATE VIEW v_plan AS
SELECT r.id AS run_id, r.name AS run, p.kind, p.name, p.least, coalesce(s.got, l.got, 0) AS got,
       coalesce(s.got, l.got, 0) >= p.least AS met
FROM plan_item p JOIN run r ON r.id = p.run
LEFT JOIN (SELECT run, suite, sum(got) AS got
           FROM (SELECT run, suite, count(DISTINCT key) AS got FROM cases GROUP BY run, suite
                 UNION ALL SELECT run, suite, cases FROM pruned) GROUP BY run, suite) s
       ON p.kind = 'suite' AND s.run = p.run AND s.suite = p.name
LEFT JOIN (SELECT run, label, sum(hits) AS got FROM label GROUP BY run, label) l
       ON p.kind = 'label' AND l.run = p.run AND l.label = p.name;

CREATE VIEW v_gates AS
SELECT r.id AS run_id, r.name AS run, g.rule, g.required, g.got, g.passed
FROM gate g JOIN run r ON r.id = g.run;

CREATE VIEW v_matrix AS
SELECT r.id AS run_id, r.name AS run, c.op, c.placement, c.mesh_rank, c.verdict, v.severity, sum(c.hits) AS hits
FROM coverage c JOIN run r ON r.id = c.run JOIN verdict v ON v.name = c.verdict
GROUP BY r.id, c.op, c.placement, c.mesh_rank, c.verdict;

-- Every case with every outcome that it had; look one up by case_id.
CREATE VIEW v_cases AS
SELECT r.id AS run_id, r.name AS run, c.id AS case_id, hex(c.key) AS key, c.number, c.suite, c.law, c.variant,
       c.self_check, c.token, c.ops, c.mesh, c.verdict, v.severity, v.failure, c.op, c.placement, c.mesh_rank,
       c.evenness, c.dtype, c.how, c.time_ns / 1e9 AS seconds, c.bytes_moved, c.bucket, c.explanation,
       'lockstep replay ''' || replace(c.token, '''', '''\''''') || '''' || r.replay ||
       iif(c.variant = '', '', ' --fault ' || c.variant) AS replay
FROM cases c JOIN run r ON r.id = c.run JOIN verdict v ON v.name = c.verdict;

-- With a single min() the bare columns are those of the row that holds the minimum: the shortest token.
CREATE VIEW v_failures AS
SELECT r.id AS run_id, r.name AS run, b.bucket, b.suite, b.law, b.variant, b.verdict, b.op, b.placement,
       b.mesh, b.dtype, b.cases, coalesce(f.token, b.token) AS token, coalesce(f.program, '') AS program,
       f.ops, f.shrink_steps, f.budget_ended, b.explanation, b.case_id,
       'lockstep replay ''' || replace(coalesce(f.token, b.token), '''', '''\''''') || '''' || r.replay ||
       iif(b.variant = '', '', ' --fault ' || b.variant) AS replay
FROM (SELECT c.run, c.bucket, c.id AS case_id, c.suite, c.law, c.variant, c.verdict, c.op, c.placement,
             c.mesh, c.dtype, c.token, c.explanation, count(DISTINCT c.key) AS cases,
             min(printf('%09d', length(c.token)) || c.token) AS shortest
      FROM cases c JOIN verdict v ON v.name = c.verdict
      WHERE v.failure AND NOT c.self_check AND c.bucket <> ''
      GROUP BY c.run, c.bucket) b
JOIN run r ON r.id = b.run LEFT JOIN failure f ON f.run = b.run AND f.bucket = b.bucket;

CREATE VIEW v_diffs AS
SELECT r.id AS run_id, r.name AS run, d.case_id, c.token, c.suite, c.verdict, c.bucket, d.seq, d.value,
       d.bit_class, d.dtype, d.elements, d.different, d.max_ulp, d.max_abs_bits, d.first_index, d.rank,
       d.local_index, d.expected_bits, d.actual_bits, d.float64_bits, d.bound_bits, d.explained_by
FROM tensor_diff d JOIN cases c ON c.id = d.case_id JOIN run r ON r.id = c.run;

-- The same build, lane, seed and token came out in more than one way, within a run or across runs; or a
-- training step did.
CREATE VIEW v_nondeterminism AS
SELECT max(v.run_id) AS run_id, v.run, c.suite, c.token AS what, count(DISTINCT c.outcome) AS outcomes,
       group_concat(DISTINCT c.verdict) AS verdicts, v.replay
FROM (SELECT key FROM cases GROUP BY key HAVING count(DISTINCT outcome) > 1) k
JOIN cases c ON c.key = k.key JOIN v_cases v ON v.case_id = c.id
GROUP BY c.key
UNION ALL
SELECT r.id, r.name, 'train', k.name || ' at step ' || p.step, count(*), '', ''
FROM curve_point p JOIN curve k ON k.id = p.curve JOIN run r ON r.id = k.run
GROUP BY p.curve, p.step HAVING count(*) > 1;

CREATE VIEW v_labels AS
SELECT r.id AS run_id, r.name AS run, l.label, sum(l.hits) AS hits
FROM label l JOIN run r ON r.id = l.run GROUP BY r.id, l.label;

CREATE VIEW v_coverage AS
SELECT r.id AS run_id, r.name AS run, c.op, c.placement, c.mesh_rank, c.evenness, sum(c.hits) AS hits
FROM coverage c JOIN run r ON r.id = c.run
GROUP BY r.id, c.op, c.placement, c.mesh_rank, c.evenness;

-- What was seen, but never together; and ops that were expected and never seen.
CREATE VIEW v_coverage_gaps AS
WITH axis AS (SELECT DISTINCT run, 'placement' AS kind, placement AS value FROM coverage
              UNION ALL SELECT DISTINCT run, 'mesh rank', CAST(mesh_rank AS TEXT) FROM coverage
              UNION ALL SELECT DISTINCT run, 'evenness', evenness FROM coverage),
     seen AS (SELECT run, 'placement' AS kind, op, placement AS value FROM coverage
              UNION SELECT run, 'mesh rank', op, CAST(mesh_rank AS TEXT) FROM coverage
              UNION SELECT run, 'evenness', op, evenness FROM coverage),
     gap AS (SELECT o.run, a.kind, o.op, a.value
             FROM (SELECT DISTINCT run, op FROM coverage) o JOIN axis a ON a.run = o.run
             EXCEPT SELECT run, kind, op, value FROM seen)
SELECT r.id AS run_id, r.name AS run, g.kind, g.op, g.value FROM gap g JOIN run r ON r.id = g.run
UNION ALL
SELECT r.id, r.name, 'op', e.op, '' FROM expected_op e JOIN run r ON r.id = e.run
WHERE NOT EXISTS (SELECT 1 FROM coverage c WHERE c.run = e.run AND c.op = e.op);

CREATE VIEW v_curves AS
SELECT r.id AS run_id, r.name AS run, k.name AS curve, k.model, k.variant, k.mesh, k.policy, k.lane, k.dtype,
       k.reference, k.digits, k.fields, p.step, p.loss, p.grad_norm, p.loss_bits, p.grad_norm_bits,
       hex(p.chain) AS chain, p.tokens_per_second, p.peak_bytes, p.verdict
FROM curve_point p JOIN curve k ON k.id = p.curve JOIN run r ON r.id = k.run;

-- Each step of a curve beside the same step of its reference: the one of its variant, else those of its
-- model. The ulp distance counts representable values between the two. It and the absolute difference are
-- NULL where one side is NaN and the bits differ.
CREATE VIEW v_curve_steps AS
WITH pair AS (
  SELECT a.id AS curve_id, b.id AS reference_id, b.name AS reference
  FROM curve a JOIN curve b ON b.run = a.run AND b.model = a.model AND b.dtype = a.dtype AND b.reference
  WHERE NOT a.reference
    AND (b.variant = a.variant
         OR NOT EXISTS (SELECT 1 FROM curve c WHERE c.run = a.run AND c.model = a.model AND c.dtype = a.dtype
                        AND c.reference AND c.variant = a.variant))),
point AS (
  SELECT p.curve, p.step, p.loss, p.grad_norm, p.loss_bits, p.grad_norm_bits, p.verdict,
         CASE k.dtype WHEN 'f64' THEN iif(p.loss_bits < 0, -9223372036854775808 - p.loss_bits, p.loss_bits)
                      WHEN 'f32' THEN iif(p.loss_bits >= 2147483648, 2147483648 - p.loss_bits, p.loss_bits)
                      ELSE iif(p.loss_bits >= 32768, 32768 - p.loss_bits, p.loss_bits) END AS loss_order,
         CASE k.dtype WHEN 'f64' THEN iif(p.grad_norm_bits < 0, -9223372036854775808 - p.grad_norm_bits,
                                          p.grad_norm_bits)
                      WHEN 'f32' THEN iif(p.grad_norm_bits >= 2147483648, 2147483648 - p.grad_norm_bits,
                                          p.grad_norm_bits)
                      ELSE iif(p.grad_norm_bits >= 32768, 32768 - p.grad_norm_bits, p.grad_norm_bits)
                      END AS grad_order
  FROM curve k JOIN curve_point p ON p.curve = k.id)
SELECT r.id AS run_id, r.name AS run, k.id AS curve_id, k.name AS curve, pair.reference, k.model, k.variant,
       k.mesh, k.policy, k.lane, k.dtype, a.step, a.loss, b.loss AS reference_loss, a.grad_norm,
       b.grad_norm AS reference_grad_norm,
       a.loss_bits = b.loss_bits AND a.grad_norm_bits = b.grad_norm_bits AS identical,
       CASE WHEN a.loss_bits = b.loss_bits THEN 0
            WHEN a.loss IS NULL OR b.loss IS NULL THEN NULL
            ELSE abs(a.loss_order - b.loss_order) END AS loss_ulp,
       CASE WHEN a.loss_bits = b.loss_bits THEN 0.0 ELSE abs(a.loss - b.loss) END AS loss_abs,
       CASE WHEN a.grad_norm_bits = b.grad_norm_bits THEN 0
            WHEN a.grad_norm IS NULL OR b.grad_norm IS NULL THEN NULL
            ELSE abs(a.grad_order - b.grad_order) END AS grad_norm_ulp,
       CASE WHEN a.grad_norm_bits = b.grad_norm_bits THEN 0.0
            ELSE abs(a.grad_norm - b.grad_norm) END AS grad_norm_abs,
       a.verdict
FROM pair JOIN curve k ON k.id = pair.curve_id JOIN run r ON r.id = k.run
JOIN point a ON a.curve = pair.curve_id
JOIN point b ON b.curve = pair.reference_id AND b.step = a.step;

CREATE VIEW v_curve_diff AS
SELECT run_id, run, curve, reference, model, variant, mesh, policy, lane, dtype, count(*) AS steps,
       CASE WHEN min(identical) THEN count(*)
            ELSE count(*) FILTER (WHERE step < first_different) END AS identical_prefix,
       first_different AS first_differing_step,
       max(loss_ulp) AS max_loss_ulp, max(loss_abs) AS max_loss_abs,
       max(grad_norm_ulp) AS max_grad_norm_ulp, max(grad_norm_abs) AS max_grad_norm_abs,
       count(*) FILTER (WHERE loss_ulp IS NULL OR grad_norm_ulp IS NULL) AS not_comparable,
       count(verdict) AS judged, count(*) FILTER (WHERE verdict LIKE 'explained%') AS explained,
       count(*) FILTER (WHERE verdict IN (SELECT name FROM verdict WHERE failure)) AS unexplained
FROM (SELECT *, min(iif(identical, NULL, step)) OVER (PARTITION BY curve_id, reference) AS first_different
      FROM v_curve_steps)
GROUP BY curve_id, reference;

CREATE VIEW v_throughput AS
SELECT r.id AS run_id, r.name AS run, 'suite' AS kind, c.suite AS name, '' AS worker, 'cases/s' AS unit,
       sum(c.cases) / nullif(sum(c.seconds), 0) AS value, sum(c.cases) AS samples,
       sum(c.bytes_moved) AS bytes_moved, NULL AS peak_bytes
FROM v_verdicts c JOIN run r ON r.id = c.run_id GROUP BY r.id, c.suite
UNION ALL
SELECT r.id, r.name, 'training', k.name || ' (' || k.variant || ')', '', 'tokens/s',
       avg(p.tokens_per_second), count(*), NULL, max(p.peak_bytes)
FROM curve_point p JOIN curve k ON k.id = p.curve JOIN run r ON r.id = k.run GROUP BY k.id
UNION ALL
SELECT r.id, r.name, 'measurement', m.series, m.worker, m.unit, avg(m.value), count(*), NULL, NULL
FROM measurement m JOIN run r ON r.id = m.run WHERE m.arm IN ('', 'candidate')
GROUP BY r.id, m.series, m.worker, m.unit;

CREATE VIEW v_faults AS
SELECT r.id AS run_id, r.name AS run, f.name AS fault, f.klass AS class, f.found, f.cases, f.shrunk_ops,
       f.suite, f.token, f.note
FROM planted_fault f JOIN run r ON r.id = f.run;

CREATE VIEW v_exceptions AS
SELECT r.id AS run_id, r.name AS run, e.op, e.dtype, e.reason, sum(e.hits) AS hits
FROM expected_exception e JOIN run r ON r.id = e.run GROUP BY r.id, e.op, e.dtype, e.reason;

-- Why cases gave up; of a run that says which version of the engine it had, all of them.
CREATE VIEW v_refusals AS
SELECT r.id AS run_id, r.name AS run, f.suite, f.op, f.reason, sum(f.hits) AS hits
FROM refusal f JOIN run r ON r.id = f.run GROUP BY r.id, f.suite, f.op, f.reason;

CREATE VIEW v_forgiven AS
SELECT r.id AS run_id, r.name AS run, f.kind, f.op, f.reason, sum(f.hits) AS hits
FROM forgiven f JOIN run r ON r.id = f.run GROUP BY r.id, f.kind, f.op, f.reason;

CREATE VIEW v_environment AS
SELECT id AS run_id, name AS run, 'processor' AS name, cpu AS value FROM run
UNION ALL SELECT id, name, 'cores', CAST(cores AS TEXT) FROM run
UNION ALL SELECT id, name, 'compiler', compiler FROM run
UNION ALL SELECT id, name, 'libtorch', libtorch FROM run
UNION ALL SELECT id, name, 'build', build_hash FROM run
UNION ALL SELECT id, name, 'commit', commit_id FROM run
UNION ALL SELECT id, name, 'numerics', numerics FROM run
UNION ALL SELECT id, name, 'engine', engine FROM run
UNION ALL SELECT id, name, 'engine version', version FROM run WHERE version <> ''
UNION ALL SELECT r.id, r.name, f.name, f.value FROM fact f JOIN run r ON r.id = f.run;


-- Commits in the order in which they were first measured here: the history of this file.
CREATE VIEW v_commits AS
SELECT max(r.id) AS run_id, r.name AS run, r.commit_id,
       row_number() OVER (ORDER BY min(r.started_ms), r.commit_id) AS position,
       min(r.started_ms) / 1000 AS time, count(*) AS runs, sum(s.cases) AS cases, sum(s.failures) AS failures,
       sum(s.nondeterministic) AS nondeterministic, max(r.state <> 'finished') AS unfinished,
       group_concat(DISTINCT r.exit_code) AS exit_codes
FROM run r JOIN v_summary s ON s.run_id = r.id
GROUP BY r.commit_id;

-- The life of a bucket over the commits of this file at which its engine ran. A commit is clean of it where its
-- kept case was replayed and did not fall into it; one that did not replay it says nothing.
--   new         fails at the newest commit and never before
--   regressed   fails again at the newest commit, after 3 clean ones
--   active      fails at the newest commit
--   incubating  does not fail there, but fewer than 3 clean commits have shown so
--   fixed       3 clean commits or more
--   muted       the policy of the newest judgement mutes it
CREATE VIEW v_buckets AS
WITH place AS (SELECT commit_id, row_number() OVER (ORDER BY min(started_ms), commit_id) AS n,
                      min(started_ms) / 1000 AS time
               FROM run GROUP BY commit_id),
newest AS (SELECT r.engine, max(p.n) AS n FROM run r JOIN place p ON p.commit_id = r.commit_id GROUP BY r.engine),
failing AS (SELECT r.engine, c.bucket, p.n, count(DISTINCT c.key) AS cases, max(r.id) AS run_id
            FROM cases c JOIN verdict v ON v.name = c.verdict JOIN run r ON r.id = c.run
            JOIN place p ON p.commit_id = r.commit_id
            WHERE c.bucket <> '' AND v.failure AND NOT c.self_check GROUP BY r.engine, c.bucket, p.n),
clean AS (SELECT DISTINCT r.engine, y.bucket, p.n FROM replayed y JOIN run r ON r.id = y.run
          JOIN place p ON p.commit_id = r.commit_id
          WHERE y.now <> y.bucket
          EXCEPT SELECT engine, bucket, n FROM failing),
life AS (SELECT engine, bucket, min(n) AS first_n, max(n) AS last_n, sum(cases) AS cases, count(*) AS commits,
                max(run_id) AS run_id FROM failing GROUP BY engine, bucket),
told AS (SELECT l.*, (SELECT max(n) FROM failing f
                      WHERE (f.engine, f.bucket) = (l.engine, l.bucket) AND f.n < l.last_n) AS before_n,
                (SELECT count(*) FROM clean k
                 WHERE (k.engine, k.bucket) = (l.engine, l.bucket) AND k.n > l.last_n) AS clean_commits
         FROM life l),
mute AS (SELECT * FROM muted WHERE judgement = (SELECT id FROM judgement ORDER BY judged_ms DESC, id DESC LIMIT 1))
SELECT t.run_id, r.name AS run, t.bucket,
       CASE WHEN m.expires >= date((SELECT max(judged_ms) FROM judgement) / 1000, 'unixepoch') THEN 'muted'
            WHEN t.last_n = newest.n AND t.before_n IS NULL THEN 'new'
            WHEN t.last_n = newest.n AND (SELECT count(*) FROM clean k
                                          WHERE (k.engine, k.bucket) = (t.engine, t.bucket)
                                            AND k.n > t.before_n AND k.n < t.last_n) >= 3 THEN 'regressed'
            WHEN t.last_n = newest.n THEN 'active'
            WHEN t.clean_commits >= 3 THEN 'fixed'
            ELSE 'incubating' END AS state,
       a.commit_id AS first_commit, a.time AS first_time, z.commit_id AS last_commit, z.time AS last_time,
       t.commits, t.cases, t.clean_commits, m.owner, m.reason, m.expires,
       f.suite, f.law, f.verdict, f.op, f.placement, f.mesh, f.dtype, f.token, f.program, f.explanation, f.replay,
       t.engine
FROM told t JOIN newest ON newest.engine = t.engine JOIN run r ON r.id = t.run_id
JOIN place a ON a.n = t.first_n JOIN place z ON z.n = t.last_n
JOIN v_failures f ON f.run_id = t.run_id AND f.bucket = t.bucket
LEFT JOIN mute m ON m.bucket = t.bucket;

CREATE VIEW v_corpus AS
SELECT c.token, c.suite, c.bucket, c.origin, c.since_ms / 1000 AS since, c.note,
       count(y.run) AS replays, count(*) FILTER (WHERE y.now <> '') AS failed
FROM corpus c LEFT JOIN replayed y ON y.token = c.token GROUP BY c.token;

CREATE VIEW v_replayed AS
SELECT r.id AS run_id, r.name AS run, y.token, y.bucket, y.verdict, y.now,
       'lockstep replay ''' || replace(y.token, '''', '''\''''') || '''' || r.replay AS replay
FROM replayed y JOIN run r ON r.id = y.run;

-- A series at one run: the median of the samples of the binary that was measured, and their range.
CREATE VIEW v_series AS
WITH sample AS (SELECT run, series, unit, value,
                       row_number() OVER (PARTITION BY run, series ORDER BY value) AS i,
                       count(*) OVER (PARTITION BY run, series) AS n
                FROM measurement WHERE arm IN ('', 'candidate'))
SELECT r.id AS run_id, r.name AS run, r.commit_id, r.started_ms / 1000 AS time, r.cpu, r.cores, m.series,
       coalesce(s.area, '') AS area, coalesce(s.kind, 'timed') AS kind,
       coalesce(s.better, iif(m.unit LIKE '%/s', 'more', 'less')) AS better,
       m.unit, max(m.n) AS samples, avg(m.value) FILTER (WHERE m.i IN ((m.n + 1) / 2, (m.n + 2) / 2)) AS value,
       min(m.value) AS low, max(m.value) AS high
FROM sample m JOIN run r ON r.id = m.run LEFT JOIN series s ON s.run = m.run AND s.name = m.series
GROUP BY m.run, m.series;

CREATE VIEW v_samples AS
SELECT r.id AS run_id, r.name AS run, r.commit_id, m.series, m.arm, m.seq, m.worker, m.unit, m.value
FROM measurement m JOIN run r ON r.id = m.run;

CREATE VIEW v_judgements AS
SELECT j.id AS judgement, j.judged_ms / 1000 AS time, j.baseline, j.candidate, j.commit_id, j.build_hash,
       j.policy, j.exit_code, j.codes, count(f.seq) AS findings,
       count(*) FILTER (WHERE f.effect = 'block') AS blocking, count(*) FILTER (WHERE f.effect = 'warn') AS warnings
FROM judgement j LEFT JOIN finding f ON f.judgement = j.id GROUP BY j.id;

CREATE VIEW v_findings AS
SELECT f.judgement, j.judged_ms / 1000 AS time, j.commit_id, f.seq, f.rule, f.subject, f.effect, f.code,
       f.expected, f.got, f.detail, f.replay
FROM finding f JOIN judgement j ON j.id = f.judgement;

CREATE VIEW v_series_verdicts AS
SELECT s.judgement, j.judged_ms / 1000 AS time, j.commit_id, s.series, s.kind, s.against, s.verdict, s.samples,
       s.ratio, s.low, s.high, s.p, s.detectable, s.false_alarms
FROM series_verdict s JOIN judgement j ON j.id = s.judgement;

CREATE VIEW v_blessings AS
SELECT rule, subject, got, reason, blessed_by, blessed_ms / 1000 AS time FROM blessing;

CREATE VIEW v_divergence AS
SELECT r.id AS run_id, r.name AS run, d.curve, d.reference, d.compared, d.step, d.position, d.op, d.rank, d.what,
       d.expected, d.got
FROM divergence d JOIN run r ON r.id = d.run;

CREATE VIEW v_pruned AS
SELECT r.id AS run_id, r.name AS run, p.suite, p.self_check, p.verdict, p.cases
FROM pruned p JOIN run r ON r.id = p.run;
