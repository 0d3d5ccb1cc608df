# SPDX-License-Identifier: Apache-2.0
"""JAX training-step benchmark: forward, backward, clipping and AdamW in one jitted, donated step.

Install:  python3 -m venv .venv && .venv/bin/pip install jax numpy
Run:      .venv/bin/python bench/peers/jax_train.py --model dense --style idiomatic --steps 10 --warmup 2 --json

One letter of the pattern is one pre-norm residual block:
  A  causal grouped-query attention with RoPE      M  Mamba-2, chunked state-space duality
  E  SwiGLU, or experts with top-k routing         R  Griffin recurrent block (RG-LRU)
"""
import argparse
import dataclasses
import importlib
import json
import os
import pathlib
import platform
import statistics
import sys
import time

from jax_models import MODELS, forward_flops


def set_up(args):
    """Must run before NumPy and JAX are imported: both size their thread pools from the affinity mask."""
    os.environ.setdefault("JAX_PLATFORMS", args.platform)
    if args.platform != "cpu":
        os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.92")  # of the device, instead of three quarters
        return
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.threads])
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={args.devices}"
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(args.threads)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=tuple(MODELS), default="dense")
    parser.add_argument("--style", choices=("idiomatic", "tuned", "unrolled"), default="idiomatic",
                        help="as JAX users write it; hand-tuned for one CPU (dense and hybrid); for speed on a GPU")
    parser.add_argument("--platform", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--steps", type=int, default=10, help="timed steps")
    parser.add_argument("--warmup", type=int, default=2, help="steps before timing starts")
    parser.add_argument("--threads", type=int, default=2, help="cores to pin to, on the CPU")
    parser.add_argument("--batch", type=int, default=4, help="sequences a micro-batch, over all devices")
    parser.add_argument("--micro-steps", type=int, default=1, help="micro-batches whose gradients a step adds up")
    parser.add_argument("--sequence", type=int, help="tokens a sequence (default 512)")
    parser.add_argument("--depth", type=int, help="blocks, where not those of the model")
    parser.add_argument("--precision", choices=("f32", "bf16"), help="of activations and products (default f32)")
    parser.add_argument("--attention", choices=("xla", "cudnn"), help="implementation of attention (default xla)")
    parser.add_argument("--remat", choices=("none", "selective", "full"),
                        help="compute again in the backward pass: nothing, all but products with weights, whole blocks")
    parser.add_argument("--expert-products", choices=("padded", "ragged"),
                        help="of the unrolled style: of every slot of an expert (default), or of the chosen rows alone")
    parser.add_argument("--text", type=pathlib.Path, help="folder: tokens are bytes of its files (default: random ones)")
    parser.add_argument("--devices", type=int, default=1, help="devices, each with an equal part of the batch")
    parser.add_argument("--zero3", action="store_true", help="weights and optimizer state divided over the devices too")
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    args = parser.parse_args()
    if args.style == "tuned" and args.model not in ("dense", "hybrid"):
        parser.error("the tuned style knows the models dense and hybrid only")
    return args


ARGS = parse_args()
set_up(ARGS)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402

from jax_common import init_params  # noqa: E402
from jax_step import train_step  # noqa: E402


def model_of(args):
    """The model with what the command line says otherwise."""
    named = ("sequence", "depth", "precision", "attention", "remat", "expert_products")
    fields = {name: getattr(args, name) for name in named}
    return dataclasses.replace(MODELS[args.model], **{name: value for name, value in fields.items() if value is not None})


def draw_batches(args, model, count):
    """`count` batches of tokens [micro-batches, batch, seq + 1]."""
    rng = np.random.default_rng(1)
    rows, length = (args.micro_steps, args.batch), model.sequence + 1
    if args.text is None:
        return [rng.integers(0, model.vocab, (*rows, length), np.int32) for _ in range(count)]
    files = sorted(path for path in args.text.rglob("*") if path.is_file())
    text = np.frombuffer(b"".join(path.read_bytes() for path in files), np.uint8)
    starts = rng.integers(0, len(text) - length, (count, *rows, 1))
    return list(text[starts + np.arange(length)].astype(np.int32))


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


def peak_bytes():
    """Most memory that a device has held, where it says so."""
    held = [device.memory_stats() or {} for device in jax.local_devices()]
    return max(stats.get("peak_bytes_in_use", 0) for stats in held) or None


def measure(args):
    model, layers = model_of(args), importlib.import_module(f"jax_{args.style}")
    mesh = jax.make_mesh((args.devices,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    place = lambda leaf, spec: jax.device_put(leaf, NamedSharding(mesh, spec))  # noqa: E731
    params = jax.tree.map(lambda leaf: place(leaf, spec_of(leaf, args)), layers.prepare(init_params(model)))
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    zeros = lambda: jax.tree.map(jnp.zeros_like, params)  # noqa: E731
    state = (params, zeros(), zeros(), place(np.zeros((), np.int32), PartitionSpec()))
    del params  # the step takes them over
    batches = [place(batch, PartitionSpec(None, "data")) for batch in draw_batches(args, model, 4)]
    tokens = args.micro_steps * args.batch * model.sequence

    start = time.perf_counter()
    kept = jax.tree.map(lambda leaf: leaf.sharding, state)
    step = jax.jit(train_step, static_argnums=(2, 3), donate_argnums=0, out_shardings=(kept, None))
    step = step.lower(state, batches[0], model, layers).compile()
    compile_s = time.perf_counter() - start

    # A device that runs beside its host has the next step before one is waited for, so that it never idles.
    ahead = 0 if args.platform == "cpu" else 1
    times, cpu_times, losses = [], [], []
    for index in range(args.warmup + ahead + args.steps):
        start, cpu_start = time.perf_counter(), time.process_time()
        state, loss = step(state, batches[index % len(batches)])
        losses.append(loss)
        jax.block_until_ready((state, loss) if ahead == 0 else losses[max(0, index - ahead)])
        times.append(time.perf_counter() - start)
        cpu_times.append(time.process_time() - cpu_start)
        if not args.json:
            print(f"step {index}: loss {losses[max(0, index - ahead)]:.4f}, {times[-1]:.3f} s, CPU {cpu_times[-1]:.3f} s",
                  file=sys.stderr)
    losses = [float(loss) for loss in losses]

    steady = times[args.warmup + ahead:]  # that of the first step ahead is no step's
    flops = 3 * forward_flops(model, tokens)
    report = {
        "model": args.model, "style": args.style, "devices": args.devices, "zero3": args.zero3,
        "pattern": model.letters, "params": count, "batch": args.batch, "sequence": model.sequence,
        "micro_steps": args.micro_steps, "precision": model.precision, "attention": model.attention, "remat": model.remat,
        "expert_products": model.expert_products if model.experts else None,
        "tokens_per_s": round(tokens / statistics.median(steady), 1),
        "tokens_per_s_mean": round(tokens / statistics.mean(steady), 1),
        "tokens_per_s_min": round(tokens / max(steady), 1), "tokens_per_s_max": round(tokens / min(steady), 1),
        "step_ms": round(1e3 * statistics.median(steady), 1),
        "cpu_ms_per_step": round(1e3 * statistics.median(cpu_times[args.warmup + ahead:]), 1),
        "steps": args.steps, "warmup": args.warmup,
        "compile_s": round(compile_s, 2), "flops_per_step": flops,
        "gflops": round(flops / statistics.median(steady) / 1e9, 1), "peak_bytes": peak_bytes(),
        "first_loss": round(losses[0], 4), "last_loss": round(losses[-1], 4),
        "tokens_per_step": tokens, "jax": jax.__version__, "numpy": np.__version__,
        "platform": jax.default_backend(), "device": jax.devices()[0].device_kind,
        "cores": len(os.sched_getaffinity(0)), "arch": platform.machine(),
    }
    if args.platform == "cpu":
        jax_rate, numpy_rate = matmul_gflops()
        report |= {"matmul_gflops_jax": round(jax_rate, 1), "matmul_gflops_numpy": round(numpy_rate, 1)}
    return report


if __name__ == "__main__":
    print(json.dumps(measure(ARGS), indent=None if ARGS.json else 2))
