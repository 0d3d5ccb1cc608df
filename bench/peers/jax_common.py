# SPDX-License-Identifier: Apache-2.0
"""Weights of the models and the layers that both styles write alike."""
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16}
NORM_EPS = 1e-5
LRU_C = 8.0
WIDE = {"router", "dt_bias", "a_log", "decay"}  # used in f32 whatever the precision
UNDECAYED = {"norm", "gate_norm", "dt_bias", "a_log", "d", "decay", "conv_bias", "i_bias", "r_bias", "gates_bias",
             "x_bias", "y_bias", "in_bias", "out_bias"}  # no weight decay: norms, biases and other vectors


class HostNumbers:
    """Drawn by NumPy one after another: what the small models start from, the same numbers in both styles."""
    xp = np

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def normal(self, *shape, std=0.02):
        return (std * self.rng.standard_normal(shape)).astype(np.float32)

    def uniform(self, low, high, count):
        return self.rng.uniform(low, high, count)


class DeviceNumbers:
    """Drawn where they are used, under jit: large models never pass through the host."""
    xp = jnp

    def __init__(self, key):
        self.key = key

    def next_key(self):
        self.key, key = jax.random.split(self.key)
        return key

    def normal(self, *shape, std=0.02):
        return std * jax.random.normal(self.next_key(), shape)

    def uniform(self, low, high, count):
        return jax.random.uniform(self.next_key(), (count,), minval=low, maxval=high)


def init_block(kind, model, draw):
    hidden, xp = model.hidden, draw.xp
    filled = lambda value, *shape: xp.full(shape, value, np.float32)  # noqa: E731
    narrow = lambda values: values.astype(np.float32)  # noqa: E731
    block = {"norm": filled(1, hidden)}
    if kind == "A":
        q, kv = model.q_heads * model.head_dim, model.kv_heads * model.head_dim
        block |= {"q": draw.normal(hidden, q), "k": draw.normal(hidden, kv), "v": draw.normal(hidden, kv),
                  "out": draw.normal(q, hidden)}
    elif kind == "E":
        if model.experts:
            block["router"] = draw.normal(hidden, model.experts)
        lead = (model.experts,) if model.experts else ()
        block |= {"gate": draw.normal(*lead, hidden, model.inner), "up": draw.normal(*lead, hidden, model.inner),
                  "down": draw.normal(*lead, model.inner, hidden)}
        if model.shared_inner:
            block |= {"shared_gate": draw.normal(hidden, model.shared_inner),
                      "shared_up": draw.normal(hidden, model.shared_inner),
                      "shared_down": draw.normal(model.shared_inner, hidden)}
    elif kind == "M":
        inner, channels, heads = model.ssm_inner, model.ssm_channels, model.ssm_heads
        dt = xp.exp(draw.uniform(math.log(1e-3), math.log(0.1), heads))
        block |= {"in": draw.normal(hidden, inner + channels + heads),
                  "conv": draw.normal(model.conv_width, channels, std=0.3), "conv_bias": filled(0, channels),
                  "a_log": narrow(xp.log(draw.uniform(1, 16, heads))), "dt_bias": narrow(xp.log(xp.expm1(dt))),
                  "d": filled(1, heads), "gate_norm": filled(1, inner), "out": draw.normal(inner, hidden)}
    elif kind == "R":
        whole, blocks = model.lru_width, model.lru_blocks
        width = whole // blocks
        rho = xp.sqrt(draw.uniform(0.9 ** 2, 0.999 ** 2, whole))
        gate = lambda: draw.normal(blocks, width, width, std=1 / math.sqrt(width))  # noqa: E731
        block |= {"y": draw.normal(hidden, whole), "y_bias": filled(0, whole),
                  "x": draw.normal(hidden, whole), "x_bias": filled(0, whole),
                  "conv": draw.normal(model.conv_width, whole, std=0.3), "conv_bias": filled(0, whole),
                  "i_gate": gate(), "i_bias": filled(0, blocks, width),
                  "r_gate": gate(), "r_bias": filled(0, blocks, width),
                  "decay": narrow(xp.log(1 / rho - 1)),
                  "out": draw.normal(whole, hidden), "out_bias": filled(0, hidden)}
    return block


def init_ends(model, draw):
    return {"embed": draw.normal(model.vocab, model.hidden), "head": draw.normal(model.hidden, model.vocab),
            "norm": draw.xp.ones(model.hidden, np.float32)}


def init_params(model):
    """One matrix per projection. Repeated blocks are stacked: "periods" has one entry per letter of the pattern."""
    if not model.periods:
        draw = HostNumbers(0)
        return init_ends(model, draw) | {"periods": [], "blocks": [init_block(kind, model, draw) for kind in model.tail]}

    def period(key):
        draw = DeviceNumbers(key)
        return [init_block(kind, model, draw) for kind in model.pattern]

    def whole(key):
        draw = DeviceNumbers(key)
        return init_ends(model, draw) | {"periods": jax.vmap(period)(jax.random.split(draw.next_key(), model.periods)),
                                         "blocks": [init_block(kind, model, draw) for kind in model.tail]}

    return jax.jit(whole)(jax.random.key(0))


def narrowed(block, model):
    """The weights of a block as it computes with them."""
    dtype = DTYPES[model.precision]
    return {name: weight if name in WIDE else weight.astype(dtype) for name, weight in block.items()}


def packed(block, parts_of, concatenate):
    """Joins the matrices that read the same input: one product instead of two or three."""
    block = dict(block)
    for name, parts in parts_of.items():
        if all(part in block for part in parts):
            block[name] = concatenate([block.pop(part) for part in parts], -1)
    return block


def rms_norm(x, weight):
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + NORM_EPS)).astype(x.dtype) * weight


def gate_norm(model, x, weight):
    """RMS norm of each Mamba-2 group by itself."""
    if model.ssm_groups == 1:  # XLA does not look through an axis of one here
        return rms_norm(x, weight)
    by_group = lambda t: t.reshape(*t.shape[:-1], model.ssm_groups, -1)  # noqa: E731
    return rms_norm(by_group(x), by_group(weight)).reshape(x.shape)


def rope(model, x):  # [batch, seq, heads, dim]
    half = model.head_dim // 2
    angle = np.arange(model.sequence)[:, None] * model.rope_theta ** (-np.arange(half) / half)
    cos, sin = (f(angle).astype(np.float32)[:, None, :] for f in (np.cos, np.sin))
    x1, x2 = x[..., :half], x[..., half:]
    return jnp.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1).astype(x.dtype)


def causal_conv(x, weight, bias):  # x [batch, seq, channels], weight [width, channels]
    width, seq = weight.shape[0], x.shape[1]
    padded = jnp.pad(x, ((0, 0), (width - 1, 0), (0, 0)))
    return sum(padded[:, i:i + seq] * weight[i] for i in range(width)) + bias


def router_losses(model, logits, probs, count):
    """logits, probs [batch, seq, experts], count [batch, experts]: choices of each expert."""
    tokens = probs.shape[0] * probs.shape[1]
    even = model.experts / (model.top_k * tokens ** 2) * (probs.sum((0, 1)) * count.sum(0)).sum()
    loss = model.balance_loss * even
    if model.z_loss:
        loss += model.z_loss * jnp.mean(jax.nn.logsumexp(logits, -1) ** 2)
    return loss
