-- SPDX-License-Identifier: Apache-2.0
-- Version 4 of the store: rates of cases by suite and op, and the keys of cases that passed and whose rows went.
-- Released: never change this file, add 005.sql.

-- What cases came to, each once in each row that it belongs to: that of its suite (op and placement ''), those of its
-- ops (placement ''; the verdict is that at the op), and those of its ops on placements. Counts of a worker, which
-- only grow. Without replays of kept cases and self checks.
CREATE TABLE rate (
  run       INTEGER NOT NULL REFERENCES run (id),
  worker    TEXT NOT NULL,
  suite     TEXT NOT NULL,
  op        TEXT NOT NULL,
  placement TEXT NOT NULL,
  verdict   TEXT NOT NULL REFERENCES verdict (name),
  hits      INTEGER NOT NULL CHECK (hits > 0),
  PRIMARY KEY (run, worker, suite, op, placement, verdict)
) STRICT, WITHOUT ROWID;

-- Of a case that passed and was removed: so the gate still knows it when it comes again.
CREATE TABLE settled (
  run     INTEGER NOT NULL REFERENCES run (id),
  key     BLOB NOT NULL CHECK (length(key) = 8),  -- the first bytes of its key in `cases`
  verdict TEXT NOT NULL REFERENCES verdict (name),
  PRIMARY KEY (run, key, verdict)
) STRICT, WITHOUT ROWID;
