# SPDX-License-Identifier: Apache-2.0
"""For tests of scripts that read a store: one with the released schema, and rows whose other columns are empty."""
import pathlib, sqlite3

SCHEMA = pathlib.Path(__file__).resolve().parents[1] / "dashboard/store/schema"


def new_store(path):
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA synchronous = OFF")
    versions = sorted(SCHEMA.glob("[0-9]*.sql"))
    for file in [*versions, SCHEMA / "views.sql"]:
        db.executescript(file.read_text())
    db.execute(f"PRAGMA user_version = {len(versions)}")
    db.execute("PRAGMA ignore_check_constraints = 1")
    return db


def insert(db, table, **facts):
    """@returns the row number. Columns that are not given and must not be NULL are empty or 0."""
    for _, column, kind, required, default, key in db.execute(f"PRAGMA table_info({table})").fetchall():
        if required and default is None and column != "id":
            facts.setdefault(column, {"TEXT": "", "BLOB": b""}.get(kind, 0))
    marks = ", ".join("?" * len(facts))
    return db.execute(f"INSERT INTO {table} ({', '.join(facts)}) VALUES ({marks})", list(facts.values())).lastrowid


def insert_run(db, name="run", **facts):
    return insert(db, "run", **{"key": name.encode(), "name": name, "commit_id": "c0ffee", "build_hash": "build",
                                "cpu": "Test CPU", "cores": 2, "libtorch": "2.11.0", "state": "finished", **facts})
