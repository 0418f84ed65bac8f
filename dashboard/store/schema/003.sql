-- SPDX-License-Identifier: Apache-2.0
-- Version 3 of the store: which engine a run was of, what gave up by op and reason, what the judge forgave, a
-- verdict of engines without a timeline.
-- Released: never change this file, add 004.sql.

-- The engine under test and its version, '' where it was not recorded. A run of Lockstep's own has no other
-- keys than before.
ALTER TABLE run ADD COLUMN engine TEXT NOT NULL DEFAULT 'lockstep';
ALTER TABLE run ADD COLUMN version TEXT NOT NULL DEFAULT '';

-- bounded: within the bounds of the float64 answer, of the case and of its float64 twin; not explained.
UPDATE verdict SET severity = -severity - 1 WHERE severity > 3;
UPDATE verdict SET severity = -severity WHERE severity < 0;
INSERT INTO verdict VALUES ('bounded', 4, 0);

-- Cases that gave up, by what was refused. Counts of a worker, which only grow; pruned cases stay in them.
CREATE TABLE refusal (
  run    INTEGER NOT NULL REFERENCES run (id),
  worker TEXT NOT NULL,
  suite  TEXT NOT NULL,
  op     TEXT NOT NULL,                          -- that refused, '' if none can be named
  reason TEXT NOT NULL,                          -- view, in place, not built, ...
  hits   INTEGER NOT NULL CHECK (hits > 0),
  PRIMARY KEY (run, worker, suite, op, reason)
) STRICT, WITHOUT ROWID;

-- Where timeline and plain run need not agree op by op, and how often that was made use of.
CREATE TABLE forgiven (
  run    INTEGER NOT NULL REFERENCES run (id),
  worker TEXT NOT NULL,
  kind   TEXT NOT NULL,                          -- alone, factory, silent, vacuous, out
  op     TEXT NOT NULL,
  reason TEXT NOT NULL,
  hits   INTEGER NOT NULL CHECK (hits > 0),
  PRIMARY KEY (run, worker, kind, op, reason)
) STRICT, WITHOUT ROWID;
