# SPDX-License-Identifier: Apache-2.0
"""PyTorch's FSDP2 over gloo, training the model of `lockstep train llama --mesh fsdp:N --world gloo`: the same
architecture, sizes, batch, dtype and optimizer, each layer and the whole wrapped, one process a rank, one thread each.
Prints one JSON object: milliseconds of each step, the most bytes that rank 0 has held in a step, its losses.
Run by ci/numbers --fsdp with the arguments RANKS STEPS."""
import json
import math
import os
import subprocess
import sys
import time
import warnings

sys.setdlopenflags(os.RTLD_LAZY | os.RTLD_GLOBAL)  # CUDA's libraries are empty here, and nobody calls them
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402

from free_port import free_port  # noqa: E402

# suites/train/model_options.h, "tiny"; suites/train/train.h
HIDDEN, LAYERS, HEADS, KV_HEADS, MLP, VOCABULARY, SEQUENCE, BATCH = 128, 2, 16, 8, 250, 257, 128, 8
HEAD = HIDDEN // HEADS


def rotary():
    frequency = torch.exp(torch.arange(0, HEAD, 2, dtype=torch.double) / HEAD * -math.log(500000.0))
    angles = torch.outer(torch.arange(SEQUENCE, dtype=torch.double), frequency).repeat(1, 2)
    return angles.cos().float(), angles.sin().float()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.k_proj = nn.Linear(HIDDEN, KV_HEADS * HEAD, bias=False)
        self.v_proj = nn.Linear(HIDDEN, KV_HEADS * HEAD, bias=False)
        self.o_proj = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.cos, self.sin = rotary()
        self.mask = torch.full((SEQUENCE, SEQUENCE), -math.inf).triu(1)

    def forward(self, x):
        b, n, _ = x.shape

        def split(y, heads):
            return y.view(b, n, heads, HEAD).transpose(1, 2)

        def turned(y):
            half = HEAD // 2
            return y * self.cos + torch.cat([-y[..., half:], y[..., :half]], -1) * self.sin

        def repeated(y):
            groups = HEADS // KV_HEADS
            return y.unsqueeze(2).expand(b, KV_HEADS, groups, n, HEAD).reshape(b, HEADS, n, HEAD)

        q, k = turned(split(self.q_proj(x), HEADS)), repeated(turned(split(self.k_proj(x), KV_HEADS)))
        v = repeated(split(self.v_proj(x), KV_HEADS))
        scores = torch.matmul(q * HEAD**-0.5, k.transpose(2, 3)) + self.mask
        return self.o_proj(torch.matmul(scores.softmax(-1), v).transpose(1, 2).reshape(b, n, HIDDEN))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(HIDDEN, 1e-5)
        self.self_attn = Attention()
        self.post_attention_layernorm = nn.RMSNorm(HIDDEN, 1e-5)
        self.gate_proj = nn.Linear(HIDDEN, MLP, bias=False)
        self.up_proj = nn.Linear(HIDDEN, MLP, bias=False)
        self.down_proj = nn.Linear(MLP, HIDDEN, bias=False)

    def forward(self, x):
        y = x + self.self_attn(self.input_layernorm(x))
        z = self.post_attention_layernorm(y)
        return y + self.down_proj(nn.functional.silu(self.gate_proj(z)) * self.up_proj(z))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(HIDDEN, 1e-5)
        self.lm_head = nn.Linear(HIDDEN, VOCABULARY, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, 0, 0.02)

    def forward(self, tokens, targets):
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        logits = self.lm_head(self.norm(x))
        return nn.functional.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


def train(steps):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = Llama()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, foreach=True)
    text = torch.randint(0, 256, (BATCH // dist.get_world_size(), SEQUENCE + 1))

    def step():
        optimizer.zero_grad()
        loss = model(text[:, :-1], text[:, 1:])
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item(), norm.full_tensor().item()

    times, losses = [], []
    for _ in range(steps):
        start = time.perf_counter()
        losses.append(step()[0])
        times.append(1e3 * (time.perf_counter() - start))
    tracker = FSDPMemTracker(model, optimizer)
    with tracker:
        step()
    held = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]
    return {"ms": times, "losses": losses, "bytes": held["Total"],
            "parameters": sum(p.numel() for p in Llama().parameters())}


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
