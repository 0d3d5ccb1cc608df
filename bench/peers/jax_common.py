# SPDX-License-Identifier: Apache-2.0
"""The two benchmark models: sizes, weights, FLOPs, and the layers that both styles write alike."""
import math

import jax.numpy as jnp
import numpy as np
from jax import lax

PATTERNS = {"dense": "AEAEAEAEAEAE", "hybrid": "AEMEAEMEAEMR"}
SEQ, HIDDEN, VOCAB = 512, 384, 8192
Q_HEADS, KV_HEADS, HEAD_DIM = 6, 2, 64
MLP_INNER = 1536
EXPERTS, TOP_K, EXPERT_INNER, CAPACITY_FACTOR, AUX_COEFF = 8, 2, 256, 1.25, 0.01
CAPACITY = math.ceil(SEQ * TOP_K / EXPERTS * CAPACITY_FACTOR)
SSM_INNER, SSM_HEADS, SSM_HEAD_DIM, SSM_STATE, CHUNK = 768, 12, 64, 64, 64
CONV_WIDTH = 4
LRU_WIDTH, LRU_BLOCKS, LRU_C = 384, 6, 8.0
NORM_EPS = 1e-5


def init_block(kind, model, rng):
    def normal(*shape, std=0.02):
        return (std * rng.standard_normal(shape)).astype(np.float32)

    def filled(value, *shape):
        return np.full(shape, value, np.float32)

    block = {"norm": filled(1, HIDDEN)}
    if kind == "A":
        q, kv = Q_HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
        block |= {"q": normal(HIDDEN, q), "k": normal(HIDDEN, kv), "v": normal(HIDDEN, kv), "out": normal(q, HIDDEN)}
    elif kind == "E" and model == "dense":
        block |= {"gate": normal(HIDDEN, MLP_INNER), "up": normal(HIDDEN, MLP_INNER), "down": normal(MLP_INNER, HIDDEN)}
    elif kind == "E":
        block |= {"router": normal(HIDDEN, EXPERTS), "gate": normal(EXPERTS, HIDDEN, EXPERT_INNER),
                  "up": normal(EXPERTS, HIDDEN, EXPERT_INNER), "down": normal(EXPERTS, EXPERT_INNER, HIDDEN)}
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
        gate = lambda: normal(LRU_BLOCKS, width, width, std=1 / math.sqrt(width))  # noqa: E731
        block |= {"y": normal(HIDDEN, LRU_WIDTH), "y_bias": filled(0, LRU_WIDTH),
                  "x": normal(HIDDEN, LRU_WIDTH), "x_bias": filled(0, LRU_WIDTH),
                  "conv": normal(CONV_WIDTH, LRU_WIDTH, std=0.3), "conv_bias": filled(0, LRU_WIDTH),
                  "i_gate": gate(), "i_bias": filled(0, LRU_BLOCKS, width),
                  "r_gate": gate(), "r_bias": filled(0, LRU_BLOCKS, width),
                  "decay": np.log(1 / rho - 1).astype(np.float32),
                  "out": normal(LRU_WIDTH, HIDDEN), "out_bias": filled(0, HIDDEN)}
    return block


def init_params(model):
    """NumPy arrays, one matrix per projection; both styles start from the same numbers."""
    rng = np.random.default_rng(0)
    table = lambda *shape: (0.02 * rng.standard_normal(shape)).astype(np.float32)  # noqa: E731
    return {"embed": table(VOCAB, HIDDEN), "head": table(HIDDEN, VOCAB), "norm": np.ones(HIDDEN, np.float32),
            "blocks": [init_block(kind, model, rng) for kind in PATTERNS[model]]}


def forward_flops(model, tokens):
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
    return tokens * (sum(per_token[kind] for kind in PATTERNS[model]) + 2 * HIDDEN * VOCAB)


def rms_norm(x, weight):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + NORM_EPS) * weight


def rope(x):  # [batch, seq, heads, dim]
    half = HEAD_DIM // 2
    angle = np.arange(SEQ)[:, None] * 10000.0 ** (-np.arange(half) / half)
    cos, sin = (f(angle).astype(np.float32)[:, None, :] for f in (np.cos, np.sin))
    x1, x2 = x[..., :half], x[..., half:]
    return jnp.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1)


def causal_conv(x, weight, bias):  # x [batch, seq, channels], weight [width, channels]
    padded = jnp.pad(x, ((0, 0), (CONV_WIDTH - 1, 0), (0, 0)))
    return sum(padded[:, i:i + SEQ] * weight[i] for i in range(CONV_WIDTH)) + bias


def balance_loss(probs, count):
    """probs [batch, seq, experts], count [batch, experts]: choices of each expert."""
    tokens = probs.shape[0] * SEQ
    return AUX_COEFF * EXPERTS / (TOP_K * tokens ** 2) * (probs.sum((0, 1)) * count.sum(0)).sum()
