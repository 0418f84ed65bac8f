# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own DTensor as an arm of `lockstep bench`: the bodies that both sides have, under the same names, behind
the protocol of suites/bench/serve.h. Run by ci/peers."""
import os
import sys
import time
import warnings
from statistics import median

sys.setdlopenflags(os.RTLD_LAZY | os.RTLD_GLOBAL)  # CUDA's libraries are empty here, and nobody calls them
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed._local_tensor import LocalTensorMode  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

TURNS = 9
SHAPES_MISSED = 32
R, S0, S1 = Replicate(), Shard(0), Shard(1)


class WrongBits(Exception):
    pass


def timed(action, calls):
    start = time.thread_time()
    for _ in range(calls):
        action()
    return time.thread_time() - start


def calls_for(action, least):
    calls = 1
    while timed(action, calls) < least:
        calls *= 2
    return calls


def seconds_above(action, base, least):
    calls = calls_for(action, least / TURNS)
    timed(base, calls)
    return median([timed(action, calls) - timed(base, calls) for _ in range(TURNS)]) / calls


def foreach_mul(x):
    torch._foreach_mul_(x, -1)
    return x


# name: (placement of each input, the op), as in suites/bench/dispatch_ops.cpp.
OPS = {
    "add": ([S0, S0], lambda x: [torch.add(x[0], x[1])]),
    "mm": ([S0, R], lambda x: [torch.mm(x[0], x[1])]),
    "sum": ([S0], lambda x: [torch.sum(x[0], [1])]),
    "native_layer_norm": ([S0], lambda x: list(torch.native_layer_norm(x[0], [x[0].size(1)], None, None, 1e-5))),
    "transpose": ([S0], lambda x: [x[0].transpose(0, 1)]),
    "mul_": ([S0], lambda x: [x[0].mul_(-1)]),
    "_foreach_mul_": ([S0] * 4, foreach_mul),
    "add_out": ([S0] * 3, lambda x: [torch.add(x[0], x[1], out=x[2])]),
    "mul": ([S0, S0], lambda x: [torch.mul(x[0], x[1])]),
    "relu": ([S0], lambda x: [torch.relu(x[0])]),
    "softmax": ([S0], lambda x: [torch.softmax(x[0], -1)]),
    "embedding": ([R, S0], lambda x: [torch.nn.functional.embedding(x[1], x[0])]),
    "view": ([S0], lambda x: [x[0].view(-1)]),
    "equal": ([S0, S0], lambda x: [torch.tensor(torch.equal(x[0], x[1]))]),
    "dropout": ([S0], lambda x: [torch.dropout(x[0], 0.5, True)]),
}  # nonzero has no rule


def ramp(rows, columns):
    return torch.arange(rows * columns, dtype=torch.float32).remainder(7).add(1).view(rows, columns)


def operand(op, i, n):
    whole = ramp(n, n)
    return whole[:, 0].remainder(4).long() if (op, i) == ("embedding", 1) else whole


def forget_decisions():
    propagator = DTensor._op_dispatcher.sharding_propagator
    propagator.propagate_op_sharding.cache_clear()
    propagator._propagate_tensor_meta_cached.cache_clear()
    torch._C._clear_DTensor_sharding_propagator_cache()


class Dispatch:
    """One rank, through a process group that moves nothing."""

    unit, better, area = "us", "less", "dispatch"

    def __init__(self, name):
        self.name = name
        self.distributed, self.plain = self.operands(16)

    def operands(self, n):
        """As DTensors, and plain ones."""
        placements, self.op = OPS[self.name]
        mesh = world_of_one()
        return ([DTensor.from_local(operand(self.name, i, n), mesh, [p], run_check=False)
                 for i, p in enumerate(placements)], [operand(self.name, i, n) for i in range(len(placements))])

    def check(self):
        torch.manual_seed(0)
        mine = [t.to_local() if isinstance(t, DTensor) else t for t in self.op(self.distributed)]
        torch.manual_seed(0)
        if not all(torch.equal(a, b) for a, b in zip(mine, self.op(self.plain))):
            raise WrongBits("a result has other bits than the plain op's")

    def sample(self, seconds):
        return 1e6 * seconds_above(lambda: self.op(self.distributed), lambda: self.op(self.plain), seconds)


class Missed(Dispatch):
    """Each call meets a shape that it has not seen."""

    def __init__(self, name):
        super().__init__(name)
        self.warm = self.operands(4)[0]
        self.shapes = [self.operands(8 + i) for i in range(SHAPES_MISSED)]

    def sample(self, seconds):
        spent, calls = 0.0, 0
        while spent < seconds:
            forget_decisions()
            self.op(self.warm)  # what is known of the op itself is not what a new shape costs
            start = time.thread_time()
            for distributed, _ in self.shapes:
                self.op(distributed)
            middle = time.thread_time()
            for _, plain in self.shapes:
                self.op(plain)
            spent += (middle - start) - (time.thread_time() - middle)
            calls += len(self.shapes)
        return 1e6 * spent / calls


def world_of_one():
    if not dist.is_initialized():
        dist.init_process_group("fake", rank=0, world_size=1, store=FakeStore())
    return init_device_mesh("cpu", (1,))


# Rows, inner and columns of mm, and how its operands are cut, as in suites/bench/small_cases.cpp.
SHAPES = [(8, 6, 10), (7, 5, 9), (12, 4, 3), (5, 16, 8)]
CUTS = [(S0, R), (R, S1), (S1, S0), (R, R)]


def run_case(mesh, shape, cut):
    """Whether sum(relu(mm(x, w)), 1) on the mesh has the bits of one device; its numbers are exact in any order."""
    x, w = ramp(shape[0], shape[1]), ramp(shape[1], shape[2])
    y = torch.relu(torch.mm(distribute_tensor(x, mesh, [cut[0]]), distribute_tensor(w, mesh, [cut[1]])))
    whole = torch.sum(y, [1]).full_tensor()
    expected = torch.sum(torch.relu(torch.mm(x, w)), [1])
    return all(torch.equal(t, expected) for t in getattr(whole, "_local_tensors", {0: whole}).values())


class SmallCases:
    """Four ranks in one process, each hosted: LocalTensorMode."""

    unit, better, area = "1/s", "more", "harness"

    def __init__(self, _):
        if dist.is_initialized():
            dist.destroy_process_group()
        dist.init_process_group("fake", rank=0, world_size=4, store=FakeStore())

    def all_cases(self):
        with LocalTensorMode(4):
            mesh = init_device_mesh("cpu", (4,))
            return all([run_case(mesh, shape, cut) for shape in SHAPES for cut in CUTS])

    def check(self):
        if not self.all_cases():
            raise WrongBits("a case has other bits than one device")

    def sample(self, seconds):
        cases, spent = 0, 0.0
        while spent < seconds:
            spent += timed(self.all_cases, 1)
            cases += len(SHAPES) * len(CUTS)
        return cases / spent


BODIES = {f"dispatch {name}, {how}, 1 rank": (kind, name)
          for name in OPS for how, kind in (("cached", Dispatch), ("new shape", Missed))}
BODIES["small cases, 4 ranks"] = (SmallCases, "")


def answer(line, made):
    request, _, rest = line.partition(" ")
    seconds = 0.0
    if request == "sample":
        text, _, rest = rest.partition(" ")
        seconds = float(text)
    if rest not in BODIES:
        return f"unknown {rest}"
    if request == "instructions":
        return "none"
    kind, name = BODIES[rest]
    try:
        if rest not in made:
            made.clear()  # one process group at a time
            if kind is not SmallCases and dist.is_initialized() and dist.get_world_size() != 1:
                dist.destroy_process_group()
            made[rest] = kind(name)
        if request == "check":
            made[rest].check()
            return "ok"
        return f"value {made[rest].sample(seconds).hex()}"
    except WrongBits as e:
        return f"wrong [{rest} of PyTorch] {e}"
    except Exception as e:  # whatever it is, the other side is told
        return "failed " + " ".join(f"{type(e).__name__}: {e}".split())


def main():
    torch.set_num_threads(1)
    torch.set_grad_enabled(True)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    print("lockstep-bench 1", file=out, flush=True)
    made = {}
    for line in sys.stdin:
        line = line.rstrip("\n")
        if line == "quit":
            return
        if line == "list":
            for name, (kind, _) in BODIES.items():
                print("series timed", kind.better, kind.unit, kind.area, name, file=out)
            print("end", file=out, flush=True)
        else:
            print(answer(line, made), file=out, flush=True)


main()
