# SPDX-License-Identifier: Apache-2.0
"""The score: how many mutants were found, by class; how soon, how small; and who survived."""
import collections, json, statistics

import classes

LEAST = 0.85         # of a class
MOST_EQUIVALENT = 0.08


def rows_of(store, tree):
    """{plan: {id: row}}, without the run that had no mutant."""
    plans = collections.defaultdict(dict)
    for row in store.execute("SELECT * FROM outcome WHERE tree = ? AND id <> '' ORDER BY class, id", (tree,)):
        plans[row["plan"]][row["id"]] = row
    return plans


def survivors(store, tree, plan):
    return {id_ for id_, row in rows_of(store, tree)[plan.name].items() if not row["found"]}


def equivalents(file):
    """{id: reason}: a line each, the reason behind a tab."""
    lines = file.read_text().splitlines() if file.exists() else []
    return dict(line.split("\t", 1) for line in lines if line and not line.startswith("#"))


def score(name, rows, same, later):
    """@param later ids that a longer plan found"""
    counted = [row for row in rows if row["id"] not in same]
    found = [row for row in counted if row["found"]]
    small = [row["shrunk_ops"] for row in found if row["shrunk_ops"] is not None]
    named = [row["named"] for row in found if row["named"] is not None]
    return {"of": name, "mutants": len(counted), "equivalent": len(rows) - len(counted), "found": len(found),
            "later": sum(row["id"] in later for row in counted if not row["found"]),
            "cases": statistics.median([row["cases"] for row in found]) if found else None,
            "ops": statistics.median(small) if small else None,
            "names an op": len(named), "names it rightly": sum(named)}


def is_red(line):
    share = line["found"] / line["mutants"] if line["mutants"] else 1
    return share < LEAST or line["equivalent"] > MOST_EQUIVALENT * (line["mutants"] + line["equivalent"])


def scores(rows, same, later=(), by="class"):
    """A line for each class or operator, and one for all at the end."""
    kinds = collections.defaultdict(list)
    for row in rows:
        kinds[row[by]].append(row)
    return [score(name, of, same, later) for name, of in [*sorted(kinds.items()), ("all", list(rows))]]


def more_of(row, baseline):
    """Verdicts of a survivor that the run without a mutant has fewer of; {} where it ran a plan of its own."""
    if classes.longest(classes.PLANS, row["file"]):
        return {}
    mine, plain = json.loads(row["verdicts"]), json.loads(baseline["verdicts"]) if baseline else {}
    return {verdict: n - plain.get(verdict, 0) for verdict, n in mine.items()
            if verdict != "equal" and n > plain.get(verdict, 0)}


def print_lines(by, lines):
    print(f"{by:24}{'mutants':>8}{'equal':>7}{'found':>7}{'score':>8}{'later':>7}{'cases':>8}{'ops':>6}{'named':>10}")
    for line in lines:
        share = line["found"] / line["mutants"] if line["mutants"] else 1
        named = f"{line['names it rightly']}/{line['names an op']}"
        print(f"{line['of']:24}{line['mutants']:8}{line['equivalent']:7}{line['found']:7}{share:8.1%}{line['later']:7}"
              f"{line['cases'] or 0:8.0f}{line['ops'] or 0:6.1f}{named:>10}{'  RED' if by == 'class' and is_red(line) else ''}")


def print_survivors(rows, baseline):
    for row in rows:
        more = more_of(row, baseline)
        where = "" if row["reached"] is not None else " [never reached]"
        print(f"survived: {row['id']} (line {row['line']}): {row['what']}{where}{f' {more}' if more else ''}")


def goals(line, explained):
    """(what was promised of all mutants, whether it holds). @param explained survivors with more `explained` cases"""
    of = line["mutants"] or 1
    yield "97% are found by the plan", line["found"] >= 0.97 * of
    yield "99% are found by it or a longer one", line["found"] + line["later"] >= 0.99 * of
    yield "half of them within 200 cases", line["cases"] is not None and line["cases"] < 200
    yield "no survivor is explained", not explained


def report(store, tree, plan, woven, not_compiled, file):
    """Prints the score of the plan, with what longer plans found of its survivors. @returns it, for the README"""
    same, plans = equivalents(file), rows_of(store, tree)
    rows = list(plans[plan.name].values())
    later = {id_ for name, of in plans.items() if name != plan.name for id_, row in of.items() if row["found"]}
    lines = scores(rows, same, later)
    print(f"plan {plan.name}: {len(rows)} of {woven} mutants were tried; {not_compiled} more do not compile")
    print_lines("class", lines)
    print_lines("operator", scores(rows, same, later, "operator"))
    hows = collections.Counter(row["how"] for row in rows if row["found"])
    print("found as: " + ", ".join(f"{how} {n}" for how, n in hows.most_common()))
    baseline = store.execute("SELECT * FROM outcome WHERE tree = ? AND plan = ? AND id = ''", (tree, plan.name)).fetchone()
    left = [row for row in rows if not row["found"] and row["id"] not in later and row["id"] not in same]
    print_survivors(left, baseline)
    explained = [row for row in left if "explained" in " ".join(more_of(row, baseline))]
    for promise, holds in goals(lines[-1], explained):
        print(f"goal: {promise}: {'met' if holds else 'MISSED'}")
    return {"plan": plan.name, "woven": woven, "not compiled": not_compiled, "lines": lines,
            "red": any(map(is_red, lines))}
