# SPDX-License-Identifier: Apache-2.0
"""The README's tables of a training step: on one rank, by plain libtorch and by the engine with parts of it switched off
(veScale's Figures 2b and 11); on two, beside PyTorch's DTensor."""
from dispatch_numbers import medians

MODELS = ["llama tiny", "llama wide", "mixtral tiny"]
RUNGS = ["plain libtorch", "neither cache nor bypass", "cached", "static"]
TIMES = "static: times plain libtorch"
MOST = 1.03


def measure(store, turns):
    """A store of lockstep bench, and what training_turns.py has printed."""
    found = medians(store, "")
    rows = {model: {rung: found.get(f"training step of {model}, {rung}") for rung in (*RUNGS, TIMES)} for model in MODELS}
    for model, row in rows.items():
        for rung, value in row.items():
            if value is None:
                store.lacks(f"a training step of {model}, {rung}")
    return {"rows": rows, "turns": turns, "commit": store.machine()["commit"], "processor": store.machine()["processor"]}


def section(numbers, table):
    if "training" not in numbers:
        return ""
    part = numbers["training"]

    def ms(value):
        return f"{value:,.1f} ms"

    rungs = [[model, *(ms(row[rung]) for rung in RUNGS[:3]), "N/A", ms(row["static"])]
             for model, row in part["rows"].items()]
    goals = [[f"{model}, static: times plain libtorch", f"{row[TIMES]:.3f}", f"at most {MOST}",
              "yes" if row[TIMES] <= MOST else "no"] for model, row in part["rows"].items()]
    turns = part["turns"]
    places = list(next(iter(turns["models"].values())))
    peers = [[model, *(ms(at[place]["ms"]) for place in places), *(f"{at[place]['ratio']:.2f}" for place in places
                                                                  if "ratio" in at[place])]
             for model, at in turns["models"].items()]
    compared = [place for place in places if "ratio" in next(iter(turns["models"].values()))[place]]
    return ("`lockstep bench --series 'training step of'`: forward, backward, clipping and AdamW on one rank, 2 examples of "
            f"32 tokens without dropout, on {part['processor']}, commit {part['commit'][:12]}: processor time of a step, "
            "each rung with the same bits. `llama wide` is ten times as wide as `tiny`. As veScale's Figures 2b and 11; "
            "its C++ core has no switch here: N/A. Below, static steps and plain ones in turns.\n\n"
            + table(["model", *RUNGS[:3], "C++ core", "static"], rungs) + "\n"
            + table(["a step on one rank", "measured", "goal", "met"], goals)
            + f"\nThe same steps cut over two ranks (`lockstep train MODEL --mesh sp:1,tp:2 --numerics fast --dropout 0`), in "
            f"{turns['rounds']} turns of {turns['steps']} steps, by the clock: all ranks in one process, and one in each over "
            "Gloo; and the same model in PyTorch, whose linears and experts are DTensors (`parallelize_module`), with ranks as "
            "threads and over gloo, and on one device without DTensors. Ratios are ours over theirs, of the same round: one "
            "process beside threads, Gloo beside gloo.\n\n"
            + table(["model", *places, *(f"ratio, {place}" for place in compared)], peers) + "\n")
