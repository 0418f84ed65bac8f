# SPDX-License-Identifier: Apache-2.0
"""What kind of mistake a mutant is, by where it stands; and what of the tree no run of this machine can reach."""

# The longest that a path begins with.
CLASSES = {
    "engine/context/": "dispatch",
    "engine/lane/": "lane",
    "engine/layout/": "placements",
    "engine/layout/layout": "rare shapes",
    "engine/move/": "world and move",
    "engine/nn/": "model and optimizers",
    "engine/ops/": "rules",
    "engine/ops/hosted": "decision cache",
    "engine/ops/infer": "rare shapes",
    "engine/ops/resolve": "dispatch",
    "engine/ops/rules/local": "rare shapes",
    "engine/ops/rules/norm": "reductions",
    "engine/ops/rules/random": "random",
    "engine/ops/rules/reduce": "reductions",
    "engine/optim/": "model and optimizers",
    "engine/random/": "random",
    "engine/stream/": "random",
    "engine/tensor/": "dispatch",
    "engine/tensor/cache": "decision cache",
    "engine/tensor/composites": "autograd",
    "engine/tensor/dtensor": "aliases",
    "engine/tensor/gradients": "autograd",
    "engine/tensor/operands": "aliases",
    "engine/tensor/out_variants": "aliases",
    "engine/tensor/redistribute": "placements",
    "engine/values/": "placements",
    "engine/values/merge": "rare shapes",
    "engine/values/ragged": "rare shapes",
    "engine/values/reduction_order": "reductions",
    "engine/world/": "world and move",
    "engine/world/bits": "reductions",
    "engine/world/fold": "reductions",
    "kernels/": "random",
    "oracle/": "oracle",
    "oracle/judge/": "judge",
    "oracle/judge/forgiveness": "licence",
    "oracle/judge/families": "licence",
    "oracle/ownership/compare": "comparison",
    "suites/": "comparison",
}

# Nothing but what runs on a GPU calls these; kernels/device_work_property_test.cpp and device_check.cu look at them.
NEEDS_A_GPU = ("kernels/device_",)

# What the plan of a run is to be where the default one never goes.
JUDGED = "redistribute,ops,gradient,random,program,metamorphic"
PLANS = {"engine/world/thread_world": ["--world", "thread", "--suite", JUDGED]}


# A judge that accepts more than it should leaves the right engine's run green. What else must then notice:
# "folder/target" of tests, beside the planted faults and the canary of the run itself.
ADVERSARIES = {"engine": [], "judge": [
    *(f"suites/suites_{name}_test" for name in (
        "adversaries", "edges", "judge", "bounded", "refusal", "training", "train_law", "faults")),
    *(f"oracle/oracle_{name}_test" for name in (
        "check", "bound", "order", "compare", "reduce", "ownership", "exact_sum", "mean", "outside"))]}


def longest(table, path):
    return max((start for start in table if path.startswith(start)), key=len, default=None)


def class_of(point):
    return point.klass or CLASSES[longest(CLASSES, point.file)]


def plan_of(point):
    """Options of `lockstep run`, beside those that every mutant has."""
    start = longest(PLANS, point.file)
    return PLANS[start] if start else []
