# SPDX-License-Identifier: Apache-2.0
"""JAX training-step benchmark: forward, backward, clipping and AdamW in one jitted, donated step, f32.

Install:  python3 -m venv .venv && .venv/bin/pip install jax numpy
Run:      .venv/bin/python bench/peers/jax_train.py --model dense --steps 10 --warmup 2 --json

One letter of the pattern is one pre-norm residual block:
  A  causal grouped-query attention with RoPE      M  Mamba-2, chunked state-space duality
  E  SwiGLU (dense) or top-2 of 8 experts (hybrid) R  Griffin recurrent block (RG-LRU)
"""
import argparse
import json
import math
import os
import platform
import statistics
import sys
import time


def pin_threads(count):
    """Must run before NumPy and JAX are imported: both size their thread pools from the affinity mask."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(count)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("dense", "hybrid"), default="dense")
    parser.add_argument("--steps", type=int, default=10, help="timed steps")
    parser.add_argument("--warmup", type=int, default=2, help="steps before timing starts")
    parser.add_argument("--threads", type=int, default=2, help="cores to pin to")
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    return parser.parse_args()


ARGS = parse_args() if __name__ == "__main__" else argparse.Namespace(threads=2)
pin_threads(ARGS.threads)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

PATTERNS = {"dense": "AEAEAEAEAEAE", "hybrid": "AEMEAEMEAEMR"}
BATCH, SEQ, HIDDEN, VOCAB = 4, 512, 384, 8192
TOKENS = BATCH * SEQ
Q_HEADS, KV_HEADS, HEAD_DIM, Q_BLOCK = 6, 2, 64, 128
MLP_INNER = 1536
EXPERTS, TOP_K, EXPERT_INNER, CAPACITY_FACTOR, AUX_COEFF = 8, 2, 256, 1.25, 0.01
CAPACITY = math.ceil(TOKENS * TOP_K / EXPERTS * CAPACITY_FACTOR)
SSM_INNER, SSM_HEADS, SSM_HEAD_DIM, SSM_STATE, CHUNK = 768, 12, 64, 64, 64
CONV_WIDTH = 4
LRU_WIDTH, LRU_BLOCKS, LRU_C = 384, 6, 8.0
LEARNING_RATE, BETA1, BETA2, ADAM_EPS, WEIGHT_DECAY, CLIP_NORM = 3e-4, 0.9, 0.95, 1e-8, 0.1, 1.0
NORM_EPS = 1e-5


# ---------------------------------------------------------------------------------------------- parameters

def init_block(kind, model, rng):
    def normal(*shape, std=0.02):
        return (std * rng.standard_normal(shape)).astype(np.float32)

    def filled(value, *shape):
        return np.full(shape, value, np.float32)

    block = {"norm": filled(1, HIDDEN)}
    if kind == "A":
        kv = KV_HEADS * HEAD_DIM
        block |= {"qkv": normal(HIDDEN, Q_HEADS * HEAD_DIM + 2 * kv), "out": normal(Q_HEADS * HEAD_DIM, HIDDEN)}
    elif kind == "E" and model == "dense":
        block |= {"gate_up": normal(HIDDEN, 2 * MLP_INNER), "down": normal(MLP_INNER, HIDDEN)}
    elif kind == "E":
        block |= {"router": normal(HIDDEN, EXPERTS), "gate_up": normal(EXPERTS, HIDDEN, 2 * EXPERT_INNER),
                  "down": normal(EXPERTS, EXPERT_INNER, HIDDEN)}
    elif kind == "M":
        channels = SSM_INNER + 2 * SSM_STATE
        dt = np.exp(rng.uniform(math.log(1e-3), math.log(0.1), SSM_HEADS))
        block |= {"in": normal(HIDDEN, SSM_INNER + channels + SSM_HEADS), "conv": normal(CONV_WIDTH, channels, std=0.3),
                  "conv_bias": filled(0, channels), "a_log": np.log(rng.uniform(1, 16, SSM_HEADS)).astype(np.float32),
                  "dt_bias": np.log(np.expm1(dt)).astype(np.float32), "d": filled(1, SSM_HEADS),
                  "gate_norm": filled(1, SSM_INNER), "out": normal(SSM_INNER, HIDDEN)}
    elif kind == "R":
        width = LRU_WIDTH // LRU_BLOCKS
        rho = np.sqrt(rng.uniform(0.9 ** 2, 0.999 ** 2, LRU_WIDTH))
        block |= {"in": normal(HIDDEN, 2 * LRU_WIDTH), "in_bias": filled(0, 2 * LRU_WIDTH),
                  "conv": normal(CONV_WIDTH, LRU_WIDTH, std=0.3), "conv_bias": filled(0, LRU_WIDTH),
                  "gates": normal(LRU_BLOCKS, width, 2 * width, std=1 / math.sqrt(width)),
                  "gates_bias": filled(0, LRU_BLOCKS, 2 * width), "decay": np.log(1 / rho - 1).astype(np.float32),
                  "out": normal(LRU_WIDTH, HIDDEN), "out_bias": filled(0, HIDDEN)}
    return block


def init_params(model):
    rng = np.random.default_rng(0)
    table = lambda *shape: (0.02 * rng.standard_normal(shape)).astype(np.float32)  # noqa: E731
    params = {"embed": table(VOCAB, HIDDEN), "head": table(HIDDEN, VOCAB), "norm": np.ones(HIDDEN, np.float32),
              "blocks": [init_block(kind, model, rng) for kind in PATTERNS[model]]}
    return jax.tree.map(jnp.asarray, params)


# -------------------------------------------------------------------------------------------------- blocks

def rms_norm(x, weight):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + NORM_EPS) * weight


def rope(x):  # [batch, seq, heads, dim]
    half = HEAD_DIM // 2
    angle = np.arange(SEQ)[:, None] * 10000.0 ** (-np.arange(half) / half)
    cos, sin = (f(angle).astype(np.float32)[:, None, :] for f in (np.cos, np.sin))
    x1, x2 = x[..., :half], x[..., half:]
    return jnp.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1)


def attention(p, x):
    q, k, v = jnp.split(x @ p["qkv"], [Q_HEADS * HEAD_DIM, (Q_HEADS + KV_HEADS) * HEAD_DIM], -1)
    q = rope(q.reshape(BATCH, SEQ, Q_HEADS, HEAD_DIM)) * HEAD_DIM ** -0.5
    k = rope(k.reshape(BATCH, SEQ, KV_HEADS, HEAD_DIM)).transpose(0, 2, 1, 3)
    v = v.reshape(BATCH, SEQ, KV_HEADS, HEAD_DIM).transpose(0, 2, 1, 3)
    q = q.reshape(BATCH, SEQ, KV_HEADS, -1, HEAD_DIM).transpose(0, 2, 3, 1, 4)  # [batch, kv head, group, seq, dim]
    return attend(q, k, v).transpose(0, 3, 1, 2, 4).reshape(BATCH, SEQ, -1) @ p["out"]


def attend(q, k, v):
    """Each block of queries meets only the keys up to its end; a group's queries are rows of one product."""
    out = []
    for start in range(0, SEQ, Q_BLOCK):
        end = start + Q_BLOCK
        rows = q[:, :, :, start:end]
        flat = rows.reshape(BATCH, KV_HEADS, -1, HEAD_DIM)
        scores = jnp.einsum("bnqd,bnkd->bnqk", flat, k[:, :, :end]).reshape(*rows.shape[:4], end)
        mask = np.arange(start, end)[:, None] >= np.arange(end)
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e30), -1).reshape(*flat.shape[:3], end)
        out.append(jnp.einsum("bnqk,bnkd->bnqd", weights, v[:, :, :end]).reshape(rows.shape))
    return jnp.concatenate(out, 3)


def swiglu(gate_up):
    gate, up = jnp.split(gate_up, 2, -1)
    return jax.nn.silu(gate) * up


def mlp(p, x):
    return swiglu(x @ p["gate_up"]) @ p["down"]


def take_rows(x, index):
    """Rows of x; an index one past the end gives zeros (an empty slot or a dropped choice)."""
    return jnp.take(x, index, axis=0, mode="fill", fill_value=0)


def choose_slots(expert):
    """expert [tokens, k] -> slot of each choice and choice of each slot, first come first served by (token, choice)."""
    flat = expert.reshape(-1)
    one_hot = (flat[:, None] == np.arange(EXPERTS)).astype(jnp.int32)
    position = (jnp.cumsum(one_hot, 0) * one_hot).sum(1) - 1
    slots = EXPERTS * CAPACITY
    slot = jnp.where(position < CAPACITY, flat * CAPACITY + position, slots)
    choice = jnp.full(slots, TOKENS * TOP_K, jnp.int32).at[slot].set(np.arange(TOKENS * TOP_K), mode="drop")
    return slot.reshape(TOKENS, TOP_K), choice, one_hot.sum(0)


def experts(p, x):
    x = x.reshape(TOKENS, HIDDEN)
    probs = jax.nn.softmax(x @ p["router"], -1)
    weight, expert = lax.top_k(probs, TOP_K)
    weight /= weight.sum(-1, keepdims=True)
    slot_of_choice, choice_of_slot, count = choose_slots(expert)
    rows = take_rows(x, choice_of_slot // TOP_K).reshape(EXPERTS, CAPACITY, HIDDEN)
    rows = jnp.einsum("ecf,efh->ech", swiglu(jnp.einsum("ech,ehf->ecf", rows, p["gate_up"])), p["down"])
    out = (take_rows(rows.reshape(-1, HIDDEN), slot_of_choice) * weight[..., None]).sum(1)
    aux = AUX_COEFF * EXPERTS / (TOP_K * TOKENS ** 2) * (probs.sum(0) * count).sum()
    return out.reshape(BATCH, SEQ, HIDDEN), aux


def causal_conv(x, weight, bias):  # x [batch, seq, channels], weight [width, channels]
    padded = jnp.pad(x, ((0, 0), (CONV_WIDTH - 1, 0), (0, 0)))
    return sum(padded[:, i:i + SEQ] * weight[i] for i in range(CONV_WIDTH)) + bias


def ssd(x, b, c, log_decay):
    """Chunked state-space duality; heads are folded into columns wherever all of them share a product.

    x [batch, chunks, chunk, heads, dim], already times dt; b, c [batch, chunks, chunk, state];
    log_decay [batch, chunks, chunk, heads].
    """
    shape, columns = x.shape, (BATCH, SEQ // CHUNK, CHUNK, SSM_INNER)
    lower = np.tril(np.ones((CHUNK, CHUNK), np.float32))
    total = jnp.einsum("ls,bzsh->bzhl", lower, log_decay)  # cumulative sum within the chunk
    decay = jnp.exp(jnp.where(lower > 0, total[..., :, None] - total[..., None, :], -1e30))
    mixing = jnp.einsum("bzln,bzsn->bzls", c, b)[:, :, None] * decay  # [batch, chunks, heads, chunk, chunk]
    x = x.transpose(0, 1, 3, 2, 4)
    within = jnp.einsum("bzhls,bzhsp->bzhlp", mixing, x).transpose(0, 1, 3, 2, 4)
    to_end = x * jnp.exp(total[..., -1:] - total)[..., None]
    added = jnp.einsum("bzln,bzlf->bznf", b, to_end.transpose(0, 1, 3, 2, 4).reshape(columns))
    keep = jnp.repeat(jnp.exp(total[..., -1]), SSM_HEAD_DIM, -1)[:, :, None]
    state, entering = jnp.zeros_like(added[:, 0]), []
    for chunk in range(SEQ // CHUNK):
        entering.append(state)
        state = state * keep[:, chunk] + added[:, chunk]
    carried = jnp.einsum("bzln,bznf->bzlf", c, jnp.stack(entering, 1)).reshape(shape)
    return within + carried * jnp.exp(total).transpose(0, 1, 3, 2)[..., None]


def mamba2(p, x):
    cuts = [SSM_INNER, 2 * SSM_INNER + 2 * SSM_STATE]
    z, xbc, dt = jnp.split(x @ p["in"], cuts, -1)
    xbc = jax.nn.silu(causal_conv(xbc, p["conv"], p["conv_bias"]))
    xs, b, c = jnp.split(xbc, [SSM_INNER, SSM_INNER + SSM_STATE], -1)
    dt = jax.nn.softplus(dt + p["dt_bias"])
    chunked = lambda t, *tail: t.reshape(BATCH, SEQ // CHUNK, CHUNK, *tail)  # noqa: E731
    xs, dt = chunked(xs, SSM_HEADS, SSM_HEAD_DIM), chunked(dt, SSM_HEADS)
    y = ssd(xs * dt[..., None], chunked(b, SSM_STATE), chunked(c, SSM_STATE), -jnp.exp(p["a_log"]) * dt)
    y = (y + p["d"][:, None] * xs).reshape(BATCH, SEQ, SSM_INNER)
    return rms_norm(y * jax.nn.silu(z), p["gate_norm"]) @ p["out"]


def scan_recurrence(a, b, reverse=False):  # [seq, batch, width]
    def step(h, ab):
        h = ab[0] * h + ab[1]
        return h, h

    return lax.scan(step, jnp.zeros_like(a[0]), (a, b), reverse=reverse, unroll=4)[1]


@jax.custom_vjp
def linear_recurrence(a, b):
    """h_t = a_t h_{t-1} + b_t along axis 0, with one reverse scan as its gradient."""
    return scan_recurrence(a, b)


def linear_recurrence_fwd(a, b):
    h = scan_recurrence(a, b)
    return h, (a, h)


def linear_recurrence_bwd(saved, grad):
    a, h = saved
    db = scan_recurrence(jnp.concatenate([a[1:], jnp.zeros_like(a[:1])]), grad, reverse=True)
    return db * jnp.concatenate([jnp.zeros_like(h[:1]), h[:-1]]), db


linear_recurrence.defvjp(linear_recurrence_fwd, linear_recurrence_bwd)


def griffin(p, x):
    y, x = jnp.split(x @ p["in"] + p["in_bias"], 2, -1)
    x = causal_conv(x, p["conv"], p["conv_bias"])
    blocks = x.reshape(BATCH, SEQ, LRU_BLOCKS, -1)
    gates = jax.nn.sigmoid(jnp.einsum("bsnw,nwv->bsnv", blocks, p["gates"]) + p["gates_bias"])
    i, r = (g.reshape(BATCH, SEQ, LRU_WIDTH) for g in jnp.split(gates, 2, -1))
    a = jnp.exp(-LRU_C * r * jax.nn.softplus(p["decay"]))
    first = (np.arange(SEQ) == 0)[:, None]
    scale = jnp.where(first, 1.0, jnp.sqrt(1 - a * a))
    time_first = lambda t: t.transpose(1, 0, 2)  # noqa: E731
    h = time_first(linear_recurrence(time_first(a), time_first(scale * i * x)))
    return (h * jax.nn.gelu(y, approximate=True)) @ p["out"] + p["out_bias"]


# ------------------------------------------------------------------------------------------- training step

def loss_fn(params, tokens, model):  # tokens [batch, seq + 1]
    x, aux_loss = params["embed"][tokens[:, :-1]], 0.0
    for kind, p in zip(PATTERNS[model], params["blocks"]):
        y = rms_norm(x, p["norm"])
        if kind == "E" and model == "hybrid":
            y, aux = experts(p, y)
            aux_loss += aux
        else:
            y = {"A": attention, "E": mlp, "M": mamba2, "R": griffin}[kind](p, y)
        x = x + y
    logits = rms_norm(x, params["norm"]) @ params["head"]
    is_target = tokens[:, 1:, None] == np.arange(VOCAB)  # a mask: the gradient of an indexed pick is a slow scatter
    target = jnp.where(is_target, logits, 0).sum(-1)
    return jnp.mean(jax.nn.logsumexp(logits, -1) - target) + aux_loss


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


def train_step(state, tokens, model):
    loss, grads = jax.value_and_grad(loss_fn)(state[0], tokens, model)
    return adamw(state, grads), loss


# --------------------------------------------------------------------------------------------- measurement

def forward_flops(model):
    """Matrix products only, a multiply-add counts two.

    Causal products (attention; inside a Mamba-2 chunk) count half, experts count the routed tokens, not the padding.
    """
    attn_width, kv_width = Q_HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    per_token = {
        "A": 2 * HIDDEN * (2 * attn_width + 2 * kv_width) + 2 * SEQ * attn_width,
        "M": 2 * HIDDEN * (3 * SSM_INNER + 2 * SSM_STATE + SSM_HEADS) + CHUNK * (SSM_STATE + SSM_INNER)
        + 4 * SSM_STATE * SSM_INNER,
        "R": 6 * HIDDEN * LRU_WIDTH + 4 * LRU_WIDTH * LRU_WIDTH // LRU_BLOCKS,
        "E": 6 * HIDDEN * MLP_INNER if model == "dense" else 2 * HIDDEN * EXPERTS + 6 * HIDDEN * EXPERT_INNER * TOP_K,
    }
    return TOKENS * (sum(per_token[kind] for kind in PATTERNS[model]) + 2 * HIDDEN * VOCAB)


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


def measure(args):
    params = init_params(args.model)
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    zeros = lambda: jax.tree.map(jnp.zeros_like, params)  # noqa: E731
    state = (params, zeros(), zeros(), jnp.zeros((), jnp.int32))
    rng = np.random.default_rng(1)
    batches = [jnp.asarray(rng.integers(0, VOCAB, (BATCH, SEQ + 1)), jnp.int32) for _ in range(4)]

    start = time.perf_counter()
    step = jax.jit(train_step, static_argnums=2, donate_argnums=0).lower(state, batches[0], args.model).compile()
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
    flops = 3 * forward_flops(args.model)
    jax_rate, numpy_rate = matmul_gflops()
    return {
        "model": args.model, "pattern": PATTERNS[args.model], "params": count,
        "tokens_per_s": round(TOKENS / statistics.median(steady), 1),
        "tokens_per_s_min": round(TOKENS / max(steady), 1), "tokens_per_s_max": round(TOKENS / min(steady), 1),
        "step_ms": round(1e3 * statistics.median(steady), 1),
        "cpu_ms_per_step": round(1e3 * statistics.median(cpu_times[args.warmup:]), 1),
        "steps": args.steps, "warmup": args.warmup,
        "compile_s": round(compile_s, 2), "flops_per_step": flops,
        "gflops": round(flops / statistics.median(steady) / 1e9, 1),
        "matmul_gflops_jax": round(jax_rate, 1), "matmul_gflops_numpy": round(numpy_rate, 1),
        "first_loss": round(losses[0], 4), "last_loss": round(losses[-1], 4),
        "tokens_per_step": TOKENS, "jax": jax.__version__, "numpy": np.__version__,
        "platform": jax.default_backend(), "cores": len(os.sched_getaffinity(0)), "arch": platform.machine(),
    }


if __name__ == "__main__":
    print(json.dumps(measure(ARGS), indent=None if ARGS.json else 2))
