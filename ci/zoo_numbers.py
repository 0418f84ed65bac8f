# SPDX-License-Identifier: Apache-2.0
"""The README's tables of models and plans: each model trained under each plan, every step judged; and how many lines of
a plan that takes, counted in golden/plans.

usage: zoo_numbers.py MODEL     the options of lockstep curves by which the model's plans are trained"""
import pathlib, sys

PLANS = pathlib.Path(__file__).resolve().parents[1] / "golden/plans"
MODELS = ["llama", "mixtral", "gpt2"]
WITH_EXPERTS = ["mixtral"]
# By the mesh's dimensions: suites/train/model_plan.h.
MESHES = {"TP": "sp:1,tp:2", "SP": "sp:2", "TP+SP": "tp:2", "FSDP": "fsdp:2", "EP": "ep:2",
          "DP x TP+SP": "dp:2,tp:2", "FSDP x TP+SP": "fsdp:2,tp:2", "FSDP x SP": "fsdp:2,sp:2",
          "FSDP x EP": "fsdp:2,ep:2", "HSDP x TP+SP": "dp_replicate:2,fsdp:2,tp:2",
          "FSDP x EP x TP+SP": "fsdp:2,ep:2,tp:2", "DP x ZeRO-3 x SP x TP": "dp_replicate:2,fsdp:2,sp:2,tp:2",
          "ZeRO-3 x SP x EP x TP": "fsdp:2,sp:2,ep:2,tp:2"}
STEPS = 20
NOT_APPLICABLE = "N/A: no experts"
# veScale, Table 2: lines of code for each of its models.
PAPER = [["veScale, each of its models", "29 to 38"], ["the frameworks beside it there", "63 to 162"]]


def applies(model, mesh):
    return model in WITH_EXPERTS or "ep:" not in mesh


def plan_file(model, mesh):
    return PLANS / f"{model}-{mesh.replace(':', '').replace(',', '-')}.plan"


def lines_of(model, mesh):
    """Without comments and blank lines."""
    lines = [line.strip() for line in plan_file(model, mesh).read_text().splitlines()]
    return sum(1 for line in lines if line and not line.startswith("#"))


def options(model):
    meshes = [word for mesh in MESHES.values() if applies(model, mesh) for word in ("--mesh", mesh)]
    return [*meshes, "--steps", str(STEPS), "--batch", "8", "--sequence", "32", "--no-baselines", "--judge-all"]


def measure(stores):
    """`stores`: of each model, what lockstep curves has written with its options."""
    verdicts, lines = {}, {}
    for model, store in stores.items():
        for plan, mesh in MESHES.items():
            if not applies(model, mesh):
                continue
            row = store.one("SELECT steps, judged, explained, unexplained, max_loss_abs FROM v_curve_diff WHERE run_id = "
                            f"(SELECT max(run_id) FROM v_summary) AND mesh = '{mesh}' AND policy = 'single-device'")
            if row["judged"] < row["steps"] or row["steps"] == 0:
                store.lacks(f"a verdict on each step of {model} on {mesh}")
            verdicts.setdefault(plan, {})[model] = row
            lines.setdefault(plan, {})[model] = lines_of(model, mesh) or store.lacks(str(plan_file(model, mesh)))
    return {"verdicts": verdicts, "lines": lines, **next(iter(stores.values())).command_and_commit()}


def verdict_text(row):
    if row is None:
        return NOT_APPLICABLE
    wrong = f", {row['unexplained']} not" if row["unexplained"] else ""
    equal = row["judged"] - row["explained"] - row["unexplained"]
    return f"{equal} equal, {row['explained']} explained{wrong}; {row['max_loss_abs']:.2g}"


def section(numbers, table):
    if "zoo" not in numbers:
        return ""
    zoo = numbers["zoo"]
    ranks = {plan: 1 for plan in MESHES}
    for plan, mesh in MESHES.items():
        for dim in mesh.split(","):
            ranks[plan] *= int(dim.split(":")[1])
    verdicts = [[plan, f"`{mesh}`", str(ranks[plan]),
                 *(verdict_text(zoo["verdicts"][plan].get(model)) for model in MODELS)] for plan, mesh in MESHES.items()]
    lines = [[plan, *(str(zoo["lines"][plan].get(model, NOT_APPLICABLE)) for model in MODELS)] for plan in MESHES]
    lines += [[what, *[number] * len(MODELS)] for what, number in PAPER]
    return ("`lockstep curves MODEL --judge-all`, of small models of each architecture "
            f"(commit {zoo['commit'][:12]}): {STEPS} training steps under each plan, all ranks in one process. Each step "
            "is run again on one device from the same state, and each of its ops judged: all bits equal, or different as "
            "the order of reductions explains. Behind it, the farthest that a loss is from one device's. TP cuts linears, "
            "heads and vocabulary, not experts, which EP cuts; SP cuts sequences, TP+SP along one mesh dimension; FSDP holds parameters cut and shows "
            "them whole while their module runs (INIT, RUN).\n\n"
            + table(["plan", "mesh", "ranks", *MODELS], verdicts, 2)
            + "\nLines to parallelise a model: rows of its plan (`lockstep show plan MODEL --mesh …`), comments and blank "
            "lines left out, as [golden/plans](golden/plans) has them; beside the lines of code of veScale's Table 2, "
            "which are of other models.\n\n" + table(["plan", *MODELS], lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in MODELS:
        sys.exit(f"{__doc__}\nMODEL is one of {', '.join(MODELS)}")
    print(*options(sys.argv[1]))
