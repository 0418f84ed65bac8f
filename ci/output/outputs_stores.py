# SPDX-License-Identifier: Apache-2.0
"""Stores with generated rows, written into the tables themselves, and the counts that the tables say."""
import os
import shutil
import sqlite3

NEWEST = "build-2"
COMMITS = 5


def connect(path):
    db = sqlite3.connect(path)
    db.text_factory = bytes
    return db


def fresh(empty, path):
    """A store without a row: the views and tables of one that was published."""
    shutil.copyfile(empty, path)
    os.chmod(path, 0o644)
    db = sqlite3.connect(path)
    db.execute("PRAGMA foreign_keys=OFF")
    keep = ("verdict",)
    tables = db.execute("SELECT name FROM sqlite_schema WHERE type='table' AND name NOT LIKE 'sqlite_%'").fetchall()
    for (name,) in tables:
        if name not in keep:
            db.execute(f"DELETE FROM {name}")
    db.commit()
    db.close()
    return path


def raw(name):
    """Names are bytes: the latin-1 text of one that is no UTF-8 stands for it."""
    return name.encode("latin-1") if name.startswith("\xff\xfe") else name.encode("utf-8")


def insert(db, table, **values):
    marks = ", ".join("CAST(? AS TEXT)" if isinstance(v, bytes) and k not in ("key", "outcome") else "?"
                      for k, v in values.items())
    cursor = db.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", list(values.values()))
    return cursor.lastrowid


def add_run(db, n, build, commit, code, name=b"x", state="finished"):
    return insert(db, "run", key=n.to_bytes(16, "big"), name=b"run %d " % n + name, command=name, seed=-n,
                  numerics="exact", plan="{}", build_hash=build, commit_id=commit, cpu=name, cores=2, compiler=name,
                  libtorch=name,
                  started_ms=10**12 + n * 10**6, ended_ms=10**12 + n * 10**6 + 1234, state=state, exit_code=code)


def add_case(db, run, n, verdict, suite, bucket, name=b"x", self_check=0, law=b"law"):
    return insert(db, "cases", run=run, key=n.to_bytes(16, "big"), outcome=n.to_bytes(16, "little"), number=n,
                  suite=suite, law=law, variant=b"", self_check=self_check, token=b"v1:" + name + b"%d" % n, ops=name,
                  mesh=b"2x2",
                  verdict=verdict, op=name, placement=name, mesh_rank=2, evenness="even", dtype="f32", how="random",
                  time_ns=1000 + n, bytes_moved=n, bucket=bucket, explanation=b"because " + name)


def add_judgement(db, n, build, code, codes):
    return insert(db, "judgement", key=n.to_bytes(16, "big"), judged_ms=10**12 + n, baseline="a", candidate="b",
                  commit_id="c", build_hash=build, policy="{}", exit_code=code, codes=codes)


def generate(empty, path, rng, hostile):
    """A history of commits with every kind of row; names from `hostile`, if given."""
    fresh(empty, path)
    db = connect(path)
    names = [raw(name) for name in hostile or ["ops", "program", "layout", "aten::mm", "S0,R"]]
    verdicts = [name.decode() for (name,) in db.execute("SELECT name FROM verdict").fetchall()]
    failing = {name.decode() for (name,) in db.execute("SELECT name FROM verdict WHERE failure").fetchall()}
    number = 0
    for n in range(1, COMMITS + 1):
        newest = n >= COMMITS - 1  # two runs of the newest build
        run = add_run(db, n, NEWEST if newest else f"old-{n}", "newest" if newest else f"commit-{n}",
                      rng.choice([0, 1, 5]), rng.choice(names), "finished" if rng.random() < 0.8 else "running")
        for _ in range(rng.randint(5, 60)):
            number += 1
            verdict, name = rng.choice(verdicts), rng.choice(names)
            bucket = rng.choice(names) + b"|" + verdict.encode() if verdict in failing else b""
            self_check = int(rng.random() < 0.1)
            if bucket and not self_check:  # a bucket is of one suite
                bucket, suite = bucket + b"|of", names[len(bucket) % len(names)]
            else:
                bucket, suite = b"", rng.choice(names)
                verdict = verdict if self_check or verdict not in failing else "equal"
            add_case(db, run, number, verdict, suite, bucket, name, self_check)
        for suite in set(names):
            insert(db, "plan_item", run=run, kind="suite", name=suite, least=rng.randint(0, 5))
            insert(db, "gate", run=run, rule=suite, passed=rng.randint(0, 1), required=suite, got=rng.choice(names))
            insert(db, "planted_fault", run=run, name=suite, klass=rng.choice(names), found=rng.randint(0, 1), cases=3,
                   shrunk_ops=1, suite=suite, token=suite, note=suite)
            insert(db, "pruned", run=run, suite=suite, self_check=0, verdict="equal", cases=rng.randint(1, 9),
                   time_ns=5, bytes_moved=7)
            insert(db, "coverage", run=run, worker="w", op=suite, placement=rng.choice(names), mesh_rank=1,
                   evenness="even", verdict="equal", hits=1)
    buckets = [b for (b,) in db.execute("SELECT DISTINCT bucket FROM cases WHERE bucket <> ''").fetchall()]
    for n in range(rng.randint(1, 3) if hostile else 1):
        judgement = add_judgement(db, n + 1, NEWEST if rng.random() < 0.7 else "old", rng.choice([0, 1, 5]), "[5, 1]")
        for seq in range(40 if hostile else 3):
            insert(db, "finding", judgement=judgement, seq=seq, rule=rng.choice(names),
                   subject=rng.choice(buckets + names), effect=rng.choice(["block", "warn", "note"]),
                   code=rng.choice([1, 3, 5]), expected=rng.choice(names), got=rng.choice(names),
                   detail=rng.choice(names), replay=rng.choice(names))
        for bucket in rng.sample(buckets, min(3, len(buckets))):
            insert(db, "muted", judgement=judgement, bucket=bucket, owner=rng.choice(names), reason=rng.choice(names),
                   expires="2999-01-01")
        for series in set(names):
            insert(db, "series_verdict", judgement=judgement, series=series, kind="timed", against="turns",
                   verdict=rng.choice(["same", "slower", "faster", "not measured"]), samples=5, ratio=1.1, low=1.0,
                   high=float("inf"), p=None, detectable=0.1, false_alarms=0.0)
    db.commit()
    db.close()
    return path


def many_buckets(empty, path, n):
    """More failures than any output shows."""
    fresh(empty, path)
    db = connect(path)
    run = add_run(db, 1, NEWEST, "newest", 1)
    for i in range(n):
        add_case(db, run, i + 1, "different", b"ops", b"bucket %d" % i)
    db.commit()
    db.close()
    return path


def huge_names(empty, path):
    """Each name a megabyte."""
    fresh(empty, path)
    db = connect(path)
    huge = b"<]]>&\x1b\xff|" * 150_000
    run = add_run(db, 1, NEWEST, huge, 1, huge)
    for i, verdict in enumerate(["different", "broken", "equal", "crashed"]):
        bucket = b"" if verdict == "equal" else huge + b"%d" % i
        add_case(db, run, i + 1, verdict, huge, bucket, huge, law=huge)
    judgement = add_judgement(db, 1, NEWEST, 1, "[1]")
    for seq in range(12):
        name = huge if seq < 2 else b"short"
        insert(db, "finding", judgement=judgement, seq=seq, rule=name, subject=name + b"%d" % seq, effect="block",
               code=1, expected=name, got=name, detail=name, replay=name)
    db.commit()
    db.close()
    return path


def add_samples(path, rows):
    db = connect(path)
    db.execute("DELETE FROM measurement")
    (run,) = db.execute("SELECT id FROM run").fetchone() or (add_run(db, 9, NEWEST, "newest", 0),)
    db.executemany("INSERT INTO measurement VALUES (?, 'w', 's', '', ?, 'ns', 0, 1.5)", ((run, i) for i in range(rows)))
    db.commit()
    db.close()


def explain_each_case(path, text):
    """A copy in which the failures that every output shows say this."""
    copy = shutil.copyfile(path, path + ".explained")
    db = connect(copy)
    db.execute("UPDATE cases SET explanation = ?", (text,))
    db.commit()
    db.close()
    return copy


def rows_of(path, view):
    db = connect(path)
    cursor = db.execute(f"SELECT * FROM {view}")
    return [column[0] for column in cursor.description], cursor.fetchall()


def counts(path):
    """What the tables say, without the views that the outputs read, but for the life of buckets and the gaps."""
    db = connect(path)

    def one(query):
        return db.execute(query).fetchone()[0] or 0

    def by(prefix, query):
        return {prefix + valid(name): n for name, n in db.execute(query).fetchall()}
    scope = ("(SELECT id FROM run WHERE build_hash ="
             " (SELECT build_hash FROM run ORDER BY started_ms DESC LIMIT 1))")
    judgement = one("SELECT id FROM judgement ORDER BY judged_ms DESC, id DESC LIMIT 1") if one(
        "SELECT count(*) FROM judgement") else -1
    all_cases = ("(SELECT run, self_check, verdict, bucket, 1 AS n FROM cases UNION ALL"
                 " SELECT run, self_check, verdict, '', cases FROM pruned)")
    mine, bad = f"WHERE run IN {scope}", "verdict IN (SELECT name FROM verdict WHERE failure)"
    failing = f"SELECT DISTINCT bucket FROM cases {mine} AND {bad} AND bucket <> '' AND NOT self_check"
    want = {
        "runs": one(f"SELECT count(*) FROM run WHERE id IN {scope}"),
        "unfinished": one(f"SELECT count(*) FROM run WHERE id IN {scope} AND state <> 'finished'"),
        "cases": one(f"SELECT sum(n) FROM {all_cases} {mine} AND NOT self_check"),
        "failures": one(f"SELECT sum(n) FROM {all_cases} {mine} AND NOT self_check AND {bad}"),
        "buckets": one(f"SELECT count(*) FROM ({failing})"),
        "muted": one(f"SELECT count(*) FROM muted WHERE judgement = {judgement} AND bucket IN ({failing})"),
        "self_checks": one(f"SELECT sum(n) FROM {all_cases} {mine} AND self_check"),
        "missed_self_checks": one(f"SELECT sum(n) FROM {all_cases} {mine} AND self_check AND {bad}"),
        "demands": one(f"SELECT count(*) FROM plan_item {mine}"),
        "unmet": one(f"""SELECT count(*) FROM plan_item p {mine} AND least >
            (SELECT count(*) FROM cases c WHERE c.run = p.run AND c.suite = p.name) +
            (SELECT coalesce(sum(cases), 0) FROM pruned c WHERE c.run = p.run AND c.suite = p.name)"""),
        "gates": one(f"SELECT count(*) FROM gate {mine}"),
        "red_gates": one(f"SELECT count(*) FROM gate {mine} AND NOT passed"),
        "faults": one(f"SELECT count(*) FROM planted_fault {mine}"),
        "survived": one(f"SELECT count(*) FROM planted_fault {mine} AND NOT found"),
        "gaps": one(f"SELECT count(*) FROM v_coverage_gaps WHERE run_id IN {scope}"),
        "finding.block": 0, "finding.note": 0, "finding.warn": 0}
    want.update(by("verdict.", f"SELECT verdict, sum(n) FROM {all_cases} {mine} AND NOT self_check GROUP BY 1"))
    want.update(by("bucket.", "SELECT state, count(*) FROM v_buckets GROUP BY 1"))
    want.update(by("finding.", f"SELECT effect, count(*) FROM finding WHERE judgement = {judgement} GROUP BY 1"))
    want.update(by("series.", f"SELECT verdict, count(*) FROM series_verdict WHERE judgement = {judgement} GROUP BY 1"))
    return want


def valid(name):
    return name.decode("utf-8")
