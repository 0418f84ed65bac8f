#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The padding of FSDP's buffers for real models, ours and others', as JSON: {"rows": [{model, of, at: [{ranks,
padding, ...}]}], "goals": [[what, worst, goal]], ...}. Run by the peers' Python (ci/setup --peers), with megatron-fsdp
on the path and `lockstep` on PATH.

What others make of the same groups: FSDP2 pads a dimension of each tensor to a multiple of the ranks, and refuses where
another than the first is none; ZeRO and FSDP1 cut a group anywhere; the experimental layout of megatron-fsdp aligns
each rank to the LCM of all row sizes. A row there is all behind the first dimension: of stacked experts, an expert."""
import json, math, os, pathlib, subprocess, sys, types

sys.setdlopenflags(os.RTLD_LAZY | os.RTLD_GLOBAL)  # the wheel's libraries need one another
for name in ("megatron_fsdp", "megatron_fsdp.experimental"):  # without what these import: Transformer Engine, a GPU
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [str(pathlib.Path(os.environ["PYTHONPATH"]) / name.replace(".", "/"))]
from megatron_fsdp.experimental.layout import GlobalLayout  # noqa: E402

MODELS = ["llama3-8b", "llama3-70b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-120b"]
RANKS = [8, 16, 32, 64, 128, 256, 512, 1024]
BLOCKS = [1, 16, 128]
MANY_GROUPS, MANY_RANKS = 500, 131072


def shown(model, ranks, blocks, *more):
    """blocks: rows, or a tile."""
    option = ["--block-tile" if isinstance(blocks, str) else "--block-rows", str(blocks)]
    words = ["lockstep", "show", "buffer", "--model", model, "--ranks", str(ranks), *option, "--json"]
    return json.loads(subprocess.run([*words, *more], check=True, capture_output=True, text=True).stdout)


def up(n, of):
    return -(-n // of) * of


def shard(shapes, ranks, dim):
    """FSDP2: Shard(dim), of a vector Shard(0); None: refused."""
    total = 0
    for shape in shapes:
        d = dim if len(shape) > dim else 0
        if d > 0 and shape[d] % ranks:
            return None
        total += math.prod(shape) // shape[d] * up(shape[d], ranks)
    return total


OTHERS = {
    "FSDP2, Shard(0)": lambda shapes, ranks: shard(shapes, ranks, 0),
    "FSDP2, Shard(1)": lambda shapes, ranks: shard(shapes, ranks, 1),
    "ZeRO, FSDP1": lambda shapes, ranks: up(sum(map(math.prod, shapes)), ranks),
    "megatron-fsdp 0.6.1, experimental": lambda shapes, ranks: GlobalLayout.build(shapes, ranks).size,
}


def padding_of(buffer_of, groups, ranks):
    elements = sum(group["elements"] * group["count"] for group in groups)
    held = [(buffer_of([t["shape"] for t in group["tensors"]], ranks), group["count"]) for group in groups]
    if any(size is None for size, _ in held):
        return {"padding": None}
    worst = max(size / group["elements"] - 1 for (size, _), group in zip(held, groups))
    return {"padding": (sum(size * count for size, count in held) - elements) / elements, "worst": worst}


def row(model, blocks, *more):
    said = [shown(model, ranks, blocks, *more) for ranks in RANKS]
    return [{"ranks": one["ranks"], "padding": one["padding"], "least": one["least_padding"],
             "worst": max(group["padding"] for group in one["groups"]), "ms": one["planned_in_ms"],
             "each_ms": one["planned_each_in_ms"]} for one in said]


# Of tensors in their own order: twice what the best order has, and no generated group was farther.
FARTHEST = ["--tensors", "20:2,6:6,11:1", "--ranks", "5", "--align", "8"]


def over_any_order(options):
    command = ["lockstep", "show", "buffer", *options]
    said = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout)
    return {"command": " ".join(command), "ratio": said["shard_size"] / said["least_shard_size"]}


def main():
    rows, ours = [], {}
    for model in MODELS:
        for blocks in BLOCKS:
            ours[model, blocks] = row(model, blocks)
            rows.append({"model": model, "of": f"{blocks} row{'s' * (blocks > 1)}", "at": ours[model, blocks]})
        if model == "deepseek-v3":
            rows.append({"model": model, "of": "128 rows, dense layers too", "at": row(model, 128, "--dense-too")})
        if model == "gpt-oss-120b":
            rows.append({"model": model, "of": "128x128 tiles, of each expert", "at": row(model, "128x128")})
        groups = shown(model, 8, 1)["groups"]
        for name, buffer_of in OTHERS.items():
            rows.append({"model": model, "of": name, "at": [
                {"ranks": ranks, **padding_of(buffer_of, groups, ranks)} for ranks in RANKS]})

    def worst(model, blocks, most=1024):
        return max(at["padding"] for at in ours[model, blocks] if at["ranks"] <= most)
    goals = [["deepseek-v3, 1 and 16 rows", max(worst("deepseek-v3", 1), worst("deepseek-v3", 16)), 0.01],
             ["gpt-oss-120b, 1 and 16 rows", max(worst("gpt-oss-120b", 1), worst("gpt-oss-120b", 16)), 0.03],
             ["deepseek-v3, 128 rows, to 512 ranks", worst("deepseek-v3", 128, 512), 0.03],
             ["gpt-oss-120b, 128 rows", worst("gpt-oss-120b", 128), 0.18]]
    def slowest(model, what):
        return max(at[what] for row_ in rows if row_["model"] == model for at in row_["at"] if what in at)
    times = [{"model": model, "ms": slowest(model, "ms"), "each_ms": slowest(model, "each_ms")} for model in MODELS]
    large = shown("deepseek-v3", MANY_RANKS, 128)
    many = large["planned_each_in_ms"] * MANY_GROUPS / sum(group["count"] for group in large["groups"])
    farthest = over_any_order(FARTHEST)
    print(json.dumps({"rows": rows, "goals": goals, "times": times, "many_groups_ms": many,
                      "against_all_orders": farthest}))


main()
