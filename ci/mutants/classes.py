# SPDX-License-Identifier: Apache-2.0
"""What kind of mistake a mutant is, by where it stands; and what of the tree no run of this machine can reach."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# The longest that a path begins with.
CLASSES = {
    "engine/checkpoint/": "model and optimizers",
    "engine/context/": "dispatch",
    "engine/lane/": "lane",
    "engine/fsdp/": "fully sharded",
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
    "engine/plan/": "model and optimizers",
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
    "oracle/ownership/compare": "comparison",
    "suites/": "comparison",
}

# What of the plan a scope's mutants are tried in: a slip of the engine shows in what is asked of the engine, and planted faults,
# which take as long as all other suites, ask of the judge.
SUITES = {"engine": ("--suite", "layout,redistribute,ops,rules,gradient,random,grid,program,edges,metamorphic,cache,overlap,"
                     "ragged,train,fsdp,dbuffer,optim,plans,planner,checkpoint,experts,golden,canary"),
          "judge": ()}

# Nothing but what runs on a GPU calls these; kernels/device_work_property_test.cpp and device_check.cu look at them.
NEEDS_A_GPU = ("kernels/device_", "engine/lane/cuda")

# What the plan of a run is to be where the default one never goes.
JUDGED = "redistribute,ops,gradient,random,program,metamorphic"
THREAD, GLOO = ([*world, "--suite", JUDGED] for world in (["--world", "thread"], ["--world", "gloo", "--ranks", "2"]))
LIBRARY = ["--reduce", "library", "--suite", "redistribute,ops,gradient,random,program"]
PLANS = {
    "engine/layout/library_order": LIBRARY,
    "engine/world/gloo_gang": LIBRARY,
    "engine/world/library": LIBRARY,
    "engine/world/board": THREAD,  # where ranks that share no thread meet, of threads as of processes
    "engine/world/c10d_world": GLOO,
    "engine/world/gloo_group": GLOO,
    "engine/world/packing": GLOO,
    "engine/world/thread_world": THREAD,
}


def of_oracle(folder):
    """The tests of a folder of the oracle."""
    return sorted(f"oracle/oracle_{path.stem}" for path in (ROOT / "oracle" / folder).glob("*_test.cpp"))


# What no verdict depends on: texts for people, exit codes, what a World says that fails, Worlds that a launcher starts, refusals
# of calls that no device runs, and what replicas share of memory, or read, until a World brings one of them other bits, which
# none does that is right; and what no Program can say: InferenceMode, rules that are registered, hooks that write, formulas of a
# user's own, views by variable_data. The tests that look at it, "folder/target", by how a mutant's name begins; one that the
# first cases of the plan do not find, or that none runs, is tried with them.
WORLDS = [f"engine/engine_{name}_test" for name in ("world", "thread_world", "c10d_world")]
PHILOX = [f"kernels/kernels_philox_{name}_test" for name in ("sweep", "words", "fill_property")]
ASYNC, DISPATCH, GRADIENTS, SHARED, VIEWS = (
    [f"engine/engine_{name}_test"] for name in ("async", "dispatch", "gradients", "shared_storage", "views"))
TESTED = {
    **{f"oracle/{folder}/": of_oracle(folder) for folder in ("program", "random", "reference")},
    "kernels/philox": PHILOX,  # instructions that this machine does not choose, nor the next
    "kernels/simd.h": PHILOX,
    "engine/context/asking": ["engine/engine_flight_test"],  # no Program asks it, nor the next two
    "engine/context/context.h:ContextUse": ["engine/context/context_context_test"],
    "engine/context/generator.h:DeviceModel": ["engine/context/context_context_test"],  # Programs name theirs
    "engine/fsdp/fully_shard.cpp:fully_shard": ["engine/engine_fully_shard_test"],
    "engine/fsdp/group_layout.h:GroupLayout": ["engine/engine_group_layout_test"],  # a caller's default
    "engine/fsdp/held_memory": ["engine/engine_held_memory_test", "suites/suites_step_plan_test"],  # no Program asks
    "engine/fsdp/step_plan": ["engine/engine_step_plan_test", "suites/suites_step_plan_test"],
    "engine/lane/numerics": ["engine/lane/lane_numerics_test"],
    "engine/layout/layout.cpp:shapes-dense-one": ["engine/engine_layout_test"],  # strides of what has no elements
    "engine/move/gathering": SHARED,
    "engine/move/replicas": SHARED,
    "engine/ops/resolve.cpp:dispatch-overload": DISPATCH,
    "engine/nn/boundary": ["engine/engine_backward_hooks_test"],  # hooks of a user's, who may write
    "engine/optim/gradients.cpp:with_gradient": ["engine/engine_distributed_test"],
    **{f"engine/random/integer_range.cpp:{refused}": ["engine/engine_integer_range_test"] for refused in (
        "integer_range:loosened", "random-range-half")},
    "engine/plan/": ["engine/engine_plan_test", "engine/engine_parallelize_test"],  # texts, and what no model's plan says
    "engine/random/random_policy": ["engine/engine_random_policy_test"],  # baselines, which nobody judges
    "engine/random/tensor_source": ["suites/suites_random_operators_test"],
    "engine/stream/random_checks": ["oracle/oracle_scope_test"],
    "engine/stream/random_source.cpp:draws_nothing": ["oracle/oracle_scope_test"],
    "engine/tensor/arriving.cpp:transport": ASYNC,
    **{f"engine/tensor/cache.cpp:cache-{change}": DISPATCH for change in ("positions", "rules")},
    "engine/tensor/composites.cpp:autograd-empty-cat": GRADIENTS,  # what hooks of a user see
    "engine/tensor/dtensor_impl.cpp:aliases-detached": VIEWS,
    "engine/tensor/fallback.cpp:refuse": ["engine/engine_fallback_test"],
    "engine/tensor/plain_guard": ["engine/engine_plain_guard_test"],  # no Program is within it and draws
    **{f"engine/tensor/gradients.cpp:{of_users}": GRADIENTS for of_users in (
        "autograd-foreign", "autograd-own-version", "autograd-version", "autograd-zeros", "transport-delivery",
        "made_by_autograd")},
    "engine/tensor/operands.cpp:cache-may-write": GRADIENTS,
    "engine/tensor/operands.cpp:cache-strings": ["engine/engine_operands_test"],
    "engine/tensor/out_variants.cpp:check_memory": ["engine/engine_out_variants_test"],
    "engine/tensor/print": DISPATCH,
    "engine/tensor/redistribute.cpp:transport-begun": ASYNC,
    **{f"engine/tensor/run.cpp:{read}": DISPATCH for read in ("agreed", "dispatch-scalar")},
    "engine/tensor/zeros.cpp:autograd-zeros-lie": GRADIENTS,
    "engine/tensor/call.cpp:refuse_locals": ["engine/engine_index_range_test"],  # a text
    "engine/values/digest": ["engine/values/values_digest_test"],  # tensors of two dtypes have two specs, too
    "engine/values/exit_code": ["engine/values/values_exit_code_test"],
    "engine/values/merge": ["engine/values/values_merge_test"],
    "engine/values/placement": ["engine/values/values_placement_test"],
    "engine/values/reduction_order": ["engine/values/values_reduction_order_property_test"],
    "engine/values/shell": ["engine/values/values_shell_test"],
    "engine/values/spec": ["engine/values/values_spec_test"],
    "engine/world/": WORLDS,
    "engine/world/flight": ["engine/engine_flight_test"],
    "engine/world/group_fold": [*WORLDS, *SHARED],
}

# A judge that accepts more than it should leaves the right engine's run green. What else must then notice:
# "folder/target" of tests, beside the planted faults and the canary of the run itself.
ADVERSARIES = {"engine": [], "judge": [
    *of_oracle("judge"), *of_oracle("ownership"), *of_oracle("plain"),
    *(f"suites/suites_{name}_test" for name in (
        "in_memory", "edges", "judge", "refusal", "faults", "adversaries", "bounded", "training", "train_law"))]}


def longest(table, path):
    return max((start for start in table if path.startswith(start)), key=len, default=None)


def class_of(point):
    return point.klass or CLASSES[longest(CLASSES, point.file)]


def tests_of(point):
    """Beside those of its scope."""
    start = longest(TESTED, point.id)
    return TESTED[start] if start else []


def tests_for(scope, mutants):
    """All that a campaign of these asks. @param mutants {number: Point}"""
    return sorted({*ADVERSARIES[scope], *(test for point in mutants.values() for test in tests_of(point))})


def plan_of(point):
    """Options of `lockstep run`, beside those that every mutant has."""
    start = longest(PLANS, point.file)
    return PLANS[start] if start else []
