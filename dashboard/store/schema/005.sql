-- SPDX-License-Identifier: Apache-2.0
-- Version 5 of the store: how the cases of a run are replayed.
-- Released: never change this file, add 006.sql.

-- What `lockstep replay` must be told beside the token, with a space before it: engine, World, ranks. A planted fault
-- is the variant of its cases. '' where it was not recorded.
ALTER TABLE run ADD COLUMN replay TEXT NOT NULL DEFAULT '';
