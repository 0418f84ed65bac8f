# SPDX-License-Identifier: Apache-2.0
"""PyTorch's tensor parallelism on DTensors, training a model of `lockstep train MODEL --mesh sp:1,tp:N`, or the plain model
on one device: attention and MLP by columns and rows, as parallelize_module does it; table of tokens, norms, router,
experts and head are replicated. Prints one JSON object: milliseconds of each step, losses, elements of all
parameters. Run by ci/numbers --training.
usage: peers_training.py MODEL plain|threaded|gloo RANKS STEPS BATCH SEQUENCE"""
import json
import os
import subprocess
import sys
import threading
import time
import warnings

sys.setdlopenflags(os.RTLD_LAZY | os.RTLD_GLOBAL)  # CUDA's libraries are empty here, and nobody calls them
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.testing._internal.distributed.multi_threaded_pg as threaded  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Replicate, distribute_module  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module  # noqa: E402

from free_port import free_port  # noqa: E402
from peers_model import MODELS, Experts, Model, adamw, step  # noqa: E402

CUTS = {"q_proj": ColwiseParallel, "k_proj": ColwiseParallel, "v_proj": ColwiseParallel, "o_proj": RowwiseParallel,
        "gate_proj": ColwiseParallel, "up_proj": ColwiseParallel, "down_proj": RowwiseParallel}
PATIENCE = 300  # seconds


def replicate(module, mesh):
    distribute_module(module, mesh,
                      input_fn=lambda _, x, mesh: DTensor.from_local(x[0], mesh, [Replicate()], run_check=False),
                      output_fn=lambda _, y, mesh: y.to_local())


def parallelize(model, mesh):
    for name, module in list(model.named_modules()):
        kind = CUTS.get(name.split(".")[-1])
        if kind is not None:
            parallelize_module(module, mesh, kind())
        elif isinstance(module, Experts):
            distribute_module(module, mesh)
        elif next(module.children(), None) is None:
            replicate(module, mesh)


def train(model_name, mesh, steps, batch, sequence):
    torch.manual_seed(0)
    model = Model(MODELS[model_name], sequence)
    parameters = sum(p.numel() for p in model.parameters())
    text = torch.randint(0, 256, (batch, sequence + 1))
    if mesh is not None:
        parallelize(model, mesh)
    optimizer, times, losses = adamw(model), [], []
    for _ in range(steps):
        start = time.perf_counter()
        loss, norm = step(model, optimizer, text)
        (norm.full_tensor() if mesh is not None else norm).item()
        times.append(1e3 * (time.perf_counter() - start))
        losses.append(loss)
    return {"ms": times, "losses": losses, "parameters": parameters}


# One rank runs at a time, until it waits for others: what propagates placements is not safe among threads.
BATON = threading.Lock()


def resting(join):
    def joined(*args):
        BATON.release()
        try:
            return join(*args)
        finally:
            BATON.acquire()
    return joined


def in_threads(ranks, run):
    """What rank 0 returns. The threads stay: the process dies if one ends that has had a DTensor."""
    threaded._install_threaded_pg()
    torch._C._distributed_c10d._set_thread_isolation_mode(True)
    threaded.Collective.join = resting(threaded.Collective.join)
    store, done, results = dist.HashStore(), threading.Semaphore(0), {}

    def rank_runs(rank):
        try:
            dist.init_process_group("threaded", rank=rank, world_size=ranks, store=store)
            mesh = init_device_mesh("cpu", (ranks,))
            with BATON:
                results[rank] = run(mesh)
        except BaseException as e:
            results[rank] = e
            raise
        finally:
            done.release()
            threading.Event().wait()

    for rank in range(ranks):
        threading.Thread(target=rank_runs, args=(rank,), daemon=True).start()
    for _ in range(ranks):
        if not done.acquire(timeout=PATIENCE) or any(isinstance(r, BaseException) for r in results.values()):
            print("a rank has not come to its end:", results, file=sys.stderr, flush=True)
            os._exit(1)
    return results[0]


def in_processes(ranks):
    """Starts this program again for each rank; rank 0 prints."""
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks),
              "OMP_NUM_THREADS": "1"}
    processes = [subprocess.Popen([sys.executable, *sys.argv], env={**common, "RANK": str(rank)},
                                  stdout=None if rank == 0 else subprocess.DEVNULL) for rank in range(ranks)]
    try:
        assert all(process.wait(PATIENCE) == 0 for process in processes)
    finally:
        for process in processes:
            process.kill()


def main():
    model, place = sys.argv[1:3]
    ranks, steps, batch, sequence = map(int, sys.argv[3:])
    torch.set_num_threads(1)
    if place == "gloo" and "RANK" not in os.environ:
        return in_processes(ranks)

    def run(mesh):
        return train(model, mesh, steps, batch, sequence)
    if place == "gloo":
        dist.init_process_group("gloo")
        result = run(init_device_mesh("cpu", (ranks,)))
    else:
        result = in_threads(ranks, run) if place == "threaded" else run(None)
    if place != "gloo" or dist.get_rank() == 0:
        print(json.dumps(result), flush=True)
    os._exit(0)


main()
