# SPDX-License-Identifier: Apache-2.0
"""PyTorch training-step benchmark of the dense models on one NVIDIA GPU: torch.compile, SDPA, clipping, fused AdamW.

Run:  python3 bench/peers/torch_train.py --model dense-1b --batch 8 --sequence 4096 --steps 40 --warmup 5 --json

There is no hybrid here: PyTorch has no state-space product of its own, and one written with einsums would not be what
its users run.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

from jax_models import MODELS, forward_flops

LEARNING_RATE, BETAS, ADAM_EPS, WEIGHT_DECAY, CLIP_NORM, NORM_EPS = 3e-4, (0.9, 0.95), 1e-8, 0.1, 1.0, 1e-5

SWITCHES = {"cudnn": torch.backends.cuda.enable_cudnn_sdp, "flash": torch.backends.cuda.enable_flash_sdp}


def parse_args():
    dense = [name for name, model in MODELS.items() if set(model.pattern) == {"A", "E"} and not model.experts]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=dense, default="dense-1b")
    parser.add_argument("--batch", type=int, default=8, help="sequences a step")
    parser.add_argument("--sequence", type=int, default=4096, help="tokens a sequence")
    parser.add_argument("--depth", type=int, help="blocks, where not those of the model")
    parser.add_argument("--parameters", choices=("f32", "bf16"), default="f32",
                        help="f32: master weights and autocast; bf16: weights, gradients and AdamW's state in bf16 too")
    parser.add_argument("--mode", default="reduce-overhead",
                        help="of torch.compile: default, reduce-overhead, max-autotune-no-cudagraphs, max-autotune")
    parser.add_argument("--attention", choices=tuple(SWITCHES), nargs="+", default=["cudnn", "flash"],
                        help="SDPA's implementation: the first of these that runs (default: cudnn flash)")
    parser.add_argument("--steps", type=int, default=40, help="timed steps")
    parser.add_argument("--warmup", type=int, default=5, help="steps before timing starts; the first compiles")
    parser.add_argument("--text", type=pathlib.Path, help="folder: tokens are bytes of its files (default: random ones)")
    parser.add_argument("--json", action="store_true", help="print the JSON object on one line")
    return parser.parse_args()


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + NORM_EPS)).to(x.dtype) * self.weight.to(x.dtype)


class Attention(nn.Module):
    def __init__(self, model, groups):
        super().__init__()
        self.model, self.groups = model, groups  # groups: whether SDPA takes fewer heads of keys than of queries
        q, kv = model.q_heads * model.head_dim, model.kv_heads * model.head_dim
        self.norm = Norm(model.hidden)
        self.qkv = nn.Linear(model.hidden, q + 2 * kv, bias=False)
        self.out = nn.Linear(q, model.hidden, bias=False)

    def forward(self, x, cos, sin):
        model = self.model
        q, kv = model.q_heads * model.head_dim, model.kv_heads * model.head_dim
        heads = [t.unflatten(-1, (-1, model.head_dim)).transpose(1, 2)
                 for t in self.qkv(self.norm(x)).split([q, kv, kv], -1)]
        q, k, v = rotate(heads[0], cos, sin), rotate(heads[1], cos, sin), heads[2]
        if not self.groups:
            k, v = (t.repeat_interleave(model.q_heads // model.kv_heads, 1) for t in (k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.groups)
        return x + self.out(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.norm = Norm(model.hidden)
        self.gate_up = nn.Linear(model.hidden, 2 * model.inner, bias=False)
        self.down = nn.Linear(model.inner, model.hidden, bias=False)

    def forward(self, x, cos, sin):
        gate, up = self.gate_up(self.norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


def rotate(x, cos, sin):  # [batch, heads, seq, dim]
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).to(x.dtype)


class Model(nn.Module):
    def __init__(self, model, groups):
        super().__init__()
        self.embed = nn.Embedding(model.vocab, model.hidden)
        self.blocks = nn.ModuleList(Attention(model, groups) if kind == "A" else FeedForward(model)
                                    for kind in model.letters)
        self.norm = Norm(model.hidden)
        self.head = nn.Linear(model.hidden, model.vocab, bias=False)
        half = model.head_dim // 2
        angle = torch.arange(model.sequence)[:, None] * model.rope_theta ** (-torch.arange(half) / half)
        self.register_buffer("cos", angle.cos().float(), persistent=False)
        self.register_buffer("sin", angle.sin().float(), persistent=False)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)

    def forward(self, ids, targets):
        x = self.embed(ids).to(torch.bfloat16)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def attention_runs(model, groups):
    zeros = lambda heads: torch.zeros(1, heads, 128, model.head_dim, device="cuda", dtype=torch.bfloat16,  # noqa: E731
                                      requires_grad=True)
    keys = model.kv_heads if groups else model.q_heads
    try:
        F.scaled_dot_product_attention(zeros(model.q_heads), zeros(keys), zeros(keys), is_causal=True,
                                       enable_gqa=groups).sum().backward()
    except RuntimeError:
        return False
    return True


def choose_attention(names, model):
    """The first implementation that runs, alone switched on, and whether it reads fewer heads of keys as they are."""
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_math_sdp(False)
    for chosen in names:
        for name, switch in SWITCHES.items():
            switch(name == chosen)
        for groups in (True, False):
            if attention_runs(model, groups):
                return chosen, groups
    sys.exit(f"torch_train: SDPA runs with none of: {' '.join(names)}")


def draw_batches(args, model, count):
    """`count` batches of tokens [batch, seq + 1]."""
    random = torch.Generator().manual_seed(1)
    shape = (count, args.batch, args.sequence + 1)
    if args.text is None:
        return list(torch.randint(model.vocab, shape, generator=random).cuda())
    files = sorted(path for path in args.text.rglob("*") if path.is_file())
    text = torch.frombuffer(bytearray(b"".join(path.read_bytes() for path in files)), dtype=torch.uint8)
    starts = torch.randint(len(text) - shape[2], (*shape[:2], 1), generator=random)
    return list(text[starts + torch.arange(shape[2])].long().cuda())


def optimizer_of(model):
    decayed = [weight for weight in model.parameters() if weight.dim() > 1]
    others = [weight for weight in model.parameters() if weight.dim() <= 1]
    return torch.optim.AdamW([{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}],
                             lr=LEARNING_RATE, betas=BETAS, eps=ADAM_EPS, fused=True)


def train(args, sizes, model):
    """Seconds of compiling and of every step after the first, and losses. The host runs ahead of the device."""
    optimizer, batches = optimizer_of(model), draw_batches(args, sizes, 4)
    compiled = torch.compile(model, mode=args.mode, fullgraph=True)
    total = args.warmup + args.steps
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(total + 1)]
    losses, start, first = torch.zeros(total, device="cuda"), time.perf_counter(), None
    for step in range(total):
        marks[step].record()
        torch.compiler.cudagraph_mark_step_begin()
        tokens = batches[step % len(batches)]
        with torch.autocast("cuda", torch.bfloat16, enabled=args.parameters == "f32"):
            loss = compiled(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses[step] = loss.detach()
        if step == 0:
            torch.cuda.synchronize()
            first = time.perf_counter() - start
            print(f"step 0: {first:.1f} s, compilation included", file=sys.stderr, flush=True)
    marks[total].record()
    torch.cuda.synchronize()
    seconds = [marks[step].elapsed_time(marks[step + 1]) / 1e3 for step in range(total)]
    return first, seconds[args.warmup:], losses.tolist()


def main():
    args = parse_args()
    if not torch.cuda.is_available():
        sys.exit("torch_train: no GPU that PyTorch can use")
    changes = {"sequence": args.sequence} | ({"depth": args.depth} if args.depth else {})
    sizes = dataclasses.replace(MODELS[args.model], **changes)
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    attention, groups = choose_attention(args.attention, sizes)
    with torch.device("cuda"):
        model = Model(sizes, groups)
    if args.parameters == "bf16":
        for weight in model.parameters():
            weight.data = weight.data.to(torch.bfloat16)
    compile_s, steady, losses = train(args, sizes, model)
    tokens = args.batch * args.sequence
    median = statistics.median(steady)
    flops = 3 * forward_flops(sizes, tokens)
    report = {
        "model": args.model, "params": sum(weight.numel() for weight in model.parameters()), "batch": args.batch,
        "sequence": args.sequence, "micro_steps": 1, "parameters": args.parameters, "mode": args.mode,
        "attention": attention, "grouped_heads": groups,
        "tokens_per_s": round(tokens / median, 1), "tokens_per_s_mean": round(tokens / statistics.mean(steady), 1),
        "step_ms": round(1e3 * median, 1), "steps": args.steps, "warmup": args.warmup, "compile_s": round(compile_s, 2),
        "flops_per_step": flops, "gflops": round(flops / median / 1e9, 1),
        "peak_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved(),
        "first_loss": round(losses[0], 4), "last_loss": round(losses[-1], 4) if math.isfinite(losses[-1]) else None,
        "tokens_per_step": tokens, "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
        "device": torch.cuda.get_device_name(),
    }
    print(json.dumps(report, indent=None if args.json else 2))


if __name__ == "__main__":
    main()
