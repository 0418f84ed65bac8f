# SPDX-License-Identifier: Apache-2.0
"""The README's tables of optimizers: how far their curves lie from one device, where DDP and FSDP end, with how much
memory, and what fully_shard's parts are worth to the one that has blocks."""


def measure(stores):
    """Of each optimizer, by its name, the curves of all runs in its store."""
    parts = []
    for name, store in stores.items():
        rows = store.some(
            "SELECT d.model, d.mesh, d.policy, d.steps, d.identical_prefix, d.max_loss_ulp, d.max_loss_abs, d.judged, "
            "d.explained, d.unexplained, s.loss, s.reference_loss FROM v_curve_diff d JOIN v_curve_steps s "
            "USING (run_id, curve) WHERE d.variant = 'init+dropout' AND s.step = d.steps "
            "ORDER BY d.run_id, length(d.mesh), d.mesh, d.policy DESC", "runs of lockstep curves")
        # Of trainings alone: while a step may be judged, curves hold a copy of all that it begins with.
        peaks = {mesh: store.one(
            "SELECT max(peak_bytes) AS bytes FROM v_throughput WHERE kind = 'training' AND name = "
            f"'{mesh} single-device (init+dropout)' AND run_id IN "
            "(SELECT run_id FROM v_summary WHERE command LIKE 'lockstep train%')")["bytes"] or store.lacks(
                f"lockstep train --mesh {mesh}") for mesh in ("dp:4", "fsdp:4")}
        parts.append({"optimizer": name, "rows": rows, "peaks": peaks, "commit": store.machine()["commit"]})
    return parts


def curve_rows(parts, farthest):
    return [[r["model"], part["optimizer"], r["mesh"], r["policy"], f"{r['identical_prefix']} of {r['steps']}",
             *farthest(r["max_loss_ulp"], r["max_loss_abs"]),
             f"{r['explained']} of {r['judged']}" if r["judged"] else "-", f"{r['loss']:.6f}"]
            for part in parts for r in part["rows"]]


def end_rows(parts):
    """Where one device, DDP and FSDP end, with the single device's numbers."""
    rows = []
    for part in parts:
        at = {r["mesh"]: r for r in part["rows"] if r["policy"] == "single-device"}
        ddp, fsdp = at["dp:4"], at["fsdp:4"]
        rows.append([part["optimizer"], *(f"{loss:.7f}" for loss in (ddp["reference_loss"], ddp["loss"], fsdp["loss"])),
                     f"{abs(ddp['loss'] - fsdp['loss']):.3g}",
                     f"{ddp['explained'] + fsdp['explained']} of {ddp['judged'] + fsdp['judged']}",
                     *(f"{part['peaks'][mesh] / 1e6:.1f} MB" for mesh in ("dp:4", "fsdp:4"))])
    return rows


def section(parts, table, farthest):
    return (f"`lockstep curves --optimizer`, commit {parts[0]['commit'][:12]}: each optimizer under each policy of "
            "random numbers, of first values and dropout, against one device with the same optimizer. Judged: of the "
            "steps that were judged op by op, those whose difference the order of their reductions explains.\n\n"
            + table(["model", "optimizer", "mesh", "random policy", "steps with equal bits", "loss: largest ulp",
                     "largest difference", "judged, explained", "last loss"], curve_rows(parts, farthest), 4)
            + "\nThe loss after as many steps on the text that ships: on one device, where all ranks have all "
            "parameters (DDP, `dp:4`), and where each has a part (FSDP, `fsdp:4`). What differs is the schedule of "
            "the reductions. Memory: the most bytes of all four ranks' tensors at once, in a step.\n\n"
            + table(["optimizer", "one device", "DDP", "FSDP", "they differ by", "judged, explained", "DDP's memory",
                     "FSDP's"], end_rows(parts)) + "\n")


# veScale-FSDP, Table 2: throughput beside the whole system's.
PAPER = {"nothing": 1, "dbuffer": 0.928, "planning": 0.654}
LEFT_OUT = {"nothing": "nothing", "dbuffer": "the DBuffer: copies in and out",
            "planning": "planning: tiles are cut, and gathered in each step"}
COUNTED = "training step, mixtral gpt-oss on fsdp:4, without {}: {}"


def measure_ablation(turns, store):
    """`turns`: what ablation_turns.py has printed; what is counted stands in the store of a run of lockstep bench."""
    counts = {what: {count: store.one("SELECT DISTINCT value FROM v_samples WHERE series = "
                                      f"'{COUNTED.format(what, count)}'")["value"]
                     for count in ("bytes", "collectives", "tensor allocations")} for what in PAPER}
    return {**turns, "counts": counts, **store.command_and_commit()}


def ablation_section(ablation, table):
    places, overlap = ablation["places"], ablation["overlap"]
    rows = []
    for what in PAPER:
        at = [next(row for row in measured if row["without"] == what) for measured in places.values()]
        counts = ablation["counts"][what]
        rows.append([LEFT_OUT[what], *(f"{a['ms']:.0f} ms, {a['share']:.1%}" for a in at), f"{PAPER[what]:.1%}",
                     f"{counts['bytes'] / 1e6:.2f} MB", f"{counts['collectives']:.0f}",
                     f"{counts['tensor allocations']:.0f}", *(f"{a['bytes'] / 1e6:.1f} MB" for a in at)])
    rows.append(["RaggedShard", *["N/A"] * (len(rows[0]) - 1)])
    return ("What the parts of `fully_shard` are worth to 8-bit AdamW (`lockstep train mixtral --preset gpt-oss "
            f"--optimizer adamw-8bit --without PART`, commit {ablation['commit'][:12]}), in {ablation['rounds']} turns of "
            f"{ablation['steps']} steps: the median step, and its throughput beside the whole one's, as in veScale-FSDP's "
            "Table 2, whose figures are of GPUs and of a larger model. "
            "Counted, on 4 ranks: what is sent, and tensors allocated, in a step. Memory: the most bytes of the tensors "
            "that one process held. Without the DBuffer losses have the same bits. In one process what ranks gather alike "
            "is put together once, whereas each copies for itself, which no cluster would see.\n\n"
            + table(["without", *places, "the paper", "sent", "collectives", "allocations",
                     *(place + ": memory" for place in places)], rows)
            + "\nWithout RaggedShard there is nothing to run: `Shard(0)` gives each of 32 ranks 4 of the 128 rows of a "
            "query projection and one expert, and 8-bit AdamW's tiles have 32 rows.\n\n"
            "What overlap is worth to a step with Muon (`lockstep train llama --optimizer muon --mesh fsdp:4 --world gloo "
            f"--ranks 4`), of its matrices' moves and of `fully_shard`'s: it takes {overlap['ms']:.0f} ms, and "
            f"{overlap['waiting_ms']:.0f} ms where each collective is waited for at once (`--without overlap`): "
            f"{overlap['ratio']:.2f} times as many steps, with the same bits.\n\n")
