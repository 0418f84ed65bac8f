# SPDX-License-Identifier: Apache-2.0
"""The models of `lockstep train` in PyTorch, for what measures PyTorch beside Lockstep: the same architecture, sizes and
arithmetic, on one device; peers_fsdp.py and peers_training.py cut them."""
import math
from dataclasses import dataclass

import torch
from torch import nn

# suites/train/model_options.h; suites/train/train.h
LAYERS, HEADS, KV_HEADS, VOCABULARY = 2, 16, 8, 257


@dataclass
class Sizes:
    hidden: int
    mlp: int
    experts: int = 0

    @property
    def head(self):
        return self.hidden // HEADS


MODELS = {"llama tiny": Sizes(128, 250), "llama wide": Sizes(1280, 2500), "mixtral tiny": Sizes(128, 64, experts=8)}
TOP_K = 2


def rotary(sizes, sequence):
    base = 1e6 if sizes.experts else 500000.0
    frequency = torch.exp(torch.arange(0, sizes.head, 2, dtype=torch.double) / sizes.head * -math.log(base))
    angles = torch.outer(torch.arange(sequence, dtype=torch.double), frequency).repeat(1, 2)
    return angles.cos().float(), angles.sin().float()


class Attention(nn.Module):
    """Of as many heads as its linears give: all, or a rank's."""

    def __init__(self, sizes, sequence):
        super().__init__()
        hidden, self.head = sizes.hidden, sizes.head
        self.q_proj = nn.Linear(hidden, hidden, bias=False)
        self.k_proj = nn.Linear(hidden, KV_HEADS * self.head, bias=False)
        self.v_proj = nn.Linear(hidden, KV_HEADS * self.head, bias=False)
        self.o_proj = nn.Linear(hidden, hidden, bias=False)
        self.cos, self.sin = rotary(sizes, sequence)
        self.mask = torch.full((sequence, sequence), -math.inf).triu(1)

    def forward(self, x):
        b, n, _ = x.shape

        def split(y):
            return y.view(b, n, -1, self.head).transpose(1, 2)

        def turned(y):
            half = self.head // 2
            return y * self.cos + torch.cat([-y[..., half:], y[..., :half]], -1) * self.sin

        def repeated(y):
            groups = HEADS // KV_HEADS
            return y.unsqueeze(2).expand(-1, -1, groups, -1, -1).reshape(b, -1, n, self.head)

        q, k = turned(split(self.q_proj(x))), repeated(turned(split(self.k_proj(x))))
        v = repeated(split(self.v_proj(x)))
        scores = torch.matmul(q * self.head**-0.5, k.transpose(2, 3)) + self.mask
        return self.o_proj(torch.matmul(scores.softmax(-1), v).transpose(1, 2).reshape(b, n, -1))


class Mlp(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.gate_proj = nn.Linear(sizes.hidden, sizes.mlp, bias=False)
        self.up_proj = nn.Linear(sizes.hidden, sizes.mlp, bias=False)
        self.down_proj = nn.Linear(sizes.mlp, sizes.hidden, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Experts(nn.Module):
    """Each token's rows through its experts, one expert after the other."""

    def __init__(self, sizes):
        super().__init__()
        self.gate_proj = nn.Parameter(torch.empty(sizes.experts, sizes.mlp, sizes.hidden))
        self.up_proj = nn.Parameter(torch.empty(sizes.experts, sizes.mlp, sizes.hidden))
        self.down_proj = nn.Parameter(torch.empty(sizes.experts, sizes.hidden, sizes.mlp))

    def forward(self, x, weights, chosen):
        gate, up, down = (getattr(p, "to_local", lambda p=p: p)() for p in self.parameters())
        out = torch.zeros_like(x)
        for expert in range(gate.shape[0]):
            token, place = torch.where(chosen == expert)
            rows = x[token]
            rows = (nn.functional.silu(rows @ gate[expert].T) * (rows @ up[expert].T)) @ down[expert].T
            out = out.index_add(0, token, rows * weights[token, place].unsqueeze(-1))
        return out


class Mixture(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.gate = nn.Linear(sizes.hidden, sizes.experts, bias=False)
        self.experts = Experts(sizes)

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).flatten(0, 1).topk(TOP_K)
        weights = weights / weights.sum(-1, keepdim=True)
        return self.experts(x.flatten(0, 1), weights, chosen).view(x.shape)


class Layer(nn.Module):
    def __init__(self, sizes, sequence):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(sizes.hidden, 1e-5)
        self.self_attn = Attention(sizes, sequence)
        self.post_attention_layernorm = nn.RMSNorm(sizes.hidden, 1e-5)
        self.mlp = Mixture(sizes) if sizes.experts else Mlp(sizes)

    def forward(self, x):
        y = x + self.self_attn(self.input_layernorm(x))
        return y + self.mlp(self.post_attention_layernorm(y))


class Model(nn.Module):
    def __init__(self, sizes, sequence):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, sizes.hidden)
        self.layers = nn.ModuleList(Layer(sizes, sequence) for _ in range(LAYERS))
        self.norm = nn.RMSNorm(sizes.hidden, 1e-5)
        self.lm_head = nn.Linear(sizes.hidden, VOCABULARY, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.02)

    def forward(self, tokens, targets):
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        logits = self.lm_head(self.norm(x))
        return nn.functional.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, foreach=True)


def step(model, optimizer, text):
    """@returns loss and norm of the gradients, which is a DTensor if they are"""
    optimizer.zero_grad()
    loss = model(text[:, :-1], text[:, 1:])
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item(), norm
