-- SPDX-License-Identifier: Apache-2.0
-- Version 1 of the store. Released: never change this file, add 002.sql.
-- Bits are the integer that has the value's bit pattern (INTEGER has 64 bits and a sign); a REAL column
-- beside them is for display and is NULL where the value is NaN.
-- Every table has a key made of content, so that databases can be joined; row numbers stay within a file.

CREATE TABLE verdict (
  name     TEXT PRIMARY KEY,
  severity INTEGER NOT NULL UNIQUE,              -- larger is worse
  failure  INTEGER NOT NULL CHECK (failure IN (0, 1))
) STRICT, WITHOUT ROWID;
INSERT INTO verdict VALUES
  ('equal', 0, 0), ('explained', 1, 0), ('explained_local_kernel', 2, 0), ('explained_overflow', 3, 0),
  ('expected_exception', 4, 0), ('gave_up', 5, 0), ('nondeterministic', 6, 1), ('different', 7, 1),
  ('hung', 8, 1), ('crashed', 9, 1), ('broken', 10, 1);

CREATE TABLE run (
  id         INTEGER PRIMARY KEY,
  key        BLOB NOT NULL UNIQUE CHECK (length(key) = 16),  -- hash of the columns name .. libtorch
  name       TEXT NOT NULL,
  command    TEXT NOT NULL,
  seed       INTEGER NOT NULL,                   -- unsigned 64 bits
  numerics   TEXT NOT NULL,                      -- lane: exact, fast, invariant
  plan       TEXT NOT NULL,                      -- JSON, as given
  build_hash TEXT NOT NULL,
  commit_id  TEXT NOT NULL,
  cpu        TEXT NOT NULL,
  cores      INTEGER NOT NULL,
  compiler   TEXT NOT NULL,
  libtorch   TEXT NOT NULL,
  started_ms INTEGER NOT NULL,                   -- since the epoch
  ended_ms   INTEGER,
  state      TEXT NOT NULL CHECK (state IN ('running', 'interrupted', 'finished')),
  exit_code  INTEGER
) STRICT;

-- What the plan demands: at least so many cases of a suite, or with a label.
CREATE TABLE plan_item (
  run   INTEGER NOT NULL REFERENCES run (id),
  kind  TEXT NOT NULL CHECK (kind IN ('suite', 'label')),
  name  TEXT NOT NULL,
  least INTEGER NOT NULL,
  PRIMARY KEY (run, kind, name)
) STRICT, WITHOUT ROWID;

-- One row per case and outcome: a case that came out in two ways has two rows.
CREATE TABLE cases (
  id          INTEGER PRIMARY KEY,
  run         INTEGER NOT NULL REFERENCES run (id),
  -- hash of build, lane, seed, suite, law, variant, token
  key         BLOB NOT NULL CHECK (length(key) = 16),
  -- hash of verdict, op, placement, bucket, differences
  outcome     BLOB NOT NULL CHECK (length(outcome) = 16),
  number      INTEGER NOT NULL,                  -- index in the suite's sequence
  suite       TEXT NOT NULL,
  law         TEXT NOT NULL,
  variant     TEXT NOT NULL,                     -- planted fault, engine under test
  self_check  INTEGER NOT NULL CHECK (self_check IN (0, 1)),  -- the harness checks itself (faults, canary)
  token       TEXT NOT NULL,
  ops         TEXT NOT NULL,
  mesh        TEXT NOT NULL,
  verdict     TEXT NOT NULL REFERENCES verdict (name),
  op          TEXT NOT NULL,                     -- the op, or the one that first diverged
  placement   TEXT NOT NULL,
  mesh_rank   INTEGER NOT NULL,
  evenness    TEXT NOT NULL,
  dtype       TEXT NOT NULL,
  how         TEXT NOT NULL,                     -- random, exhaustive, corpus, shrink, replay
  time_ns     INTEGER NOT NULL,
  bytes_moved INTEGER NOT NULL,
  bucket      TEXT NOT NULL,                     -- signature, '' unless a failure
  explanation TEXT NOT NULL,
  UNIQUE (key, run, outcome)
) STRICT;
CREATE INDEX cases_by_bucket ON cases (run, bucket) WHERE bucket <> '';

CREATE TABLE tensor_diff (
  case_id       INTEGER NOT NULL REFERENCES cases (id) ON DELETE CASCADE,
  seq           INTEGER NOT NULL,
  value         TEXT NOT NULL,                   -- name in the Program
  bit_class     TEXT NOT NULL,
  dtype         TEXT NOT NULL,
  elements      INTEGER NOT NULL,
  different     INTEGER NOT NULL,
  max_ulp       INTEGER NOT NULL,
  max_abs_bits  INTEGER NOT NULL,                -- of a double
  first_index   TEXT NOT NULL,                 -- global index of the first difference, [3,4]
  rank          INTEGER NOT NULL,                -- that holds it, -1 unknown
  local_index   INTEGER NOT NULL,
  expected_bits INTEGER NOT NULL,                -- in dtype
  actual_bits   INTEGER NOT NULL,                -- in dtype
  float64_bits  INTEGER,                         -- the float64 evaluation, of a double
  bound_bits    INTEGER,                         -- the bound on its distance, of a double
  explained_by  TEXT NOT NULL,
  PRIMARY KEY (case_id, seq)
) STRICT, WITHOUT ROWID;

-- Counts are kept per worker and only grow: joining takes the maximum, and joining twice changes nothing.
CREATE TABLE coverage (
  run       INTEGER NOT NULL REFERENCES run (id),
  worker    TEXT NOT NULL,
  op        TEXT NOT NULL,
  placement TEXT NOT NULL,
  mesh_rank INTEGER NOT NULL,
  evenness  TEXT NOT NULL,
  verdict   TEXT NOT NULL REFERENCES verdict (name),
  hits      INTEGER NOT NULL CHECK (hits > 0),
  PRIMARY KEY (run, worker, op, placement, mesh_rank, evenness, verdict)
) STRICT, WITHOUT ROWID;

CREATE TABLE label (
  run    INTEGER NOT NULL REFERENCES run (id),
  worker TEXT NOT NULL,
  label  TEXT NOT NULL,
  hits   INTEGER NOT NULL CHECK (hits > 0),
  PRIMARY KEY (run, worker, label)
) STRICT, WITHOUT ROWID;

CREATE TABLE expected_exception (
  run    INTEGER NOT NULL REFERENCES run (id),
  worker TEXT NOT NULL,
  op     TEXT NOT NULL,
  dtype  TEXT NOT NULL,
  reason TEXT NOT NULL,
  hits   INTEGER NOT NULL CHECK (hits >= 0),
  PRIMARY KEY (run, worker, op, dtype, reason)
) STRICT, WITHOUT ROWID;

CREATE TABLE expected_op (
  run INTEGER NOT NULL REFERENCES run (id),
  op  TEXT NOT NULL,
  PRIMARY KEY (run, op)
) STRICT, WITHOUT ROWID;

-- The minimal case of each bucket.
CREATE TABLE failure (
  run          INTEGER NOT NULL REFERENCES run (id),
  bucket       TEXT NOT NULL,
  ops          INTEGER NOT NULL,
  token        TEXT NOT NULL,
  suite        TEXT NOT NULL,
  law          TEXT NOT NULL,
  verdict      TEXT NOT NULL REFERENCES verdict (name),
  program      TEXT NOT NULL,                    -- shrunk, for reading
  shrink_steps INTEGER NOT NULL,
  budget_ended INTEGER NOT NULL CHECK (budget_ended IN (0, 1)),
  PRIMARY KEY (run, bucket)
) STRICT, WITHOUT ROWID;

CREATE TABLE curve (
  id        INTEGER PRIMARY KEY,
  run       INTEGER NOT NULL REFERENCES run (id),
  name      TEXT NOT NULL,
  model     TEXT NOT NULL,
  variant   TEXT NOT NULL,                       -- init, dropout, init+dropout
  mesh      TEXT NOT NULL,
  policy    TEXT NOT NULL,
  lane      TEXT NOT NULL,
  dtype     TEXT NOT NULL,                       -- of loss and gradient norm
  reference INTEGER NOT NULL CHECK (reference IN (0, 1)),
  UNIQUE (run, name, model, variant, mesh, policy, lane, dtype, reference)
) STRICT;

CREATE TABLE curve_point (
  curve             INTEGER NOT NULL REFERENCES curve (id) ON DELETE CASCADE,
  step              INTEGER NOT NULL,
  loss_bits         INTEGER NOT NULL,
  grad_norm_bits    INTEGER NOT NULL,
  chain             BLOB NOT NULL CHECK (length(chain) = 16),  -- hash over all bits so far
  loss              REAL,
  grad_norm         REAL,
  tokens_per_second REAL NOT NULL,
  peak_bytes        INTEGER NOT NULL,
  verdict           TEXT REFERENCES verdict (name),            -- where the step was judged
  PRIMARY KEY (curve, step, loss_bits, grad_norm_bits, chain)
) STRICT, WITHOUT ROWID;

CREATE TABLE planted_fault (
  run        INTEGER NOT NULL REFERENCES run (id),
  name       TEXT NOT NULL,
  klass      TEXT NOT NULL,
  found      INTEGER NOT NULL CHECK (found IN (0, 1)),
  cases      INTEGER NOT NULL,                   -- until found, or tried in vain
  shrunk_ops INTEGER NOT NULL,
  suite      TEXT NOT NULL,
  token      TEXT NOT NULL,
  note       TEXT NOT NULL,
  PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE measurement (
  run        INTEGER NOT NULL REFERENCES run (id),
  worker     TEXT NOT NULL,
  series     TEXT NOT NULL,
  seq        INTEGER NOT NULL,
  unit       TEXT NOT NULL,
  value_bits INTEGER NOT NULL,                   -- of a double
  value      REAL,
  PRIMARY KEY (run, worker, series, seq)
) STRICT, WITHOUT ROWID;

-- The rules that decided the exit code, with what they found.
CREATE TABLE gate (
  run      INTEGER NOT NULL REFERENCES run (id),
  rule     TEXT NOT NULL,
  passed   INTEGER NOT NULL CHECK (passed IN (0, 1)),
  required TEXT NOT NULL,
  got      TEXT NOT NULL,
  PRIMARY KEY (run, rule)
) STRICT, WITHOUT ROWID;
