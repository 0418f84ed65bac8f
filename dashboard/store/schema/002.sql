-- SPDX-License-Identifier: Apache-2.0
-- Version 2 of the store: measured series in several arms, kept cases that are replayed first, what the gate
-- decided, what people blessed, and counts of the cases that were pruned.
-- Released: never change this file, add 003.sql.

-- A sample belongs to an arm: '' in a plain run; 'candidate', 'again' (the same binary once more: what differs
-- is noise) and 'baseline' where binaries were measured in turns, 'confirm-candidate' and 'confirm-baseline' where
-- an alarm was measured again. `seq` is the round.
ALTER TABLE measurement RENAME TO measurement_1;
CREATE TABLE measurement (
  run        INTEGER NOT NULL REFERENCES run (id),
  worker     TEXT NOT NULL,
  series     TEXT NOT NULL,
  arm        TEXT NOT NULL,
  seq        INTEGER NOT NULL,
  unit       TEXT NOT NULL,
  value_bits INTEGER NOT NULL,                   -- of a double
  value      REAL,
  PRIMARY KEY (run, worker, series, arm, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO measurement SELECT run, worker, series, '', seq, unit, value_bits, value FROM measurement_1;
DROP TABLE measurement_1;

-- What a series is: counted work is compared exactly, timed work by statistics.
CREATE TABLE series (
  run    INTEGER NOT NULL REFERENCES run (id),
  name   TEXT NOT NULL,
  area   TEXT NOT NULL,                          -- dispatch, redistribute, random, harness, training, store
  kind   TEXT NOT NULL CHECK (kind IN ('counted', 'timed')),
  better TEXT NOT NULL CHECK (better IN ('less', 'more')),
  unit   TEXT NOT NULL,
  PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;

-- Kept cases, replayed before a run generates any: failures of earlier runs and what was once mended.
CREATE TABLE corpus (
  token    TEXT PRIMARY KEY,
  suite    TEXT NOT NULL,
  bucket   TEXT NOT NULL,                        -- that it is the witness of, '' if none
  origin   TEXT NOT NULL,                        -- golden, failure, boundary, slow
  since_ms INTEGER NOT NULL,
  note     TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- How a kept case came out in a run. An absent row means that the case was not replayed: not that it passed.
CREATE TABLE replayed (
  run     INTEGER NOT NULL REFERENCES run (id),
  token   TEXT NOT NULL,
  bucket  TEXT NOT NULL,                         -- that it was the witness of
  verdict TEXT NOT NULL REFERENCES verdict (name),
  now     TEXT NOT NULL,                         -- bucket that it fell into this time, '' if it passed
  PRIMARY KEY (run, token, bucket, verdict, now)
) STRICT, WITHOUT ROWID;

-- Cases that `lockstep prune` removed; the views count them.
CREATE TABLE pruned (
  run         INTEGER NOT NULL REFERENCES run (id),
  suite       TEXT NOT NULL,
  self_check  INTEGER NOT NULL CHECK (self_check IN (0, 1)),
  verdict     TEXT NOT NULL REFERENCES verdict (name),
  cases       INTEGER NOT NULL CHECK (cases > 0),
  time_ns     INTEGER NOT NULL,
  bytes_moved INTEGER NOT NULL,
  PRIMARY KEY (run, suite, self_check, verdict)
) STRICT, WITHOUT ROWID;

-- What else is known of where a run took place.
CREATE TABLE fact (
  run   INTEGER NOT NULL REFERENCES run (id),
  name  TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run, name, value)
) STRICT, WITHOUT ROWID;

-- Curves from elsewhere: how exactly they were written down, and which numbers they have.
ALTER TABLE curve ADD COLUMN digits INTEGER;     -- significant decimal digits; NULL: every bit
ALTER TABLE curve ADD COLUMN fields TEXT NOT NULL DEFAULT 'loss grad_norm';

-- Where two recorded runs of one engine first part, by the digests that they logged.
CREATE TABLE divergence (
  run       INTEGER NOT NULL REFERENCES run (id),
  curve     TEXT NOT NULL,
  reference TEXT NOT NULL,
  compared  INTEGER NOT NULL,                    -- log entries that were paired
  step      INTEGER,                             -- NULL: nowhere
  position  INTEGER,                             -- of the op within its step
  op        TEXT NOT NULL,
  rank      INTEGER NOT NULL,
  what      TEXT NOT NULL,                       -- input, output, sequence, missing
  expected  TEXT NOT NULL,
  got       TEXT NOT NULL,
  PRIMARY KEY (run, curve, reference)
) STRICT, WITHOUT ROWID;

-- One decision of the gate.
CREATE TABLE judgement (
  id        INTEGER PRIMARY KEY,
  key       BLOB NOT NULL UNIQUE CHECK (length(key) = 16),  -- hash of everything below and its findings
  judged_ms INTEGER NOT NULL,
  baseline  TEXT NOT NULL,                       -- file, as given
  candidate TEXT NOT NULL,
  commit_id TEXT NOT NULL,                       -- of the candidate
  build_hash TEXT NOT NULL,
  policy    TEXT NOT NULL,                       -- JSON: the policy in force, defaults written out
  exit_code INTEGER NOT NULL,
  codes     TEXT NOT NULL                        -- JSON: every code that applies
) STRICT;

CREATE TABLE finding (
  judgement INTEGER NOT NULL REFERENCES judgement (id) ON DELETE CASCADE,
  seq       INTEGER NOT NULL,
  rule      TEXT NOT NULL,                       -- new_difference, lost_coverage, slower, ...
  subject   TEXT NOT NULL,                       -- bucket, suite, label, series, ...
  effect    TEXT NOT NULL CHECK (effect IN ('block', 'warn', 'note')),
  code      INTEGER NOT NULL,                    -- exit code that it stands for
  expected  TEXT NOT NULL,
  got       TEXT NOT NULL,
  detail    TEXT NOT NULL,                       -- one sentence
  replay    TEXT NOT NULL,                       -- a shell command, '' if there is none
  PRIMARY KEY (judgement, seq)
) STRICT, WITHOUT ROWID;

-- The mutes of the policy in force.
CREATE TABLE muted (
  judgement INTEGER NOT NULL REFERENCES judgement (id) ON DELETE CASCADE,
  bucket    TEXT NOT NULL,
  owner     TEXT NOT NULL,
  reason    TEXT NOT NULL,
  expires   TEXT NOT NULL,                       -- last day on which it holds, YYYY-MM-DD
  PRIMARY KEY (judgement, bucket)
) STRICT, WITHOUT ROWID;

-- What the gate found out about a measured series.
CREATE TABLE series_verdict (
  judgement    INTEGER NOT NULL REFERENCES judgement (id) ON DELETE CASCADE,
  series       TEXT NOT NULL,
  kind         TEXT NOT NULL CHECK (kind IN ('counted', 'timed')),
  against      TEXT NOT NULL,                    -- 'turns' (binaries in turns), 'history', 'exact'
  verdict      TEXT NOT NULL CHECK (verdict IN ('same', 'slower', 'faster', 'changed', 'not measured')),
  samples      INTEGER NOT NULL,                 -- pairs, or points of history
  ratio        REAL,                             -- candidate / baseline
  low          REAL,                             -- confidence interval of the ratio
  high         REAL,
  p            REAL,                             -- corrected for the number of series
  detectable   REAL,                             -- smallest effect found in 95 of 100 trials, 0.1 is 10 %
  false_alarms REAL,                             -- rate of alarms between pairs of one and the same binary
  PRIMARY KEY (judgement, series)
) STRICT, WITHOUT ROWID;

-- A change that somebody looked at and wants: the finding with this rule, subject and value is no longer one.
CREATE TABLE blessing (
  rule       TEXT NOT NULL,
  subject    TEXT NOT NULL,
  got        TEXT NOT NULL,
  reason     TEXT NOT NULL CHECK (reason <> ''),
  blessed_by TEXT NOT NULL,
  blessed_ms INTEGER NOT NULL,
  PRIMARY KEY (rule, subject, got)
) STRICT, WITHOUT ROWID;

-- Holds all that v_verdicts adds up, so that a million cases are counted without reading them.
CREATE INDEX cases_by_verdict ON cases (run, suite, self_check, verdict, time_ns, bytes_moved);
CREATE INDEX cases_by_place ON cases (run, op, placement, verdict);
