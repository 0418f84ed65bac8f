# SPDX-License-Identifier: Apache-2.0
"""PyTorch's FSDP2 over gloo, training the model of `lockstep train llama --mesh fsdp:N --world gloo`: the same
architecture, sizes, batch, dtype and optimizer, each layer and the whole wrapped, one process a rank, one thread each.
Prints one JSON object: milliseconds of each step, the most bytes that rank 0 has held in a step, its losses.
Run by ci/numbers --fsdp with the arguments RANKS STEPS."""
import json
import os
import subprocess
import sys
import time
import warnings

sys.setdlopenflags(os.RTLD_LAZY | os.RTLD_GLOBAL)  # CUDA's libraries are empty here, and nobody calls them
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402

from free_port import free_port  # noqa: E402
from peers_model import MODELS, Model, adamw, step  # noqa: E402

BATCH, SEQUENCE = 8, 128  # suites/train/train.h


def train(steps):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = Model(MODELS["llama tiny"], SEQUENCE)
    parameters = sum(p.numel() for p in model.parameters())
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = adamw(model)
    text = torch.randint(0, 256, (BATCH // dist.get_world_size(), SEQUENCE + 1))

    def once():
        loss, norm = step(model, optimizer, text)
        norm.full_tensor().item()
        return loss

    times, losses = [], []
    for _ in range(steps):
        start = time.perf_counter()
        losses.append(once())
        times.append(1e3 * (time.perf_counter() - start))
    tracker = FSDPMemTracker(model, optimizer)
    with tracker:
        once()
    held = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]
    return {"ms": times, "losses": losses, "bytes": held["Total"], "parameters": parameters}


def lead(ranks, steps):
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks),
              "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, str(ranks), str(steps)]
    others = [subprocess.Popen(command, env={**common, "RANK": str(rank)}, stdout=subprocess.DEVNULL)
              for rank in range(1, ranks)]
    try:
        subprocess.run(command, env={**common, "RANK": "0"}, check=True, timeout=300)
        assert all(other.wait(60) == 0 for other in others)
    finally:
        for other in others:
            other.kill()


def main():
    ranks, steps = (int(word) for word in sys.argv[1:])
    if "RANK" not in os.environ:
        return lead(ranks, steps)
    dist.init_process_group("gloo")
    result = train(steps)
    if dist.get_rank() == 0:
        print(json.dumps(result), flush=True)
    dist.destroy_process_group()


main()
