# SPDX-License-Identifier: Apache-2.0
"""JAX training-step benchmark: forward, backward, clipping and AdamW in one jitted, donated step, f32.

Install:  python3 -m venv .venv && .venv/bin/pip install jax numpy
Run:      .venv/bin/python bench/peers/jax_train.py --model dense --style idiomatic --steps 10 --warmup 2 --json

One letter of the pattern is one pre-norm residual block:
  A  causal grouped-query attention with RoPE      M  Mamba-2, chunked state-space duality
  E  SwiGLU (dense) or top-2 of 8 experts (hybrid) R  Griffin recurrent block (RG-LRU)
"""
import argparse
import importlib
import json
import os
import platform
import statistics
import sys
import time


def set_up(count, devices):
    """Must run before NumPy and JAX are imported: both size their thread pools from the affinity mask."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(count)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("dense", "hybrid"), default="dense")
    parser.add_argument("--style", choices=("idiomatic", "tuned"), default="idiomatic",
                        help="as JAX users write it, or hand-tuned for one CPU")
    parser.add_argument("--steps", type=int, default=10, help="timed steps")
    parser.add_argument("--warmup", type=int, default=2, help="steps before timing starts")
    parser.add_argument("--threads", type=int, default=2, help="cores to pin to")
    parser.add_argument("--batch", type=int, default=4, help="sequences a step, over all devices")
    parser.add_argument("--devices", type=int, default=1, help="host devices, each with an equal part of the batch")
    parser.add_argument("--zero3", action="store_true", help="weights and optimizer state divided over the devices too")
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    return parser.parse_args()


ARGS = parse_args() if __name__ == "__main__" else argparse.Namespace(threads=2, devices=1)
set_up(ARGS.threads, ARGS.devices)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402

from jax_common import PATTERNS, SEQ, VOCAB, forward_flops, init_params, rms_norm  # noqa: E402

LEARNING_RATE, BETA1, BETA2, ADAM_EPS, WEIGHT_DECAY, CLIP_NORM = 3e-4, 0.9, 0.95, 1e-8, 0.1, 1.0


def loss_fn(params, tokens, model, layers):  # tokens [batch, seq + 1]
    x, aux_loss = params["embed"][tokens[:, :-1]], 0.0
    for kind, p in zip(PATTERNS[model], params["blocks"]):
        y = rms_norm(x, p["norm"])
        if kind == "E" and model == "hybrid":
            y, aux = layers.experts(p, y)
            aux_loss += aux
        else:
            y = {"A": layers.attention, "E": layers.mlp, "M": layers.mamba2, "R": layers.griffin}[kind](p, y)
        x = x + y
    logits = rms_norm(x, params["norm"]) @ params["head"]
    return layers.cross_entropy(logits, tokens[:, 1:]) + aux_loss


def adamw(state, grads):
    params, mean, square, step = state
    step = step + 1
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, CLIP_NORM / norm)
    bias1, bias2 = 1 - BETA1 ** step, 1 - BETA2 ** step

    def update(p, m, v, g):
        g = g * scale
        m, v = BETA1 * m + (1 - BETA1) * g, BETA2 * v + (1 - BETA2) * g * g
        decay = WEIGHT_DECAY if p.ndim > 1 else 0.0
        return p - LEARNING_RATE * (m / bias1 / (jnp.sqrt(v / bias2) + ADAM_EPS) + decay * p), m, v

    updated = jax.tree.map(update, params, mean, square, grads)
    return (*jax.tree.transpose(jax.tree.structure(params), None, updated), step)


def train_step(state, tokens, model, layers):
    loss, grads = jax.value_and_grad(loss_fn)(state[0], tokens, model, layers)
    return adamw(state, grads), loss


def matmul_gflops(n=2048, repeats=5):
    """Best of a few n^3 f32 products: (JAX, NumPy)."""
    x = np.random.default_rng(0).standard_normal((n, n)).astype(np.float32)
    jax_x, jax_dot = jnp.asarray(x), jax.jit(jnp.dot)

    def best(run):
        run()
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        return 2 * n ** 3 / min(times) / 1e9

    return best(lambda: jax_dot(jax_x, jax_x).block_until_ready()), best(lambda: x @ x)


def spec_of(leaf, args):
    """Where a weight is divided: along its first dimension that the devices divide, under ZeRO-3."""
    fits = [dim for dim, size in enumerate(leaf.shape) if size % args.devices == 0]
    return PartitionSpec(*[None] * fits[0], "data") if args.zero3 and fits else PartitionSpec()


def measure(args):
    layers = importlib.import_module(f"jax_{args.style}")
    mesh = jax.make_mesh((args.devices,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    place = lambda leaf, spec: jax.device_put(leaf, NamedSharding(mesh, spec))  # noqa: E731
    params = jax.tree.map(lambda leaf: place(leaf, spec_of(leaf, args)), layers.prepare(init_params(args.model)))
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    zeros = lambda: jax.tree.map(jnp.zeros_like, params)  # noqa: E731
    state = (params, zeros(), zeros(), place(np.zeros((), np.int32), PartitionSpec()))
    rng = np.random.default_rng(1)
    batches = [place(rng.integers(0, VOCAB, (args.batch, SEQ + 1), np.int32), PartitionSpec("data")) for _ in range(4)]
    tokens = args.batch * SEQ

    start = time.perf_counter()
    kept = jax.tree.map(lambda leaf: leaf.sharding, state)
    step = jax.jit(train_step, static_argnums=(2, 3), donate_argnums=0, out_shardings=(kept, None))
    step = step.lower(state, batches[0], args.model, layers).compile()
    compile_s = time.perf_counter() - start

    times, cpu_times, losses = [], [], []
    for index in range(args.warmup + args.steps):
        start, cpu_start = time.perf_counter(), time.process_time()
        state, loss = jax.block_until_ready(step(state, batches[index % len(batches)]))
        times.append(time.perf_counter() - start)
        cpu_times.append(time.process_time() - cpu_start)
        losses.append(float(loss))
        if not args.json:
            print(f"step {index}: loss {losses[-1]:.4f}, {times[-1]:.3f} s, CPU {cpu_times[-1]:.3f} s", file=sys.stderr)

    steady = times[args.warmup:]
    flops = 3 * forward_flops(args.model, tokens)
    jax_rate, numpy_rate = matmul_gflops()
    return {
        "model": args.model, "style": args.style, "devices": args.devices, "zero3": args.zero3,
        "pattern": PATTERNS[args.model], "params": count,
        "tokens_per_s": round(tokens / statistics.median(steady), 1),
        "tokens_per_s_min": round(tokens / max(steady), 1), "tokens_per_s_max": round(tokens / min(steady), 1),
        "step_ms": round(1e3 * statistics.median(steady), 1),
        "cpu_ms_per_step": round(1e3 * statistics.median(cpu_times[args.warmup:]), 1),
        "steps": args.steps, "warmup": args.warmup,
        "compile_s": round(compile_s, 2), "flops_per_step": flops,
        "gflops": round(flops / statistics.median(steady) / 1e9, 1),
        "matmul_gflops_jax": round(jax_rate, 1), "matmul_gflops_numpy": round(numpy_rate, 1),
        "first_loss": round(losses[0], 4), "last_loss": round(losses[-1], 4),
        "tokens_per_step": tokens, "jax": jax.__version__, "numpy": np.__version__,
        "platform": jax.default_backend(), "cores": len(os.sched_getaffinity(0)), "arch": platform.machine(),
    }


if __name__ == "__main__":
    print(json.dumps(measure(ARGS), indent=None if ARGS.json else 2))
