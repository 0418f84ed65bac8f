# SPDX-License-Identifier: Apache-2.0
"""The score: how many mutants were found, by class; how soon, how small; and who survived."""
import collections, statistics

from tried import found_later, survived

LEAST = 0.85         # of a class
MOST_EQUIVALENT = 0.08


def rows_of(store, tree):
    """{plan: {id: row}}, without the run that had no mutant."""
    plans = collections.defaultdict(dict)
    for row in store.execute("SELECT * FROM outcome WHERE tree = ? AND id <> '' ORDER BY class, id", (tree,)):
        plans[row["plan"]][row["id"]] = row
    return plans


def equivalents(file):
    """{id: reason}: a line each, the reason behind a tab."""
    lines = file.read_text().splitlines() if file.exists() else []
    return dict(line.split("\t", 1) for line in lines if line and not line.startswith("#"))


def score(name, rows, same):
    """Of rows as tried.txt has them. @param same equivalents()"""
    counted = [row for row in rows if row["id"] not in same]
    found = [row for row in counted if not survived(row) and not found_later(row)]
    small = [row["shrunk_ops"] for row in found if row["shrunk_ops"] is not None]
    named = [row["named"] for row in found if row["named"] is not None]
    return {"of": name, "mutants": len(counted), "equivalent": len(rows) - len(counted), "found": len(found),
            "tests": sum(row["how"].startswith("test ") for row in found), "later": sum(map(found_later, counted)),
            "cases": statistics.median([row["cases"] for row in found]) if found else None,
            "ops": statistics.median(small) if small else None,
            "names an op": len(named), "names it rightly": sum(named)}


def is_red(line):
    share = line["found"] / line["mutants"] if line["mutants"] else 1
    return share < LEAST or line["equivalent"] > MOST_EQUIVALENT * (line["mutants"] + line["equivalent"])


def scores(rows, same, by="class"):
    """A line for each class or operator, and one for all at the end."""
    kinds = collections.defaultdict(list)
    for row in rows:
        kinds[row[by]].append(row)
    return [score(name, of, same) for name, of in [*sorted(kinds.items()), ("all", list(rows))]]


def print_lines(by, lines):
    print(f"{by:24}{'mutants':>8}{'equal':>7}{'found':>7}{'tests':>7}{'score':>8}{'later':>7}{'cases':>8}{'ops':>6}{'named':>10}")
    for line in lines:
        share = line["found"] / line["mutants"] if line["mutants"] else 1
        named = f"{line['names it rightly']}/{line['names an op']}"
        print(f"{line['of']:24}{line['mutants']:8}{line['equivalent']:7}{line['found']:7}{line['tests']:7}{share:8.1%}{line['later']:7}"
              f"{line['cases'] or 0:8.0f}{line['ops'] or 0:6.1f}{named:>10}{'  RED' if by == 'class' and is_red(line) else ''}")


def print_survivors(rows, points):
    for row in rows:
        point = points[row["id"]]
        notes = ("" if row["reached"] else " [never reached]") + (f" {{{row['more']}}}" if row["more"] else "")
        print(f"survived: {row['id']} (line {point.line}): {point.what}{notes}")


def goals(scope, lines, explained):
    """(what was promised of all mutants, whether it holds).
    @param lines scores() by class  @param explained survivors with more `explained` cases"""
    line, of = lines[-1], lines[-1]["mutants"] or 1
    if scope == "judge":
        yield "95% are found", line["found"] >= 0.95 * of
    else:
        yield "97% are found by the default plan", line["found"] >= 0.97 * of
        yield "99% are found by it or in 300,000 cases", line["found"] + line["later"] >= 0.99 * of
        yield "half of them within 200 cases", line["cases"] is not None and line["cases"] < 200
        yield "no survivor is explained", not explained
    yield f"of no class less than {LEAST:.0%}, and none with more than {MOST_EQUIVALENT:.0%} equivalent", not any(
        map(is_red, lines[:-1]))


def report(scope, tried, points, not_compiled, same):
    """Prints the score. @param tried {id: row}  @param points {id: Point} of all mutants  @param same equivalents()
    @returns it, for the README"""
    rows = [tried[id_] for id_ in sorted(tried) if id_ in points]
    lines = scores(rows, same)
    print(f"{len(rows)} of {len(points)} mutants were tried; {not_compiled} more do not compile")
    print_lines("class", lines)
    print_lines("operator", scores(rows, same, "operator"))
    hows = collections.Counter(row["how"] for row in rows if not survived(row))
    print("found as: " + ", ".join(f"{how} {n}" for how, n in hows.most_common()))
    left = [row for row in rows if survived(row) and row["id"] not in same]
    print_survivors(left, points)
    promises = list(goals(scope, lines, [row for row in left if "explained" in row["more"]]))
    for promise, holds in promises:
        print(f"goal: {promise}: {'met' if holds else 'MISSED'}")
    return {"commits": sorted({row["commit"] for row in rows}), "woven": len(points), "not compiled": not_compiled,
            "lines": lines, "goals": promises, "red": any(map(is_red, lines))}
