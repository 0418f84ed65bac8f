# SPDX-License-Identifier: Apache-2.0
"""Runs the woven program once for each mutant, until its first finding, and keeps what came of it. What is kept for this tree
and plan is not run again: a campaign that was cut goes on. A run without a mutant comes first, and says whose places it ran:
a mutant anywhere else survives the same run, which is not made."""
import concurrent.futures, dataclasses, json, math, os, pathlib, shutil, signal, sqlite3, subprocess, time

import classes

TABLE = """CREATE TABLE IF NOT EXISTS outcome (
  tree TEXT, plan TEXT, id TEXT, class TEXT, operator TEXT, file TEXT, line INTEGER, what TEXT,
  found INTEGER,      -- whether the run was red
  how TEXT,           -- verdict of the first finding, or what else made it red
  code INTEGER, cases INTEGER, seconds REAL, suite TEXT, op TEXT, bucket TEXT, token TEXT, shrunk_ops INTEGER,
  explanation TEXT,
  reached TEXT,       -- ops under which the mutant's place was run, space between; NULL: under none
  named INTEGER,      -- whether the finding names one of them; NULL: it names no op
  verdicts TEXT,      -- JSON: how many cases came out how
  unreached TEXT,     -- of the run without a mutant: JSON, ids of those whose place it never ran
  PRIMARY KEY (tree, plan, id)) STRICT"""
NOBODY = ""  # the id of the run without a mutant
HANG = 120   # seconds without a sign of life


@dataclasses.dataclass(frozen=True)
class Plan:
    """How long a mutant is looked for: the default plan, or so many cases."""
    cases: int = 0
    seed: int = 0

    @property
    def name(self):
        return f"{self.cases or 'default'}, seed {self.seed}"

    @property
    def options(self):
        return ["--seed", str(self.seed)] + (["--cases", str(self.cases)] if self.cases else [])

    @property
    def patience(self):
        """Seconds after which a run is taken for one that does not end."""
        return 1200 + self.cases / 20


def open_store(path):
    store = sqlite3.connect(path, timeout=60)
    store.row_factory = sqlite3.Row
    store.execute(TABLE)
    return store


def put(store, row):
    marks = ", ".join("?" * len(row))
    store.execute(f"INSERT OR REPLACE INTO outcome ({', '.join(row)}) VALUES ({marks})".replace("class,", '"class",'),
                  list(row.values()))
    store.commit()


def known(store, tree, plan):
    return {row["id"] for row in store.execute("SELECT id FROM outcome WHERE tree = ? AND plan = ?", (tree, plan.name))}


def first_finding(db):
    """What the run's own database says of the first case that failed, and of all cases."""
    found = {"cases": 0, "verdicts": "{}"}
    if not db.exists():
        return found
    with sqlite3.connect(f"file:{db}?mode=ro", uri=True) as store:
        store.row_factory = sqlite3.Row
        verdicts = dict(store.execute("SELECT verdict, count(*) FROM cases GROUP BY verdict").fetchall())
        found |= {"cases": sum(verdicts.values()), "verdicts": json.dumps(verdicts)}
        case = store.execute("""SELECT suite, op, bucket, token, verdict, self_check, explanation FROM cases
                                JOIN verdict ON verdict.name = cases.verdict WHERE failure = 1
                                ORDER BY cases.id LIMIT 1""").fetchone()
        if case is None:
            return found
        small = store.execute("SELECT token, ops FROM failure WHERE bucket = ?", (case["bucket"],)).fetchone()
        found |= {k: case[k] for k in ("suite", "op", "bucket", "token", "explanation")}
        found["how"] = "self-check" if case["self_check"] else case["verdict"]
        if small is not None:
            found |= {"token": small["token"], "shrunk_ops": small["ops"]}
    return found


def how_it_ended(code):
    if code is None:
        return "does not end"
    return f"signal {-code}" if code < 0 else {3: "broken", 5: "not measured", 8: "self-check"}.get(code, f"exit {code}")


def execute(command, env, cwd, patience):
    """@returns the exit code; None: it was ended after so many seconds"""
    with open(cwd / "out.txt", "w") as out:
        process = subprocess.Popen(command, env=env, cwd=cwd, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
        try:
            return process.wait(patience)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def names_right(op, reached):
    """Whether an op is one under which the mutant was reached: an overload of it, or a move that one asked for."""
    return op == "lockstep::redistribute" and bool(reached) or op.partition(".")[0] in reached


def noticed_by(build, tests, env, work):
    """Which test of these is red, the first; None: none."""
    for test in tests:
        if execute([str(build / test)], env, work, 600) != 0:
            return f"test {test.rpartition('/')[2]}"
    return None


def who(point):
    return {"id": point.id, "class": classes.class_of(point), "operator": point.operator, "file": point.file,
            "line": point.line, "what": point.what}


def fresh_folder(work):
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    return work


def try_one(build, point, number, plan, folder, tests=(), environment=()):
    """@param point None: no mutant is on  @returns its row, without tree"""
    work = fresh_folder(folder / f"run-{number}")
    began = time.monotonic()
    command = [build / "ci/program/lockstep", "run", "--fail-fast", "--no-corpus", "--jobs", "1", "--db", "run.db", "--report", "",
               "--hang", str(HANG), *plan.options, *(classes.plan_of(point) if point else [])]
    switch = {"LOCKSTEP_MUTANT": str(number), "LOCKSTEP_MUTANT_OPS": str(work / "ops.txt"), **dict(environment)}
    code = execute(command, {**os.environ, **switch}, work, plan.patience)
    if code == 2 and not (work / "run.db").exists():
        raise SystemExit(f"mutate: {' '.join(map(str, command))} is not understood; see {work}/out.txt")
    red = noticed_by(build, tests, {**os.environ, **switch}, work) if code == 0 else how_it_ended(code)
    row = {"plan": plan.name, "id": NOBODY, "code": code, "found": int(bool(red))}
    if point is not None:
        row |= who(point)
    row |= {"how": red or ""} | first_finding(work / "run.db")
    if (work / "ops.txt").exists():
        row["reached"] = " ".join(sorted(set((work / "ops.txt").read_text().split())))
    if row.get("op"):
        row["named"] = int(names_right(row["op"], (row.get("reached") or "").split()))
    row["seconds"] = time.monotonic() - began
    if not row["found"] or point is not None and row.get("suite"):
        shutil.rmtree(work)
    return row


def try_nobody(build, mutants, plan, folder, tests):
    """The run without a mutant. @returns its row, without tree"""
    places = folder / "places"
    folder.mkdir(parents=True, exist_ok=True)
    places.write_bytes(bytes(max(mutants, default=0) + 1))
    row = try_one(build, None, 0, plan, folder, tests, {"LOCKSTEP_MUTANT_PLACES": str(places)})
    run = places.read_bytes()
    return row | {"unreached": json.dumps(sorted(point.id for number, point in mutants.items() if not run[number]))}


def never_reached(nobody, point):
    """The row of a mutant whose place is not run: that of the run without one."""
    kept = {k: nobody[k] for k in ("plan", "code", "found", "how", "cases", "verdicts")}
    return kept | who(point) | {"seconds": 0.0}


def try_all(build, mutants, plan, folder, jobs, tests=(), seconds=math.inf):
    """Yields the rows as they come. @param mutants {number: Point}; none is begun after so many seconds"""
    end = time.monotonic() + seconds

    def in_time(*job):
        return try_one(*job) if time.monotonic() < end else None
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(in_time, build, point, number, plan, folder, tests) for number, point in mutants.items()]
        try:
            for future in concurrent.futures.as_completed(waiting):
                if (row := future.result()) is not None:
                    yield row
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def nobodys(store, tree, plan):
    return store.execute("SELECT * FROM outcome WHERE tree = ? AND plan = ? AND id = ?", (tree, plan.name, NOBODY)).fetchone()


def run(store, build, tree, mutants, plan, folder, jobs, say, tests=(), seconds=math.inf):
    """@param build the folder of the woven build  @param mutants {number: Point}; those that the store knows are left out"""
    if nobodys(store, tree, plan) is None:
        row = try_nobody(build, mutants, plan, folder, tests)
        if row["found"]:
            raise SystemExit(f"mutate: the woven program ends with {row['code']} ({row['how']}) without a mutant;"
                             f" see {folder}/run-0")
        put(store, {"tree": tree, **row})
    nobody = nobodys(store, tree, plan)
    unreached = set() if tests else set(json.loads(nobody["unreached"]))
    left = {number: point for number, point in mutants.items() if point.id not in known(store, tree, plan)}
    for number in [n for n, point in left.items() if point.id in unreached and not classes.plan_of(point)]:
        put(store, {"tree": tree, **never_reached(nobody, left.pop(number))})
    say(f"{len(mutants) - len(left)} of {len(mutants)} mutants are done, or are where the plan never goes")
    for at, row in enumerate(try_all(build, left, plan, folder, jobs, tests, seconds), 1):
        put(store, {"tree": tree, **row})
        say(f"{at}/{len(left)} {row['how'] or 'SURVIVED'} after {row['cases']}: {row['id']}: {row['what']}")
