# SPDX-License-Identifier: Apache-2.0
"""A campaign as a run of the store: a mutant is a planted fault, so the report and the pages show who was found, by class."""
import hashlib, os, platform, sqlite3, time

from tried import found_later, survived


def note_of(row):
    """How a mutant was found, and whether the finding names what was changed."""
    if survived(row):
        return "its place was run" if row["reached"] else "its place was never run"
    names = {None: "", 0: "; another op is named", 1: "; an op that runs it is named"}[row["named"]]
    return row["how"] + (f", in {row['plan']:,} cases" if found_later(row) else "") + names


def fault_of(row):
    return {"name": row["id"], "klass": row["class"], "found": int(not survived(row)), "cases": row["cases"],
            "shrunk_ops": row["shrunk_ops"] or 0, "suite": "", "token": "", "note": note_of(row)}


def insert(db, table, facts):
    marks = ", ".join(f":{name}" for name in facts)
    return db.execute(f"INSERT INTO {table} ({', '.join(facts)}) VALUES ({marks})", facts).lastrowid


def record(database, scope, commit, rows, red):
    """Adds one run to a store that is there; of the same rows and commit a second time, nothing. All or none of it is written.
    @param rows as tried.txt has them, without equivalent ones  @param red whether a class is  @returns whether it was added"""
    key = hashlib.md5(repr([scope, commit, sorted(map(str, rows))]).encode()).digest()
    now = int(time.time() * 1000)
    db = sqlite3.connect(database, timeout=30)
    with db:
        if db.execute("SELECT 1 FROM run WHERE key = ?", (key,)).fetchone():
            return False
        run = insert(db, "run", {
            "key": key, "name": f"mutants of the {scope}", "command": f"ci/mutate run --scope {scope}", "seed": 0, "numerics": "exact",
            "plan": "{}", "build_hash": "", "commit_id": commit, "cpu": platform.processor(), "cores": os.cpu_count(), "compiler": "",
            "libtorch": "", "started_ms": now, "ended_ms": now, "state": "finished", "exit_code": int(red)})
        for row in rows:
            insert(db, "planted_fault", {"run": run, **fault_of(row)})
    db.close()
    return True
