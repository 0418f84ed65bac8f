-- SPDX-License-Identifier: Apache-2.0
-- The panels, of which the report and the pages of the site are made: each answers one question. A line that begins
-- with "--#" says what follows, up to the next one:
--   view                    SQL that each connection gets before its first page
--   function NAME(a, b, …)  a template that is a function of SQL: ?1, ?2 … in braces stand for the cells of its
--                           arguments; with a NULL among them it is NULL
--   panel ID: TITLE (SHORT) the following parts; SHORT: in the navigation of the report, which has those with one
--   text                    a part of markup; a query in braces stands for the cells of its rows
--   table CAPTION           a part: a query whose columns are named by their titles, the first names its row;
--                           "#Cases": numbers, "=Verdicts": takes the room
--   list OUTER INNER        a part: each row of a query in the element INNER, all in OUTER ("-": none)
--   draw NAME               a part that C++ draws (panels.cpp)
--   none, good              a notice in place of no rows
--   before, after           markup around those that are there, where ?9 is their number
--   classes                 of a table
-- A cell that is a blob is markup, a text is escaped, a number is as people write it, NULL is "–". functions.h and
-- templates.sql have the functions. `shown` is the table of the runs that the page speaks about.

-- The head of a page. One row: status and headline (the worst thing first), words, tiles; when; bar and legend.
--# panel hero:
--# list - div
WITH t AS MATERIALIZED (
  SELECT count(*) AS runs, coalesce(sum(cases), 0) AS cases, coalesce(sum(equal), 0) AS equal,
         coalesce(sum(explained), 0) AS explained, coalesce(sum(expected_exceptions), 0) AS exceptions,
         coalesce(sum(gave_up), 0) AS gave_up, coalesce(sum(failures), 0) AS failures,
         coalesce(sum(broken), 0) AS broken, coalesce(sum(buckets), 0) AS buckets,
         coalesce(sum(state <> 'finished'), 0) AS unfinished,
         (SELECT count(DISTINCT op) FROM v_coverage WHERE run_id IN shown) AS ops,
         (SELECT count(*) FROM (SELECT DISTINCT op, placement FROM v_coverage WHERE run_id IN shown)) AS pairs,
         (SELECT count(*) FROM v_faults WHERE run_id IN shown) AS faults,
         (SELECT count(*) FROM v_faults WHERE found AND run_id IN shown) AS found,
         (SELECT count(*) FROM v_plan WHERE NOT met AND run_id IN shown) AS unmet,
         (SELECT count(*) FROM v_gates WHERE NOT passed AND run_id IN shown) AS red_gates,
         (SELECT count(*) FROM v_nondeterminism WHERE run_id IN shown) AS unstable,
         (SELECT coalesce(sum(cases), 0) FROM v_verdicts WHERE self_check AND failure AND run_id IN shown) AS missed
  FROM v_summary WHERE run_id IN shown),
-- Of several random policies the closest one speaks; the others are there to be far away.
training AS (SELECT policy, max(max_loss_abs) AS far, count(*) AS curves FROM v_curve_diff WHERE run_id IN shown
             GROUP BY policy ORDER BY far LIMIT 1)
SELECT CASE
    WHEN runs = 0 THEN 'warn Nothing was recorded.'
    WHEN broken > 0 THEN 'bad The harness itself failed in ' || plural(broken, 'case.', 'cases.')
    WHEN missed > 0
      THEN 'bad ' || plural(missed, 'self-check of the harness fails.', 'self-checks of the harness fail.')
    WHEN failures > 0 THEN 'bad ' || plural(failures, 'case fails.', 'cases fail.')
    WHEN unstable > 0
      THEN 'bad ' || plural(unstable, 'case does not repeat itself.', 'cases do not repeat themselves.')
    WHEN found < faults
      THEN 'bad ' || plural(faults - found, 'planted fault survived.', 'planted faults survived.')
    WHEN unmet > 0 THEN 'warn Not everything planned was measured.'
    WHEN red_gates > 0 THEN 'bad ' || plural(red_gates, 'gate is red.', 'gates are red.')
    WHEN unfinished > 0 THEN 'warn All equal or explained so far: the run has not finished.'
    WHEN cases = 0 THEN 'ok No case was planned, none failed.'
    ELSE 'ok Every case is equal or explained.' END,
  iif(runs = 0,
    html('This store holds no run yet. Type ', el('code', 'lockstep run --db …'), ' to fill it.'),
    html(plural(cases, 'generated case', 'generated cases'), ' ran sharded on several ranks and again on one device, '
      || 'and every tensor was compared bit by bit. ', el('b', equal), ' (', percent(equal, cases),
      ') came out equal in every bit. ',
      iif(explained > 0, html(el('b', explained), ' differ from one device, and are explained: replaying the declared '
        || 'order of arithmetic gives the same bits, and the distance is within the bound. '), ''),
      iif(failures > 0, html(el('b', failures), ' have no explanation; they fall into ',
        plural(buckets, 'bucket', 'buckets'), ', each with a token that replays it. '), ''),
      iif(exceptions > 0, plural(exceptions, 'case falls', 'cases fall') || ' under a listed exception. ', ''),
      iif(gave_up > 0, plural(gave_up, 'case was', 'cases were') || ' given up, which counts as neither. ', ''),
      iif(unstable > 0, plural(unstable, 'result', 'results') || ' did not come out the same twice. ', ''),
      iif(unmet > 0, plural(unmet, 'demand', 'demands') || ' of the plan found too few cases. ', ''))),
  html(tile(cases, 'Cases', plural(runs, 'run', 'runs') || ' of this build', ''),
    tile(percent(equal, cases), 'Equal', grouped(equal) || ' in every bit', ''),
    tile(explained, 'Explained', percent(explained, cases) || ' of cases, with proofs', ''),
    tile(failures, 'Failures', plural(buckets, 'bucket', 'buckets'), iif(failures, 'bad', 'good')),
    tile(ops, 'Ops', grouped(pairs) || ' op × placement pairs', ''),
    iif(faults > 0, tile(grouped(found) || '/' || grouped(faults), 'Planted faults', 'found',
      iif(found < faults, 'bad', 'good')), ''),
    (SELECT tile(coalesce(far, '–'), 'Training, |Δ loss|', 'at most, in ' || plural(curves, 'curve', 'curves')
      || iif(policy = '', '', ', ' || policy), '') FROM training))
FROM t
--# text {SELECT at(newest), ' · commit ', cut(commit_id, 60) FROM (SELECT max(time) AS newest, commit_id FROM v_summary
WHERE run_id IN shown) WHERE newest IS NOT NULL}
--# text {SELECT bar(parts), legend(parts) FROM (SELECT json_group_array(json_array(verdict, n)) AS parts FROM (SELECT
verdict, sum(cases) AS n FROM v_verdicts WHERE NOT self_check AND run_id IN shown GROUP BY verdict ORDER BY severity))
WHERE parts <> '[]'}

--# panel verdicts: What ran, and how it came out (Verdicts)
--# table Verdicts by suite
WITH part AS (
  SELECT suite, verdict, sum(cases) AS n, sum(seconds) AS seconds, max(failure) AS failure, max(self_check) AS own
  FROM v_verdicts WHERE run_id IN shown GROUP BY suite, verdict ORDER BY suite, severity),
told AS (
  SELECT suite, sum(n) AS cases, sum(seconds) AS seconds, max(own) AS own,
         coalesce(sum(n) FILTER (WHERE failure AND NOT own), 0) AS failures,
         coalesce(sum(n) FILTER (WHERE failure AND own), 0) AS missed,
         json_group_array(json_array(verdict, n)) AS parts,
         group_concat(grouped(n) || ' ' || words(verdict), ' · ') AS counts
  FROM part GROUP BY suite),
plan AS (SELECT name AS suite, sum(least) AS least, min(met) AS met
         FROM v_plan WHERE kind = 'suite' AND run_id IN shown GROUP BY name)
SELECT suite AS Suite, coalesce(cases, 0) AS "#Cases",
  iif(met IS NULL, NULL, html(yes_no(met, '', ''), 'at least ', least)) AS Plan,
  iif(own,
    html(bar(json_array(json_array('equal', cases - missed), json_array('different', missed))),
      el('span.quiet', 'the harness checks itself: ', cases - missed, ' of ', plural(cases, 'case', 'cases'),
        ' came out as they should')),
    html(bar(coalesce(parts, '[]')), el('span.quiet', coalesce(counts, '')))) AS "=Verdicts",
  iif(own, NULL, iif(failures > 0, el('span.no', failures), 0)) AS "#Failures", took(coalesce(seconds, 0)) AS "#Time"
FROM (SELECT suite FROM told UNION SELECT suite FROM plan) LEFT JOIN told USING (suite) LEFT JOIN plan USING (suite)
ORDER BY suite
--# none No case was recorded.
--# table Rules that decide the exit code
SELECT rule AS Rule, yes_no(passed, 'passed', 'red') AS Outcome, required AS Required, got AS Found
FROM v_gates WHERE run_id IN shown ORDER BY passed, rule
--# before <h3>Gates</h3>

--# panel failures: Failures (Failures)
--# list - div
SELECT el('details.bucket' || iif(n <= 3, ' open', ''),
  el('summary', chip(verdict),
    el('span.what', el('b', op), ' on ', el('code', placement), ' · mesh ', mesh, ' · ', dtype),
    el('span.count', plural(cases, 'case', 'cases'))),
  el('div.body',
    el('p', iif(explanation = '', 'No explanation was recorded.', explanation)),
    el('p.quiet', 'Suite ', suite, ' · law: ', law, iif(variant = '', '', ' · ' || variant), ' · bucket ',
      link(el('code', bucket), 'bucket', 'id', content_id(bucket))),
    panel('differences', case_id, 8),
    iif(program = '', '',
      code_block('b' || n || 'p', coalesce('Shrunk to ' || plural(ops, 'op', 'ops'), 'Program'), program)),
    html(el('p.quiet', plural(shrink_steps, 'shrinking step', 'shrinking steps'), iif(budget_ended,
      '; the budget ended before the smallest was certain', '; no smaller case fails so'), '.')),
    code_block('b' || n || 'r', 'Replay', replay), code_block('b' || n || 't', 'Token', token)))
FROM (SELECT f.*, row_number() OVER (ORDER BY v.severity DESC, cases DESC, bucket) AS n
      FROM v_failures f JOIN verdict v ON v.name = f.verdict WHERE run_id IN shown)
WHERE n <= 100 ORDER BY n
--# good No failure. Nothing differs without an explanation, nothing crashed, nothing hung.
--# after {SELECT el('p.quiet', n - ?9, ' more buckets; the view v_failures lists them all.') FROM (SELECT count(*) AS n
FROM v_failures WHERE run_id IN shown) WHERE n > ?9}
--# table Cases that do not repeat themselves
SELECT suite AS Suite, outcomes AS "#Outcomes", verdicts AS Verdicts, el('code.wrap', what) AS "Case"
FROM v_nondeterminism WHERE run_id IN shown ORDER BY suite, what LIMIT 50
--# before <h3>Not deterministic</h3><p>The same build, seed and token came out in more than one way. Usual causes:
order of pointers, time, iteration over an unordered container, a data race.</p>

-- The first ?2 tensors that differ of the case ?1.
--# panel differences:
--# table Tensors that differ
SELECT html(el('code', value), ' ', el('span.quiet', dtype)) AS Value, bit_class AS Class,
       html(different, ' of ', elements) AS "#Differ", max_ulp AS "#Max ulp", double_of(max_abs_bits) AS "#Max |Δ|",
       html(el('code', first_index), iif(rank < 0, '',
         html(' ', el('span.quiet', 'rank ', rank, ', local ', local_index)))) AS "First at",
       bits(expected_bits, dtype) AS "#One device", bits(actual_bits, dtype) AS "#Sharded",
       double_bits(float64_bits) AS "#float64", double_bits(bound_bits) AS "#Bound"
FROM v_diffs WHERE case_id = CAST(?1 AS INTEGER) ORDER BY seq LIMIT CAST(?2 AS INTEGER)
--# after {SELECT el('p.quiet', n - ?9, ' more values differ in this case.') FROM (SELECT count(*) AS n FROM v_diffs
WHERE case_id = CAST(?1 AS INTEGER)) WHERE n > ?9}

--# panel buckets: Failures by bucket, and their life (Buckets)
--# list ul.legend li
SELECT link(state(state), 'failures', 'state', state), ' ', count(*) FROM v_buckets GROUP BY state
ORDER BY count(*) DESC, state
--# good No case ever failed in this store.
--# before <p>A bucket is one signature: law, verdict, op, placement, dtype. Its life runs over the commits that this
store knows; a commit that did not replay its case says nothing.</p>
--# text {SELECT panel('buckets-in-state', '')}

-- Those in the state ?1, '': all.
--# panel buckets-in-state:
--# table Buckets
SELECT link(el('code.wrap', cut(bucket, 160)), 'bucket', 'id', content_id(bucket)) AS Bucket, state(state) AS State,
       chip(verdict) AS Verdict, cases AS "#Cases", commits AS "#Commits",
       html(el('code', cut(first_commit, 12)), ' ', el('span.quiet', at(first_time))) AS "First seen",
       html(el('code', cut(last_commit, 12)), ' ', el('span.quiet', at(last_time))) AS "Last seen",
       iif(owner IS NULL, NULL, html(owner, el('br'), el('span.quiet', reason, ', until ', expires))) AS Owner
FROM v_buckets WHERE ?1 IN ('', state)
ORDER BY CASE v_buckets.state WHEN 'new' THEN 0 WHEN 'regressed' THEN 1 WHEN 'active' THEN 2 WHEN 'incubating' THEN 3
         WHEN 'muted' THEN 4 ELSE 5 END, cases DESC, v_buckets.bucket LIMIT 200
--# good {SELECT 'None is in this state.' WHERE ?1 <> ''}

-- The newest judgement, or the one with the number ?1.
--# panel judgement: What the gate decided (Gate)
--# list - p
SELECT yes_no(exit_code = 0, 'passed', 'red'), ', exit code ', exit_code, ' ',
       el('span.quiet', '(all that apply: ', codes, ')'), ' · ', plural(blocking, 'finding blocks', 'findings block'),
       ', ', warnings, ' warn · ', el('code', cut(candidate, 120)), ' against ', el('code', cut(baseline, 120)),
       ' · commit ', el('code', cut(commit_id, 16)), ' · ', at(time)
FROM v_judgements WHERE judgement = coalesce(CAST(?1 AS INTEGER), (SELECT judgement FROM newest_judgement))
--# none No judgement is stored. <code>lockstep gate --baseline main.db --candidate run.db</code> makes one.
--# table Findings
SELECT rule AS Rule, html(effect(effect), ' ', el('span.quiet', 'code ', code)) AS Effect,
       el('span.wrap', cut(subject, 200)) AS Subject, cut(expected, 200) AS Expected, cut(got, 200) AS Found,
       html(cut(detail, 400), iif(replay = '', '',
         code_block('finding-' || judgement || '-' || seq, 'Replay', replay))) AS Detail
FROM v_findings WHERE judgement = coalesce(CAST(?1 AS INTEGER), (SELECT judgement FROM newest_judgement))
ORDER BY CASE v_findings.effect WHEN 'block' THEN 0 WHEN 'warn' THEN 1 ELSE 2 END, seq LIMIT 200
--# good {SELECT 'It found nothing to say.' WHERE EXISTS (SELECT 1 FROM v_judgements)}
--# table Series that the gate compared
SELECT link(cut(series, 120), 'series', 'name', series) AS Series, says AS Verdict, Against, "#Ratio", "#Interval",
       "#p, corrected", "#Smallest effect it can see", "#False alarms" FROM compared_series
WHERE judgement = coalesce(CAST(?1 AS INTEGER), (SELECT judgement FROM newest_judgement))
ORDER BY verdict IN ('same', 'faster'), compared_series.series LIMIT 500
--# before <h3>Series that it compared</h3>
--# text {SELECT el('p', link('All judgements', 'gate')) WHERE site() <> '' AND EXISTS (SELECT 1 FROM v_judgements)}

-- Of meshes with ?1 dimensions, '' or NULL: of all.
--# panel matrix: Ops and placements (Matrix)
--# text {DELETE FROM squares}{INSERT INTO squares SELECT op, placement, verdict, severity, sum(hits) FROM v_matrix
WHERE run_id IN shown AND (coalesce(?1, '') = '' OR mesh_rank = CAST(?1 AS INTEGER)) GROUP BY op, placement, verdict}
{SELECT el('p', 'Each square is the worst verdict of an op on a placement pattern, wherever the op ran: alone or inside
a ' || 'program.') WHERE EXISTS (SELECT 1 FROM squares)}{SELECT panel('squares', 'placement pattern', 'placement')}

-- One mesh dimension before two, then by text; of too many columns the least used are left out.
-- The heat map of `squares`, ?1: what a column is, ?2: the parameter of the page `cases` that it is. The colour is the
-- worst verdict, and a letter or sign says the same.
--# panel squares:
--# text {DELETE FROM square_columns}{INSERT INTO square_columns SELECT place, length(place) - length(replace(place,
',', '')) FROM squares GROUP BY place ORDER BY sum(hits) DESC, place LIMIT 160}
--# list - div
SELECT panel('squares-table', ?1, ?2) WHERE EXISTS (SELECT 1 FROM squares)
--# none {SELECT iif(?2 = 'mesh', 'No case was recorded.', 'No op was recorded.')}

--# panel squares-table:
--# text <ul class="legend">{SELECT el('li', el('span.swatch.c.v-' || verdict), ' ', words(verdict)) FROM (SELECT
DISTINCT verdict, severity FROM squares) ORDER BY severity}<li><span class="swatch"></span> not seen</li></ul> <div
class="controls"><label>Find an op <input type="search" id="op-filter" placeholder="aten::"></label> <label><input
type="checkbox" id="op-worst"> only rows that are not all equal</label></div> <p class="quiet" id="cell-says"
aria-live="polite">{SELECT plural(count(DISTINCT op), 'op', 'ops'), ' × ', plural(count(DISTINCT place), ?1, ?1 || 's')
FROM squares}. Hold the pointer over a square, or walk with the arrow keys, for its counts.</p><div class="scroll tall"
tabindex="0" role="region" aria-label="Heat map"><table class="matrix" data-parameter="{SELECT ?2}" data-cases="{SELECT
href('cases')}"><caption class="hidden">Worst verdict by op and {SELECT ?1}</caption><thead><tr><th
scope="col">op</th>{SELECT el('th scope="col"', el('span', place)) FROM square_columns ORDER BY commas,
place}</tr></thead><tbody>{SELECT el('tr data-worst="' || max(severity) || '"', el('th scope="row"', link(cut(op, 200),
'cases', 'op', op)), panel('squares-row', op)) FROM squares GROUP BY op ORDER BY op}</tbody></table></div>{SELECT
el('p.quiet', 'The least used ', ?1, 's are left out here: ', plural(n - 160, 'column', 'columns'), '.') FROM (SELECT
count(DISTINCT place) AS n FROM squares) WHERE n > 160}

--# panel squares-row:
--# text {SELECT coalesce(el('td.c.v-' || verdict || ' title="' || said || '"'), el('td')) FROM square_columns LEFT JOIN
( SELECT place, max(severity), verdict, group_concat(grouped(hits) || ' ' || words(verdict), ', ') AS said FROM (SELECT
* FROM squares WHERE op = ?1 ORDER BY place, severity) GROUP BY place) USING (place) ORDER BY commas, place}

--# panel curves: Training curves (Curves)
--# draw curves
-- Facts "reference.NAME" beside "candidate.NAME"; those that differ first.
--# table Environments
WITH side AS (SELECT run, substr(name, 1, 9) AS side, substr(name, 11) AS name, value FROM v_environment
              WHERE run_id IN shown AND (name LIKE 'reference.%' OR name LIKE 'candidate.%')),
both AS (SELECT run, name, max(value) FILTER (WHERE side = 'reference') AS a,
                max(value) FILTER (WHERE side = 'candidate') AS b FROM side GROUP BY run, name)
SELECT name AS Fact, coalesce(a, 'not said') AS Reference, coalesce(b, 'not said') AS Candidate,
       yes_no(a IS b, 'same', 'differs') AS Same FROM both ORDER BY run, a IS b, name
--# before <h3>The two environments</h3>
--# list ul li
SELECT el('b', name), ': ', value FROM v_environment
WHERE run_id IN shown AND (name LIKE 'source of %' OR name LIKE 'note on %')
ORDER BY run_id, name LIKE 'note on %', name DESC, value
--# before <h3>Sources, and what was left out</h3>

-- Of the model ?1 and variant ?2, the closest first. ?3: digits that were written, where the curves came as decimal
-- text,
-- which has no bits to count; '': every bit.
--# panel curve-differences:
--# table Differences from the reference
SELECT titled(d.curve, iif(mesh = '', d.curve, mesh)) AS Mesh, policy AS "Random policy",
       html(identical_prefix, ' of ', steps) AS "#Equal steps",
       CASE WHEN first_differing_step IS NOT NULL THEN first_differing_step WHEN ?3 = '' THEN el('span.yes', 'never')
            ELSE html('equal to the ', ?3, ' digits that were written') END AS "#First differs",
       iif(?3 = '', brief(max_loss_ulp), NULL) AS "#Loss: max ulp", max_loss_abs AS "#max |Δ|",
       s.loss AS "#drift a step", iif(?3 = '', s.ulp, NULL) AS "#ulp a step",
       iif(?3 = '', brief(max_grad_norm_ulp), NULL) AS "#Grad norm: max ulp", max_grad_norm_abs AS "#max |Δ|",
       CASE WHEN judged = 0 THEN el('span.quiet', '–')
            WHEN unexplained > 0 THEN el('span.no', '✗ ', plural(unexplained, 'step', 'steps'))
            ELSE el('span.yes', '✓ ', plural(judged, 'step', 'steps')) END AS Explained
FROM v_curve_diff d
JOIN (SELECT curve, slope(step, loss_abs) AS loss, slope(step, loss_ulp) AS ulp FROM v_curve_steps
      WHERE run_id IN shown AND model = ?1 AND variant = ?2 GROUP BY curve) s ON s.curve = d.curve
WHERE run_id IN shown AND model = ?1 AND variant = ?2
ORDER BY min(max_loss_abs) OVER (PARTITION BY policy), policy, d.mesh, d.curve
--# classes
--# none No curve of this group is the reference, so nothing is compared.
--# after <p class="quiet">Drift: the median slope of the loss's |difference| between any two steps (Theil and Sen), in
loss and in ulp.</p>

--# panel drift: Drift from one device (Drift)
--# table Drift from the reference
WITH chained AS (  -- the chain hashes every bit so far, so that it agrees up to one step and never again
  SELECT a.id, count(*) AS chain FROM curve a JOIN curve b ON b.run = a.run AND b.model = a.model AND b.dtype = a.dtype
    AND b.reference AND (b.variant = a.variant
      OR NOT EXISTS (SELECT 1 FROM curve c WHERE c.run = a.run AND c.model = a.model AND c.dtype = a.dtype
                     AND c.reference AND c.variant = a.variant))
  JOIN curve_point p ON p.curve = a.id JOIN curve_point q ON q.curve = b.id AND q.step = p.step
  WHERE a.run IN shown AND NOT a.reference AND p.chain = q.chain GROUP BY a.id),
leaving AS (
  SELECT curve_id, model, variant, mesh, policy, count(*) AS steps,
         count(*) FILTER (WHERE first IS NULL OR step < first) AS same, growth(step, nullif(loss_ulp, 0)) AS growth,
         max(loss_ulp) > 0 AS parts
  FROM (SELECT *, min(iif(identical, NULL, step)) OVER (PARTITION BY curve_id) AS first FROM v_curve_steps
        WHERE run_id IN shown) GROUP BY curve_id)
SELECT html(cut(model, 60), ' ', el('span.quiet', cut(variant, 60))) AS Curve, cut(mesh, 40) AS Mesh,
       cut(policy, 40) AS "Random policy",
       iif(same = steps, yes_no(1, 'all ' || grouped(same), ''), html(same, ' of ', steps)) AS "#Equal from the start",
       iif(chain = steps, yes_no(1, 'all ' || grouped(chain), ''), html(coalesce(chain, 0), ' of ', steps))
         AS "#Chain of hashes agrees",
       brief(growth) || ' log₂ ulp a step' AS "#Drift",
       CASE WHEN growth > 1e-4 THEN brief(1 / growth) || ' steps' WHEN parts THEN 'does not grow' END AS
         "#Doubles every"
FROM leaving LEFT JOIN chained ON id = curve_id ORDER BY curve_id
--# none No curve has a reference to drift from.
--# after <p class="quiet">Drift is the least-squares slope of log₂ of the loss's distance in ulp, over the steps that
differ. The chain hashes every bit of the run so far.</p>

--# panel divergence: Where logged runs part (Divergence)
--# table Where logged runs part
SELECT cut(curve, 120) AS Run, cut(reference, 120) AS Against, compared AS "#Compared",
       iif(step IS NULL, yes_no(1, 'nowhere', ''), html('step ', step, ', position ', position,
         iif(rank < 0, '', html(', rank ', rank)))) AS "First divergence",
       el('code', nullif(cut(op, 80), '')) AS Op,
       CASE what WHEN 'output' THEN 'output differs, inputs agree: this op is at fault'
                 WHEN 'input' THEN 'input differs: what made it was not logged'
                 WHEN 'missing' THEN 'missing in the candidate'
                 WHEN 'sequence' THEN 'another op, or one more' ELSE cut(what, 40) END AS What,
       el('code.wrap', cut(expected, 80)) AS Expected, el('code.wrap', cut(got, 80)) AS Got
FROM v_divergence WHERE run_id IN shown ORDER BY step IS NULL, step, v_divergence.curve LIMIT 200
--# none No run logged the digests of its ops. <code>lockstep curves import</code> reads such logs, and says which op of
which step first differs.

--# panel series: Performance series (Series)
--# table Series
WITH told AS (
  SELECT *, row_number() OVER (PARTITION BY series ORDER BY time DESC, run_id DESC) AS back FROM points
  WHERE series NOT IN (SELECT series FROM paddings)),
history AS (SELECT series, median(back, iif(back > 1, value, NULL)) AS before, count(*) AS runs FROM told GROUP BY
  series)
SELECT link(cut(series, 120), 'series', 'name', series) AS Series, area AS Area,
       html(brief(value), ' ', unit) AS "#Newest", html(brief(low), ' – ', brief(high)) AS "#Range",
       iif(before = 0, NULL, html(change(value / before), iif(abs(value / before - 1) < 0.0005, '',
         html(' ', el('span.quiet', iif((value < before) = (better = 'less'), 'better', 'worse'))))))
         AS "#Against its history",
       runs AS "#Runs", judged(coalesce(verdict, '')) AS "The gate says"
FROM told JOIN history USING (series) WHERE back = 1 ORDER BY told.series LIMIT 500
--# none {SELECT iif(EXISTS (SELECT 1 FROM points), '',
html('No series was measured. <code>lockstep bench</code> measures them.'))}
--# before <p>Each point is the median of one run, the band the range of its samples. A triangle marks where the gate
saw a change.</p>
--# after {SELECT el('p.quiet', plural(n - ?9, 'more series', 'more series'), ': the view v_series has them all.') FROM
(SELECT count(DISTINCT series) AS n FROM points WHERE series NOT IN (SELECT series FROM paddings)) WHERE n > ?9}
--# draw series
--# draw padding
--# table Padding of published models' buffers, in percent of their elements, by ranks
SELECT model AS Model, rows AS "#Rows of a block", brief(max(iif(ranks = 8, value, NULL))) AS "#8",
       brief(max(iif(ranks = 16, value, NULL))) AS "#16", brief(max(iif(ranks = 32, value, NULL))) AS "#32",
       brief(max(iif(ranks = 64, value, NULL))) AS "#64", brief(max(iif(ranks = 128, value, NULL))) AS "#128",
       brief(max(iif(ranks = 256, value, NULL))) AS "#256", brief(max(iif(ranks = 512, value, NULL))) AS "#512",
       brief(max(iif(ranks = 1024, value, NULL))) AS "#1,024"
FROM paddings GROUP BY model, rows ORDER BY model, rows

--# panel levels: Where series changed their level (Levels)
--# table Changes of level of all series
SELECT cut(series, 120) AS Series, "Since commit", Measured, "#Before", "#After", "#Change", "#p" FROM level_changes
ORDER BY level_changes.series, n LIMIT 200
--# none {SELECT iif(EXISTS (SELECT 1 FROM points), 'No series changed its level.', 'No series was measured.')}
--# text {SELECT el('p.quiet', plural(sum(runs >= 10), 'series was', 'series were'), ' looked at; ', plural(sum(runs <
10), 'has', 'have'), ' fewer than 10 runs.') FROM (SELECT count(*) AS runs FROM history GROUP BY series)} <p
class="quiet">E-divisive over the last 200 runs of the machine that measured last; a level has at least 5 runs, so one
that began with the newest 4 is not seen yet.</p>

--# panel throughput: Throughput (Throughput)
--# table Measured
SELECT named AS Name, track(value, max(value) OVER ()) AS "=Beside the fastest", "#Rate", "#Samples", "#Memory"
FROM rates WHERE run_id IN shown AND kind = 'measurement' ORDER BY rates.name, worker
--# classes bars
--# before <h3>Measured</h3><div class="bounded" tabindex="0">
--# after </div>
--# table Suites, cases a second of one worker
SELECT named AS Name, track(value, max(value) OVER ()) AS "=Beside the fastest", "#Rate", "#Samples", "#Memory"
FROM rates WHERE run_id IN shown AND kind = 'suite' ORDER BY rates.name, worker
--# classes bars
--# before <h3>Suites, cases a second of one worker</h3><div class="bounded" tabindex="0">
--# after </div>
--# table Training, tokens a second
SELECT named AS Name, track(value, max(value) OVER ()) AS "=Beside the fastest", "#Rate", "#Samples", "#Memory"
FROM rates WHERE run_id IN shown AND kind = 'training' ORDER BY rates.name, worker
--# classes bars
--# none {SELECT 'Nothing was timed.' WHERE NOT EXISTS (SELECT 1 FROM v_throughput WHERE run_id IN shown)}
--# before <h3>Training, tokens a second</h3><div class="bounded" tabindex="0">
--# after </div>

--# panel coverage: Coverage and its gaps (Coverage)
--# list div.meters div.meter
WITH seen AS MATERIALIZED (SELECT DISTINCT op, placement, mesh_rank, evenness FROM v_coverage WHERE run_id IN shown),
share AS (
  SELECT 1 AS i, 'placement' AS kind, 'patterns of all inputs' AS words,
         (SELECT count(*) FROM (SELECT DISTINCT op, placement FROM seen)) AS met,
         (SELECT count(DISTINCT op) * count(DISTINCT placement) FROM seen) AS pairs
  UNION ALL SELECT 2, 'mesh rank', 'mesh dimensions', (SELECT count(*) FROM (SELECT DISTINCT op, mesh_rank FROM seen)),
         (SELECT count(DISTINCT op) * count(DISTINCT mesh_rank) FROM seen)
  UNION ALL SELECT 3, 'evenness', 'even, uneven, empty shards',
         (SELECT count(*) FROM (SELECT DISTINCT op, evenness FROM seen)),
         (SELECT count(DISTINCT op) * count(DISTINCT evenness) FROM seen))
SELECT el('span.label', 'op × ', kind),
       el('div.track role="img" aria-label="' || brief(100.0 * met / pairs) || ' percent"',
          el('span style="width:' || brief(100.0 * met / pairs) || '%"')),
       el('span.note', met, ' of ', pairs, ' pairs · ', words)
FROM share WHERE pairs > 0 ORDER BY i
--# none No coverage was recorded.
--# before <p>{SELECT plural(count(*), 'tuple', 'tuples') FROM (SELECT DISTINCT op, placement, mesh_rank, evenness FROM
v_coverage WHERE run_id IN shown)} of op, placement, mesh rank and evenness were met. Pairs that make no sense for an op
count as not seen, so these shares do not reach 100 %.</p>
--# list ul.tags.warn li
SELECT DISTINCT op FROM v_coverage_gaps WHERE kind = 'op' AND run_id IN shown ORDER BY op
--# good {SELECT 'Every op that a run must reach was reached.' WHERE EXISTS (SELECT 1 FROM expected_op WHERE run IN
shown)}
--# before <h3>{SELECT plural(?9, 'op had to be reached and was not', 'ops had to be reached and were not')}</h3>
--# table Placements not seen
SELECT o.op AS Op, o.seen AS "#Seen", count(g.value) AS "#Not seen",
       el('code.wrap', cut(group_concat(g.value, '  '), 240)) AS "Placements that other ops had"
FROM (SELECT op, count(DISTINCT placement) AS seen FROM v_coverage WHERE run_id IN shown GROUP BY op) o
JOIN (SELECT DISTINCT op, value FROM v_coverage_gaps WHERE kind = 'placement' AND run_id IN shown) g ON g.op = o.op
GROUP BY o.op ORDER BY count(g.value) DESC, o.op LIMIT 20
--# before <details><summary>Ops with the most placements not seen</summary>
--# after </details>
--# list ul.tags li
SELECT label, ' ', el('b', sum(hits)) FROM v_labels WHERE run_id IN shown AND label NOT LIKE 'golden %: %'
GROUP BY label ORDER BY sum(hits) DESC, label
--# before <h3>Labels</h3>

--# panel goldens: Goldens of the random stream (Goldens)
--# table Draws by operator and dtype
SELECT what AS Operator, sum(n) FILTER (WHERE state = 'recorded') AS "#Recorded",
       sum(n) FILTER (WHERE state = 'published') AS "#Published", sum(n) FILTER (WHERE state = 'computed') AS
         "#Computed",
       sum(n) FILTER (WHERE state = 'not recorded') AS "#Not recorded"
FROM goldens GROUP BY what ORDER BY what
--# none The suite golden did not run. <code>lockstep run --suite golden</code> compares with what stock libtorch drew
on GPUs.
--# before <p>Of the draws of this run, {SELECT el('b', total(n)) FROM goldens WHERE state = 'recorded'} were compared
with what stock libtorch drew on a GPU and <code>golden/record</code> recorded, {SELECT el('b', total(n)) FROM goldens
WHERE state = 'published'} with values that others published, {SELECT el('b', total(n)) FROM goldens WHERE state =
'computed'} with an independent computation. {SELECT el('b', total(n)) FROM goldens WHERE state = 'not recorded'} are
not recorded: closed form and simulation agree on them, and no GPU was asked. <code>golden/README.md</code> says how to
ask one.</p>

--# panel faults: Planted faults (Faults)
--# table Planted faults
SELECT html(fault, iif(note = '', '', html(el('br'), el('span.quiet', note)))) AS Fault,
       yes_no(found, 'found', 'survived') AS Outcome, class AS Class, cases AS "#Cases until found",
       iif(found, shrunk_ops, NULL) AS "#Shrunk to ops", suite AS Suite,
       iif(token = '', NULL, copied('f' || row_number() OVER (ORDER BY found, class, fault), 'token', token)) AS Token
FROM v_faults WHERE run_id IN shown ORDER BY found, class, v_faults.fault
--# none No fault was planted. <code>lockstep run --suite faults</code> plants them all.
--# before <p>A harness that finds nothing may be blind. These faults were planted on purpose: {SELECT el('b',
sum(found), ' of ', ?9), ' were found, ', el('b', sum(found AND shrunk_ops <= 3)) FROM v_faults WHERE run_id IN shown}
shrunk to three ops or fewer.</p>
--# table Planted faults by class
SELECT class AS Class, sum(found) AS "#Found", count(*) AS "#Planted", percent(sum(found), count(*)) AS "#Share",
       max(iif(found, cases, NULL)) AS "#Most cases until found", max(iif(found, shrunk_ops, NULL)) AS "#Most ops"
FROM v_faults WHERE run_id IN shown GROUP BY class ORDER BY 1.0 * sum(found) / count(*), class
--# before <h3>By class</h3>

--# panel exceptions: Expected exceptions (Exceptions)
--# table Expected exceptions
SELECT op AS Op, dtype AS Dtype, reason AS Reason, sum(hits) AS "#Times" FROM v_exceptions WHERE run_id IN shown
GROUP BY op, dtype, reason ORDER BY op, dtype
--# good None: no op is excused.
--# before <p>{SELECT plural(?9, 'entry', 'entries')} of op and dtype may differ, each for a stated reason. A test fails
when one of them no longer does.</p>

--# panel refusals: What gave up, and what is forgiven (Refusals)
--# text <p>A case gives up where the engine refuses it by its documentation, or its form is not built: neither a pass
nor a failure. The gate compares these counts with its baseline's.</p>
--# table Cases that gave up
SELECT nullif(op, '') AS Op, reason AS Reason, suite AS Suite, sum(hits) AS "#Cases" FROM v_refusals
WHERE run_id IN shown GROUP BY op, reason, suite ORDER BY sum(hits) DESC, op, reason, suite
--# none No case gave up with a reason that was counted.
--# text <h3>Forgiven</h3><p>Where the engine and one device reach the same values by way of other bookkeeping, the
judge lets their logs differ, each time for one of these reasons. Values are never forgiven.</p>
--# table Forgiven
SELECT op AS Op, kind AS Kind, sum(hits) AS "#Times", reason AS "=Reason" FROM v_forgiven WHERE run_id IN shown
GROUP BY op, kind, reason ORDER BY kind, sum(hits) DESC, op
--# good Nothing was forgiven.

--# panel environment: Environment (Environment)
--# list dl.facts div
SELECT el('dt', name), el('dd', group_concat(value, ' · ')) FROM (SELECT DISTINCT name, value FROM v_environment
WHERE run_id IN shown ORDER BY name, value) GROUP BY name
--# none No run was recorded.
--# table Runs
SELECT run AS Run, Command, "#Seed", State, Started, "#Took", "#Cases", "#Failures" FROM runs WHERE run_id IN shown
ORDER BY time DESC, run LIMIT 50
--# before <h3>Runs on this page</h3>
--# table Runs
SELECT run AS Run, Command, "#Seed", State, Started, "#Took", "#Cases", "#Failures" FROM runs WHERE run_id NOT IN shown
ORDER BY time DESC, run LIMIT 50
--# before <details><summary>Runs of other builds in this store</summary>
--# after </details>
