# SPDX-License-Identifier: Apache-2.0
"""The README's tables of mutants: what of the slips that ci/mutate weaves in is found, by class."""


def one_table(of, what, table):
    rows = [[line["of"], f"{line['mutants']:,}", f"{line['found']:,}", f"{line['tests']:,}",
             f"{line['found'] / line['mutants']:.0%}" if line["mutants"] else "-", f"{line['later']:,}",
             f"{line['equivalent']:,}", "-" if line["cases"] is None else f"{line['cases']:,.0f}",
             "-" if line["ops"] is None else f"{line['ops']:g}",
             f"{line['names it rightly']} of {line['names an op']}"] for line in of["lines"]]
    tried = of["lines"][-1]["mutants"] + of["lines"][-1]["equivalent"]
    commits = ", ".join(commit[:12] for commit in of["commits"])
    head = ["class", "mutants", "found", "tests", "share", "more", "equivalent", "cases", "operators", "named"]
    goals = [[goal, "yes" if met else "no"] for goal, met in of["goals"]]
    return (f"{tried:,} of {of['woven']:,} slips in {what}, tried on {commits}.\n\n" + table(head, rows) + "\n"
            + table(["promised of these mutants", "met"], goals) + "\n")


def section(numbers, table):
    if "mutants" not in numbers:
        return ""
    engine, judge = numbers["mutants"]["engine"], numbers["mutants"]["judge"]
    return ("`ci/mutate run`: mutants found, each by itself, by the default plan without kept cases, of these, "
            "\"tests\", by unit tests of what no Program can say, where its first cases did not find them; "
            "\"more\" are found by 300,000 cases, \"equivalent\" do not count. Medians of the cases until found and of "
            "the operators of the shrunk case; findings that name an operator, and those that name one which runs "
            "what was changed ([ci/mutants](ci/mutants/README.md)).\n\n"
            + one_table(engine, "the sources of engine and kernels", table)
            + one_table(judge, "the oracle, its licence table and the comparison, found by the tests of the judge "
                               "or by planted faults", table))
