#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of PyTorch (torch.distributed.checkpoint, as FSDP2 saves them) become Lockstep's, and the other way.

usage: ci/dcp.py to-dcp CHECKPOINT FOLDER      of Lockstep's, or of safetensors as Hugging Face's -> PyTorch's
       ci/dcp.py from-dcp FOLDER CHECKPOINT [--metadata-of OTHER]   PyTorch's -> one safetensors file, which loads

Tensors keep their names, so that what is saved as {"model": ..., "optim": ...} of get_state_dict, optimizer state
flattened, is what `lockstep train --save` calls it. What PyTorch's has beside tensors (learning rates, say) is
named, and left out; ours has none of it, and PyTorch loads it with DefaultLoadPlanner(allow_partial_load=True).
--metadata-of takes what Lockstep says of a training (`lockstep show shards`) from a checkpoint of its own.
Needs a Python with torch and safetensors, and room for all tensors at once. Whether files are what was saved
`lockstep show shards --verify` says. Exit 0: done; 1: it is no such checkpoint; 2: usage."""
import argparse, json, math, os, pickle, sys

import torch
import torch.distributed.checkpoint as dcp
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

INDEX = "model.safetensors.index.json"
DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
          "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8,
          "bool": torch.bool}


class NoCheckpoint(Exception):
    pass


def read_file(path):
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}


def assembled(folder, index):
    """Of Lockstep's index: pieces of tensors, and where they belong."""
    files = {}
    for name, tensor in index["tensors"].items():
        whole, left = None, math.prod(tensor["shape"])
        for piece in tensor["pieces"]:
            file = index["weight_map"][piece["key"]]
            if file not in files:
                files[file] = read_file(os.path.join(folder, file))[0]
            part = files[file].pop(piece["key"])
            if whole is None:
                whole = torch.empty(tensor["shape"], dtype=part.dtype)
            view = whole
            for dim, (start, length) in enumerate(zip(piece["start"], piece["shape"])):
                view = view.narrow(dim, start, length)
            view.copy_(part)
            left -= part.numel()
        if left:
            raise NoCheckpoint(f"the pieces of {name} in {folder} lack {left} elements")
        yield name, torch.empty(tensor["shape"], dtype=DTYPES[tensor["dtype"]]) if whole is None else whole


def read_safetensors(path):
    """Tensors by name, and what is said beside them."""
    if os.path.isfile(path):
        return read_file(path)
    if not os.path.exists(os.path.join(path, INDEX)):
        return read_file(os.path.join(path, "model.safetensors"))
    with open(os.path.join(path, INDEX)) as file:
        index = json.load(file)
    if "tensors" in index:
        return dict(assembled(path, index)), index["user"]
    tensors = {}
    for file in sorted(set(index["weight_map"].values())):
        tensors.update(read_file(os.path.join(path, file))[0])
    return tensors, {}


def to_dcp(options):
    tensors, _ = read_safetensors(options.checkpoint)
    dcp.save(tensors, checkpoint_id=options.folder, no_dist=True)
    print(f"{len(tensors)} tensors in {options.folder}")


def from_dcp(options):
    reader = dcp.FileSystemReader(options.folder)
    told = reader.read_metadata().state_dict_metadata
    tensors = {name: torch.empty(entry.size, dtype=entry.properties.dtype) for name, entry in told.items()
               if isinstance(entry, TensorStorageMetadata)}
    dcp.load(tensors, storage_reader=reader, no_dist=True)
    metadata = read_safetensors(options.metadata_of)[1] if options.metadata_of else {}
    os.makedirs(options.checkpoint, exist_ok=True)
    if os.path.exists(os.path.join(options.checkpoint, INDEX)):
        raise NoCheckpoint(f"{options.checkpoint} has another checkpoint's {INDEX}; name another folder")
    path = os.path.join(options.checkpoint, "model.safetensors")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, {"format": "pt", **metadata})
    others = sorted(set(told) - set(tensors))
    for kind in sorted({name.rpartition(".")[2] for name in others}):
        of = [name for name in others if name.rpartition(".")[2] == kind]
        print(f"left out, no tensors: {of[0]}" + (f" and {len(of) - 1} others of {kind}" if len(of) > 1 else ""))
    print(f"{len(tensors)} tensors in {path}")


def main(words):
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    commands = parser.add_subparsers(required=True)
    there = commands.add_parser("to-dcp")
    there.add_argument("checkpoint")
    there.add_argument("folder")
    there.set_defaults(run=to_dcp)
    back = commands.add_parser("from-dcp")
    back.add_argument("folder")
    back.add_argument("checkpoint")
    back.add_argument("--metadata-of")
    back.set_defaults(run=from_dcp)
    options = parser.parse_args(words)
    try:
        options.run(options)
    except NoCheckpoint as e:
        print(f"dcp: {e}", file=sys.stderr)
        return 1
    except (OSError, KeyError, TypeError, ValueError, RuntimeError, pickle.UnpicklingError, SafetensorError,
            dcp.api.CheckpointException) as e:
        print(f"dcp: this is no such checkpoint: {type(e).__name__}: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
