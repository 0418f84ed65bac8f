# SPDX-License-Identifier: Apache-2.0
"""tried.txt: what came of each mutant when it was last tried, kept with the sources, so that a campaign goes on from one machine
to the next. A line a mutant, tabs between, "" for what is not known:

  id, class, commit    which slip, of which kind, and of what tree
  plan                 how many cases it was looked for in; 0: the default plan
  how                  how it was found; "": it survived
  cases, shrunk_ops, named   after how many cases, operators of the shrunk one, whether the explanation names it
  reached              whether its place was run at all
  more                 verdicts of a survivor that are more than without it"""
import json

import classes

COLUMNS = ("id", "class", "commit", "plan", "how", "cases", "shrunk_ops", "named", "reached", "more")
NUMBERS = ("plan", "cases", "shrunk_ops", "named", "reached")
HEAD = "# What came of each mutant when it was last tried; ci/mutate keep writes it: " + ", ".join(COLUMNS) + ".\n"


def row_of(line):
    fields = dict(zip(COLUMNS, line.split("\t"), strict=True))
    numbers = {name: int(fields[name]) if fields[name] else None for name in NUMBERS}
    return {**fields, **numbers, "operator": fields["id"].rsplit(":", 2)[1]}


def read(path):
    """{id: row}, with the operator."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {row["id"]: row for row in map(row_of, (line for line in lines if not line.startswith("#")))}


def write(path, rows):
    """@param rows {id: row}"""
    lines = ["\t".join("" if rows[id_][name] is None else str(rows[id_][name]) for name in COLUMNS) for id_ in sorted(rows)]
    path.write_text(HEAD + "".join(line + "\n" for line in lines))


def more_of(row, baseline):
    """Verdicts of a survivor that the run without a mutant has fewer of; "" where it ran a plan of its own."""
    if classes.longest(classes.PLANS, row["file"]):
        return ""
    mine, plain = json.loads(row["verdicts"]), json.loads(baseline["verdicts"]) if baseline else {}
    more = {verdict: n - plain.get(verdict, 0) for verdict, n in mine.items() if verdict != "equal"}
    return ", ".join(f"{verdict} {n}" for verdict, n in sorted(more.items()) if n > 0)


def of_store(row, baseline, commit, plan):
    """One of these. @param row, baseline of the campaign's store  @param plan cases of it, 0: the default plan"""
    found = bool(row["found"])
    return {"id": row["id"], "class": row["class"], "operator": row["operator"], "commit": commit, "plan": plan,
            "how": row["how"] if found else "", "cases": row["cases"], "shrunk_ops": row["shrunk_ops"], "named": row["named"],
            "reached": int(row["reached"] is not None), "more": "" if found else more_of(row, baseline)}


def survived(row):
    return row["how"] == ""


def found_later(row):
    """By a longer plan than the default one."""
    return not survived(row) and row["plan"] != 0


def by_a_case(row):
    """Of the default plan, not by a test beside it."""
    return not survived(row) and row["plan"] == 0 and not row["how"].startswith("test ")
