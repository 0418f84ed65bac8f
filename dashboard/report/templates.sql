-- SPDX-License-Identifier: Apache-2.0
-- What the panels share: templates that are functions of SQL, and views; in the form of panels.sql.

--# function yes_no(condition, yes, no)
{SELECT el(iif(?1, 'span.yes', 'span.no'), iif(?1, '✓ ' || ?2, '✗ ' || ?3))}
--# function titled(tooltip, inner)
<span title="{?1}">{?2}</span>
--# function chip(verdict)
<span class="chip v-{?1}">{SELECT words(?1)}</span>
--# function judged(verdict of a series)
{SELECT iif(?1 = '', el('span.quiet', 'not judged'), yes_no(?1 IN ('same', 'faster'), ?1, ?1))}
--# function state(of a bucket)
<span class="state s-{?1}" title="{SELECT CASE ?1 WHEN 'new' THEN 'fails at the newest commit, and never before'
WHEN 'regressed' THEN 'fails again, after three clean commits' WHEN 'active' THEN 'fails at the newest commit'
WHEN 'incubating' THEN 'does not fail now; fewer than three clean commits say so'
WHEN 'fixed' THEN 'three clean commits or more' WHEN 'muted' THEN 'the policy says not to look' END}">{?1}</span>
--# function effect(of a finding)
{SELECT CASE ?1 WHEN 'block' THEN el('span.state.s-new', '✗ blocks')
WHEN 'warn' THEN el('span.state.s-active', '! warns') ELSE el('span.state.s-fixed', '· note') END}
--# function bits(bits, dtype)
<b>{SELECT number(?1, ?2)}</b><br><code class="quiet">{SELECT digits(?1, ?2)}</code>
-- Of float64 values the bits are in the tooltip: nobody compares them by eye.
--# function double_bits(bits)
<span title="{SELECT digits(?1, 'f64')}">{SELECT number(?1, 'f64')}</span>
--# function change(factor)
{SELECT iif(abs(?1 - 1) < 0.0005, '0 %', iif(?1 - 1 > 0, '+', '−') || brief(abs(100 * (?1 - 1))) || ' %')}
--# function copy(id, what)
<button type="button" class="copy" data-copy="{?1}" aria-label="Copy the {?2}">Copy</button>
--# function copied(id, what, text)
<code class="cut" id="{?1}">{?3}</code>{SELECT copy(?1, ?2)}
--# function code_block(id, label, text)
<div class="codeblock"><span class="label">{?2}</span>{SELECT copy(?1, ?2)}<pre id="{?1}" tabindex="0"
aria-label="{?2}" role="group">{?3}</pre></div>
--# function tile(value, label, note, kind)
<div class="tile {?4}"><span class="label">{?2}</span><span class="value">{?1}</span><span
class="note">{?3}</span></div>
--# function fact(name, text)
{SELECT el('div', el('dt', ?1), el('dd', cut(?2, 400))) WHERE ?2 <> ''}
-- Widths in proportion; a class with few cases stays visible, one without any is not there.
--# function bar([[verdict, n], …])
<div class="bar-stack" aria-hidden="true">{SELECT bar_of(json_extract(value, '$[0]'), json_extract(value, '$[1]'))
FROM json_each(?1) WHERE json_extract(value, '$[1]') > 0}</div>
--# function bar_of(verdict, n)
<span class="v-{?1}" style="flex:{SELECT ?2} 0 4px" title="{?2} {SELECT words(?1)}"></span>
--# function legend([[verdict, n], …])
<ul class="legend">{SELECT el('li', chip(json_extract(value, '$[0]')), ' ', json_extract(value, '$[1]'))
FROM json_each(?1)}</ul>
--# function track(value, largest)
<div class="track"><span style="width:{SELECT brief(coalesce(min(max(100.0 * ?1 / ?2, 0), 100), 0))}%"></span></div>
--# function pick(side, letter, number of the run, run, chosen)
<label class="pick"><input type="radio" name="{?1}" value="{SELECT substr(site(), 5), ':' || ?3}"{SELECT iif(?5,
' checked', '')}><span class="hidden">{SELECT cut(?4, 40)} as the </span>{?2}</label>

--# view
-- The labels "golden STATE: OP DTYPE" of the suite golden. A run that was repeated counts once.
CREATE TEMP VIEW IF NOT EXISTS goldens AS
SELECT substr(label, 8, instr(label, ': ') - 8) AS state, substr(label, instr(label, ': ') + 2) AS what, max(hits) AS n
FROM v_labels WHERE run_id IN temp.shown AND label LIKE 'golden %: %' GROUP BY label;
-- The series with what the gate said of each commit last.
CREATE TEMP VIEW IF NOT EXISTS points AS
SELECT s.*, v.verdict FROM v_series s LEFT JOIN (
  SELECT series, commit_id, verdict, max(time) FROM v_series_verdicts GROUP BY series, commit_id) v
ON v.series = s.series AND v.commit_id = s.commit_id;
-- What the buffers of published models have of padding, in percent (lockstep bench, area planner): the newest of each.
CREATE TEMP VIEW IF NOT EXISTS paddings AS
SELECT series, substr(series, 1, place - 1) AS model, CAST(rest AS INTEGER) AS rows,
       CAST(substr(rest, instr(rest, ' on ') + 4) AS INTEGER) AS ranks, value
FROM (SELECT *, instr(series, ' in blocks of ') AS place, substr(series, instr(series, ' in blocks of ') + 14) AS rest,
             row_number() OVER (PARTITION BY series ORDER BY time DESC, run_id DESC) AS back
      FROM points WHERE series LIKE '% in blocks of % rows on % ranks: padding') WHERE back = 1;
-- Of each series the medians of the machine that measured it last: those of another say nothing about the binary.
CREATE TEMP VIEW IF NOT EXISTS history AS
SELECT *, row_number() OVER (PARTITION BY series ORDER BY time, run_id) - 1 AS n
FROM (SELECT *, first_value(cpu) OVER newest AS last_cpu, first_value(cores) OVER newest AS last_cores FROM v_series
      WHERE value IS NOT NULL WINDOW newest AS (PARTITION BY series ORDER BY time DESC, run_id DESC))
WHERE cpu = last_cpu AND cores = last_cores;
CREATE TEMP VIEW IF NOT EXISTS level_changes AS
SELECT h.series, n, el('code', cut(commit_id, 16)) AS "Since commit", at(time) AS Measured,
       html(brief(json_extract(c.value, '$.before')), ' ', unit) AS "#Before",
       html(brief(json_extract(c.value, '$.after')), ' ', unit) AS "#After",
       change(1 + json_extract(c.value, '$.effect')) AS "#Change", brief(json_extract(c.value, '$.p')) AS "#p"
FROM (SELECT series, levels(n, value) AS changes FROM history GROUP BY series) found, json_each(changes) c
JOIN history h ON h.series = found.series AND n = json_extract(c.value, '$.position');
-- What the gate said of series.
CREATE TEMP VIEW IF NOT EXISTS compared_series AS
SELECT judgement, time, series, verdict, judged(verdict) AS says, html(against, ', ', samples) AS Against,
       ratio AS "#Ratio", brief(low) || ' – ' || brief(high) AS "#Interval", p AS "#p, corrected",
       brief(100 * detectable) || ' %' AS "#Smallest effect it can see",
       brief(100 * false_alarms) || ' %' AS "#False alarms" FROM v_series_verdicts;
-- A heat map: each square is the worst verdict of an op in a column.
CREATE TEMP TABLE IF NOT EXISTS squares (op TEXT, place TEXT, verdict TEXT, severity INTEGER, hits INTEGER,
  PRIMARY KEY (op, place, severity)) WITHOUT ROWID;
CREATE TEMP TABLE IF NOT EXISTS square_columns (place TEXT, commas INTEGER);
CREATE TEMP VIEW IF NOT EXISTS newest_judgement AS
SELECT judgement FROM v_judgements ORDER BY time DESC, judgement DESC LIMIT 1;
CREATE TEMP VIEW IF NOT EXISTS rates AS
SELECT run_id, kind, name, worker, html(name, iif(worker = '', '', html(' ', el('span.quiet', worker)))) AS named,
  value,
       html(coalesce(brief(value), '–'), ' ', unit) AS "#Rate", samples AS "#Samples",
       coalesce(size(peak_bytes) || ' peak', size(bytes_moved) || ' moved') AS "#Memory" FROM v_throughput;
CREATE TEMP VIEW IF NOT EXISTS runs AS
SELECT run_id, time, run, el('code.wrap', command) AS Command, seed AS "#Seed",
       html(state, ', code ' || exit_code) AS State, at(time) AS Started, took(seconds) AS "#Took", cases AS "#Cases",
       failures AS "#Failures" FROM v_summary;
