# SPDX-License-Identifier: Apache-2.0
"""The README's tables of dispatch: what an op on a DTensor of one rank takes above the plain op, with parts of the
engine switched off (veScale's Table 5) and in PyTorch, in one run; and gradients that are reduced in buckets (its
Figure 12)."""
from statistics import median

# As suites/bench/dispatch_ops.cpp has them; the first ones stand for the paper's, whose list is not public.
OPS = ["mm", "add", "mul", "relu", "softmax", "native_layer_norm", "embedding", "view", "transpose", "equal", "nonzero",
       "dropout", "add_out", "sum", "mul_", "_foreach_mul_"]
BYPASSED = ["equal", "add_out"]
RUNGS = ["neither cache nor bypass", "bypass alone", "cache alone", "cached", "static", "bare fallback", "new shape"]
# Why a cell has no number.
NOT_STATIC = {"embedding": "N/A: a part's kernel is its own", "equal": "N/A: reads a value",
              "nonzero": "N/A: values say how large it is", "dropout": "N/A: draws", "add_out": "N/A: writes",
              "mul_": "N/A: writes", "_foreach_mul_": "N/A: writes"}
NO_RULE = {"nonzero": "N/A: no rule"}
NO_BARE = {"dropout": "N/A: draws"}
WAYS = ["one by one", "in a bucket, along one mesh dimension after the other",
        "in a bucket, along both mesh dimensions at once"]
REDUCTION = "gradients on sp:16,fsdp:4, "
# The goals, of PyTorch's own time but for the fallback and the static one.
CACHED, OF_BARE, DROPOUT, MISS, STATIC_US = 0.05, 1.3, 0.04, 0.4, 0.1


def medians(store, arm):
    """Of each series, of the newest run."""
    values = {}
    for row in store.rows("SELECT series, value FROM v_samples WHERE run_id = (SELECT max(run_id) FROM v_summary) "
                          "AND arm = ?", arm):
        values.setdefault(row["series"], []).append(row["value"])
    return {series: median(of) for series, of in values.items()}


def measure(turns, counted, reductions):
    """Stores of lockstep bench: of all rungs in turns with PyTorch; with instructions; of REDUCTION."""
    ours, theirs = medians(turns, "candidate"), medians(turns, "baseline")
    instructions, reduced = medians(counted, ""), medians(reductions, "")
    rows = {}
    for op in OPS:
        row = rows[op] = {}
        for rung in RUNGS:
            row[rung] = ours.get(f"dispatch {op}, {rung}, 1 rank")
            excused = NOT_STATIC if rung == "static" else NO_BARE if rung == "bare fallback" else {}
            if row[rung] is None and op not in excused:
                turns.lacks(f"{rung} of {op}")
        for rung in ("cached", "new shape"):
            row[f"PyTorch's {rung}"] = theirs.get(f"dispatch {op}, {rung}, 1 rank")
            if row[f"PyTorch's {rung}"] is None and op not in NO_RULE:
                turns.lacks(f"PyTorch's {op}, {rung}")
        row["instructions"] = instructions.get(f"dispatch {op}, cached, 1 rank: instructions")
    ways = [[way, *(reduced.get(REDUCTION + way + what) for what in ("", ": collectives", ": bytes"))] for way in WAYS]
    if any(cell is None for way in ways for cell in way):
        reductions.lacks(f"lockstep bench --series '{REDUCTION}'")
    return {"rows": rows, "ways": ways, "commit": turns.machine()["commit"], "processor": turns.machine()["processor"],
            "no_instructions": None if any(series.endswith(": instructions") for series in instructions)
            else "N/A: valgrind is not installed"}


def goal(what, value, form, said, is_met):
    return [what, form.format(value), said, "yes" if is_met else "no"]


def ratio(part, whole):
    return part / whole if part is not None and whole else None


def goals_of(op, row):
    """A row for each goal that the op has."""
    theirs, bare = ratio(row["cached"], row["PyTorch's cached"]), ratio(row["cached"], row["bare fallback"])
    rows = []
    if op == "dropout":
        rows.append(goal(f"{op}, cached: of PyTorch's", theirs, "{:.3f}", f"at most {DROPOUT}", 0 <= theirs <= DROPOUT))
    else:
        met = (theirs is not None and 0 <= theirs <= CACHED) or (bare is not None and 0 <= bare <= OF_BARE)
        form = ("N/A" if theirs is None else f"{theirs:.3f}") + "; {:.2f}"
        rows.append(goal(f"{op}, cached: of PyTorch's; of the bare fallback", bare, form,
                         f"at most {CACHED}, or {OF_BARE}", met))
    if row["PyTorch's new shape"] is not None:
        miss = ratio(row["new shape"], row["PyTorch's new shape"])
        rows.append(goal(f"{op}, new shape: of PyTorch's", miss, "{:.3f}", f"at most {MISS}", miss <= MISS))
    if op in BYPASSED:
        part = ratio(row["bypass alone"], row["cache alone"])
        rows.append(goal(f"{op}, bypass alone: of cache alone", part, "{:.2f}", "below 1", part < 1))
    if row["static"] is not None:
        rows.append(goal(f"{op}, static", row["static"], "{:.3f} us", f"below {STATIC_US} us",
                         0 <= row["static"] < STATIC_US))
    return rows


def section(numbers, table):
    if "dispatch" not in numbers:
        return ""
    part = numbers["dispatch"]

    def cell(row, name, excuse):
        return excuse or "N/A" if row[name] is None else f"{row[name]:.2f}"

    lines, goals = [], []
    for op, row in part["rows"].items():
        of_rungs = [cell(row, rung, NOT_STATIC.get(op) if rung == "static" else NO_BARE.get(op)) for rung in RUNGS]
        instructions = part["no_instructions"] or f"{row['instructions']:,.0f}"
        lines.append([f"`{op}`", cell(row, "PyTorch's cached", NO_RULE.get(op)), *of_rungs[:4], "N/A", *of_rungs[4:],
                      cell(row, "PyTorch's new shape", NO_RULE.get(op)), instructions])
        goals += goals_of(op, row)
    ways = [[way, f"{ms:.1f} ms", f"{part['ways'][0][1] / ms:.1f}", f"{calls:.0f}", f"{sent / 1e6:.1f} MB"]
            for way, ms, calls, sent in part["ways"]]
    return ("`lockstep bench --series ', 1 rank'` in turns with PyTorch's DTensor of the same version on "
            f"{part['processor']}, commit {part['commit'][:12]}: microseconds that an op on a DTensor of one rank takes "
            "above the plain op, each side in its own language, on 16x16 elements; as veScale's Table 5, without cache "
            "and bypass, with one of them, and as it is (cached). Its C++ core has no switch here: N/A. Static: a call of "
            "a module of 100 such ops, one hundredth of it. The bare fallback unwraps, runs and wraps, and looks at "
            "nothing. New shape: the same op on one that has not been met. Instructions of one call on a DTensor, cached, "
            "the op itself included, by callgrind; `lockstep gate` blocks one more.\n\n"
            + table(["op", "PyTorch", *RUNGS[:4], "C++ core", *RUNGS[4:], "PyTorch's new shape", "instructions"], lines)
            + "\n" + table(["dispatch on one rank", "measured", "goal", "met"], goals)
            + f"\n`lockstep bench --series '{REDUCTION}'`: gradients of 19 parameters, terms of which each of 64 hosted "
            "ranks has, are added up over both mesh dimensions (veScale's Figure 12).\n\n"
            + table(["gradients", "time", "times as fast", "collectives", "sent"], ways) + "\n")
