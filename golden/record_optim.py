# SPDX-License-Identifier: Apache-2.0
"""What torch.optim.Muon of the pinned wheel makes of some matrices, and bitsandbytes of some numbers: golden/optim.json.

  ci/setup --peers
  MKL_CBWR=AVX2,STRICT ATEN_CPU_CAPABILITY=default OMP_NUM_THREADS=1 LOCKSTEP_PEER=golden/record_optim.py \
    .../peers-*/serve >new.json                                  # Muon, in the environment of the lane exact
  BITSANDBYTES=FOLDER LOCKSTEP_PEER=golden/record_optim.py .../peers-*/serve >new.json    # codes, in the usual one

FOLDER has the unpacked wheels of bitsandbytes 0.50.2 and numpy. What is not recorded stays as golden/optim.json has it.
The map is recorded on a processor with AVX2: without vectors torch.linspace gives some entries other last bits. Bits are
in hex, numbers in the order of memory."""
import json
import os
import pathlib
import sys

sys.setdlopenflags(os.RTLD_LAZY | os.RTLD_GLOBAL)
sys.path.insert(0, os.environ.get("BITSANDBYTES", ""))
import torch  # noqa: E402

FILE = pathlib.Path(__file__).with_name("optim.json")
torch.set_num_threads(1)
torch.backends.mkldnn.enabled = False


def numbers(count, seed):
    """Exact in 16 bits, too: number i is ((7919 i + 104729 seed) mod 251 - 125) / 64."""
    return (torch.arange(count) * 7919 + 104729 * seed).remainder(251).sub(125).div(64)


def bits(tensor):
    view = {4: torch.int32, 2: torch.int16, 1: torch.uint8}[tensor.element_size()]
    width = 2 * tensor.element_size()
    mask = (1 << 4 * width) - 1
    return "".join(f"{value & mask:0{width}x}" for value in tensor.detach().contiguous().view(view).flatten().tolist())


def muon(rows, columns, dtype, **options):
    parameter = torch.nn.Parameter(numbers(rows * columns, 1).view(rows, columns).to(dtype))
    optimizer = torch.optim.Muon([parameter], lr=0.05, **options)
    for step in range(3):
        parameter.grad = numbers(rows * columns, 2 + step).view(rows, columns).to(dtype)
        optimizer.step()
    return {"rows": rows, "columns": columns, "dtype": str(dtype).removeprefix("torch."), **options,
            "parameter": bits(parameter), "momentum_buffer": bits(optimizer.state[parameter]["momentum_buffer"])}


def codes(signed):
    import bitsandbytes
    table = bitsandbytes.functional.create_dynamic_map(signed=signed).float()
    block, count = 64, 32
    generator = torch.Generator().manual_seed(7)
    values = torch.randn(block * count, generator=generator)
    if not signed:
        values = values.abs()
    values[:256] = values[:256].clamp(-1, 1)
    values[:255:2] = (table[:255:2] + table[1::2]) / 2  # as near to two entries
    values[:256:block] = 1  # the scale, by which nothing moves off the middle
    found, absmax = torch.ops.bitsandbytes.quantize_blockwise(values.double(), table, block)
    return {"signed": signed, "map": bits(table), "columns": block, "values": bits(values), "codes": bits(found),
            "scales": bits(absmax.float()), "version": bitsandbytes.__version__}


def main():
    golden = json.loads(FILE.read_text()) if FILE.exists() else {}
    if os.environ.get("BITSANDBYTES"):
        golden["codes"] = [codes(True), codes(False)]
        print(json.dumps(golden, indent=1))
        return
    golden |= {"torch": torch.__version__, "muon": [
        muon(8, 12, torch.float32), muon(12, 8, torch.float32), muon(16, 16, torch.float32, nesterov=False),
        muon(1, 5, torch.float32), muon(40, 24, torch.float32, weight_decay=0.0),
        muon(24, 40, torch.float32, adjust_lr_fn="match_rms_adamw"), muon(20, 9, torch.bfloat16),
        muon(9, 33, torch.float32, ns_steps=2, momentum=0.5)]}
    print(json.dumps(golden, indent=1))


main()
