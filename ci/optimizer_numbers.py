# SPDX-License-Identifier: Apache-2.0
"""The README's tables of optimizers: how far their curves lie from one device, and where DDP and FSDP end."""


def measure(stores):
    """Of each optimizer, by its name, the curves of all runs in its store."""
    parts = []
    for name, store in stores.items():
        rows = store.some(
            "SELECT d.model, d.mesh, d.policy, d.steps, d.identical_prefix, d.max_loss_ulp, d.max_loss_abs, d.judged, "
            "d.explained, d.unexplained, s.loss, s.reference_loss FROM v_curve_diff d JOIN v_curve_steps s "
            "USING (run_id, curve) WHERE d.variant = 'init+dropout' AND s.step = d.steps "
            "ORDER BY d.run_id, length(d.mesh), d.mesh, d.policy DESC", "runs of lockstep curves")
        parts.append({"optimizer": name, "rows": rows, "commit": store.machine()["commit"]})
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
                     f"{ddp['explained'] + fsdp['explained']} of {ddp['judged'] + fsdp['judged']}"])
    return rows


def section(parts, table, farthest):
    return (f"`lockstep curves --optimizer`, commit {parts[0]['commit'][:12]}: each optimizer under each policy of "
            "random numbers, of first values and dropout, against one device with the same optimizer. Judged: of the "
            "steps that were judged op by op, those whose difference the order of their reductions explains.\n\n"
            + table(["model", "optimizer", "mesh", "random policy", "steps with equal bits", "loss: largest ulp",
                     "largest difference", "judged, explained", "last loss"], curve_rows(parts, farthest), 4)
            + "\nThe loss after as many steps on the text that ships: on one device, where all ranks have all "
            "parameters (DDP, `dp:4`), and where each has a part (FSDP, `fsdp:4`). What differs is the schedule of "
            "the reductions.\n\n"
            + table(["optimizer", "one device", "DDP", "FSDP", "they differ by", "judged, explained"],
                    end_rows(parts)) + "\n")
