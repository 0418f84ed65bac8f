# SPDX-License-Identifier: Apache-2.0
"""Checkpoints between Lockstep, Hugging Face's safetensors and PyTorch's FSDP2, each by the other's own package. Run by
interchange_test; LOCKSTEP: the program. One thread a process, loopback."""
import contextlib, json, os, subprocess, sys, tempfile, unittest

sys.setdlopenflags(os.RTLD_LAZY | os.RTLD_GLOBAL)  # CUDA's libraries are empty here, and nobody calls them
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as checkpoint  # noqa: E402
import torch.multiprocessing as processes  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402

import dcp  # noqa: E402

LOCKSTEP = os.environ["LOCKSTEP"]
SMALL = ["train", "llama", "--sequence", "8", "--batch", "4", "--db", "train.db", "--optimizer", "adamw-fused"]
RANKS = 2


def train(*words):
    run = subprocess.run([LOCKSTEP, *SMALL, *words], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    return [line.rpartition(" tokens")[0].rpartition(" ")[0] for line in run.stdout.splitlines() if " loss " in line]


def index_of(folder):
    with open(os.path.join(folder, dcp.INDEX)) as file:
        return json.load(file)


def bits(tensors):
    return {name: (tensor.dtype, tensor.shape, tensor.contiguous().view(-1).view(torch.uint8).tolist())
            for name, tensor in tensors.items()}


class Holder(torch.nn.Module):
    """Parameters by path, without a forward: a model's names, to be sharded by FSDP2."""

    def __init__(self, values):
        super().__init__()
        below = {}
        for path, value in values.items():
            head, _, rest = path.partition(".")
            if rest:
                below.setdefault(head, {})[rest] = value
            else:
                self.register_parameter(head, torch.nn.Parameter(torch.zeros_like(value)))
        for name, inner in below.items():
            self.add_module(name, Holder(inner))


@contextlib.contextmanager
def fsdp2(rank, path, port):
    """A sharded model of the parameters of a checkpoint, its optimizer after a step, and their state."""
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    values = {name[6:]: value for name, value in dcp.read_safetensors(path)[0].items() if name.startswith("model.")}
    model = fully_shard(Holder(values), mesh=init_device_mesh("cpu", (RANKS,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    yield model, optimizer
    dist.destroy_process_group()


def flat(model, optimizer):
    return dict(zip(("model", "optim"), get_state_dict(
        model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))))


def goes_through_fsdp2(rank, port):
    """Loads what Lockstep saved, by PyTorch's own way, and saves it again, from shards."""
    with fsdp2(rank, "ours", port) as (model, optimizer):
        state = flat(model, optimizer)
        checkpoint.load(state, checkpoint_id="ours-as-dcp",
                        planner=checkpoint.DefaultLoadPlanner(allow_partial_load=True))
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"],
                       options=StateDictOptions(flatten_optimizer_state_dict=True))
        checkpoint.save(flat(model, optimizer), checkpoint_id="theirs")


class Interchange(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        torch.set_num_threads(1)

    def saved(self):
        """A training on shards, and its steps when it goes on."""
        train("--mesh", "fsdp:2,tp:2", "--steps", "2", "--save", "ours")
        return train("--mesh", "fsdp:4", "--steps", "3", "--resume", "ours")

    def goes_on(self, path):
        return train("--mesh", "fsdp:4", "--steps", "3", "--resume", path)

    def test_safetensors_of_hugging_face(self):
        """Catches: a header that their package refuses or reads otherwise, elements in another order."""
        then = self.saved()
        index = index_of("ours")
        for file in set(index["weight_map"].values()):
            mine = {key for key, where in index["weight_map"].items() if where == file}
            self.assertEqual(set(load_file(f"ours/{file}")), mine)
        tensors, metadata = dcp.read_safetensors("ours")
        os.mkdir("theirs")
        save_file(tensors, "theirs/model.safetensors", metadata)
        self.assertEqual(self.goes_on("theirs"), then)
        self.assertEqual(self.goes_on("theirs/model.safetensors"), then)
        tensors["model.norm.weight"] += 1
        save_file(tensors, "theirs/model.safetensors", metadata)
        self.assertNotEqual(self.goes_on("theirs"), then)

    def test_every_dtype_both_ways(self):
        """Catches: a dtype under another's name."""
        values = {str(dtype)[6:]: torch.arange(-3, 3).to(dtype).view(2, 3) for dtype in (
            torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
            torch.int8, torch.uint8, torch.bool)}
        values["empty"], values["scalar"] = torch.zeros(0, 3), torch.tensor(2.5)
        save_file(values, "all.safetensors", {"who": "a"})
        shown = subprocess.run([LOCKSTEP, "show", "shards", "all.safetensors", "--verify", "--json"], text=True,
                               capture_output=True, timeout=60)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        told = json.loads(shown.stdout)
        short = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "bool": "bool"}
        for tensor in told["tensors"]:
            value = values[tensor["name"]]
            kind = str(value.dtype)[6:]
            letters = kind.rstrip("0123456789")
            self.assertEqual(tensor["dtype"], short[letters] + kind[len(letters):])
            self.assertEqual(tensor["shape"], list(value.shape))
        self.assertEqual((len(told["tensors"]), told["metadata"]), (len(values), {"who": "a"}))

    def test_distributed_checkpoint_of_fsdp2(self):
        """Ours is read by FSDP2's shards, and what these save is gone on with. Catches: a name that get_state_dict does
        not know, a count of steps of another dtype, a shard of the other rank."""
        then = self.saved()
        self.assertEqual(dcp.main(["to-dcp", "ours", "ours-as-dcp"]), 0)
        port = int(subprocess.check_output([sys.executable, dcp.__file__.replace("dcp.py", "free_port.py")]))
        processes.spawn(goes_through_fsdp2, (port,), nprocs=RANKS)
        self.assertEqual(dcp.main(["from-dcp", "theirs", "back", "--metadata-of", "ours"]), 0)
        ours, back = dcp.read_safetensors("ours")[0], dcp.read_safetensors("back")[0]
        self.assertEqual(set(ours), set(back))
        self.assertEqual(bits(ours), bits(back))
        self.assertEqual(self.goes_on("back"), then)

    def test_what_is_no_checkpoint(self):
        """Catches: a trace instead of a sentence, an index that leads to a file without the tensor."""
        self.assertEqual(dcp.main(["from-dcp", "nowhere", "back"]), 1)
        self.assertEqual(dcp.main(["to-dcp", "nowhere", "back"]), 1)
        self.saved()
        self.assertEqual(dcp.main(["to-dcp", "ours", "ours-as-dcp"]), 0)
        self.assertEqual(dcp.main(["from-dcp", "ours-as-dcp", "ours"]), 1)  # which has an index of its own
        index = index_of("ours")
        index["weight_map"].pop(next(iter(index["weight_map"])))
        with open(f"ours/{dcp.INDEX}", "w") as file:
            json.dump(index, file)
        self.assertEqual(dcp.main(["to-dcp", "ours", "back"]), 1)
        os.truncate("ours/" + next(iter(index["weight_map"].values())), 100)
        self.assertEqual(dcp.main(["to-dcp", "ours", "back"]), 1)


if __name__ == "__main__":
    unittest.main()
