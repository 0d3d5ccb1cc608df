# SPDX-License-Identifier: Apache-2.0
"""The models written for speed on one CPU. README.md lists what was tried and kept."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_common import *  # noqa: F403

Q_BLOCK = 128
PACKED = {"qkv": ("q", "k", "v"), "gate_up": ("gate", "up"), "in": ("y", "x"), "in_bias": ("y_bias", "x_bias"),
          "gates": ("i_gate", "r_gate"), "gates_bias": ("i_bias", "r_bias")}


def pack(block):
    """Joins the matrices that read the same input: one product instead of two or three."""
    block = dict(block)
    for name, parts in PACKED.items():
        if all(part in block for part in parts):
            block[name] = np.concatenate([block.pop(part) for part in parts], -1)
    return block


def prepare(params):
    return params | {"blocks": [pack(block) for block in params["blocks"]]}


def attention(p, x):
    q, k, v = jnp.split(x @ p["qkv"], [Q_HEADS * HEAD_DIM, (Q_HEADS + KV_HEADS) * HEAD_DIM], -1)
    q = rope(q.reshape(-1, SEQ, Q_HEADS, HEAD_DIM)) * HEAD_DIM ** -0.5
    k = rope(k.reshape(-1, SEQ, KV_HEADS, HEAD_DIM)).transpose(0, 2, 1, 3)
    v = v.reshape(-1, SEQ, KV_HEADS, HEAD_DIM).transpose(0, 2, 1, 3)
    q = q.reshape(-1, SEQ, KV_HEADS, Q_HEADS // KV_HEADS, HEAD_DIM).transpose(0, 2, 3, 1, 4)  # [batch, kv head, group, seq, dim]
    return attend(q, k, v).transpose(0, 3, 1, 2, 4).reshape(*x.shape[:2], -1) @ p["out"]


def attend(q, k, v):
    """Each block of queries meets only the keys up to its end; a group's queries are rows of one product."""
    out = []
    for start in range(0, SEQ, Q_BLOCK):
        end = start + Q_BLOCK
        rows = q[:, :, :, start:end]
        flat = rows.reshape(rows.shape[0], KV_HEADS, -1, HEAD_DIM)
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
    """One sequence, expert [seq, k]: slot of each choice, choice of each slot; first come first served by (token, choice)."""
    flat = expert.reshape(-1)
    one_hot = (flat[:, None] == np.arange(EXPERTS)).astype(jnp.int32)
    position = (jnp.cumsum(one_hot, 0) * one_hot).sum(1) - 1
    slots = EXPERTS * CAPACITY
    slot = jnp.where(position < CAPACITY, flat * CAPACITY + position, slots)
    choice = jnp.full(slots, SEQ * TOP_K, jnp.int32).at[slot].set(np.arange(SEQ * TOP_K), mode="drop")
    return slot.reshape(SEQ, TOP_K), choice, one_hot.sum(0)


def experts(p, x):  # x [batch, seq, hidden]
    probs = jax.nn.softmax(x @ p["router"], -1)
    weight, expert = lax.top_k(probs, TOP_K)
    weight /= weight.sum(-1, keepdims=True)
    slot_of_choice, choice_of_slot, count = jax.vmap(choose_slots)(expert)
    rows = jax.vmap(take_rows)(x, choice_of_slot // TOP_K).reshape(-1, EXPERTS, CAPACITY, HIDDEN)
    rows = jnp.einsum("becf,efh->bech", swiglu(jnp.einsum("bech,ehf->becf", rows, p["gate_up"])), p["down"])
    rows = rows.reshape(-1, EXPERTS * CAPACITY, HIDDEN)
    out = (jax.vmap(take_rows)(rows, slot_of_choice) * weight[..., None]).sum(2)
    return out, balance_loss(probs, count)


def ssd(x, b, c, log_decay):
    """Chunked state-space duality; heads are folded into columns wherever all of them share a product.

    x [batch, chunks, chunk, heads, dim], already times dt; b, c [batch, chunks, chunk, state];
    log_decay [batch, chunks, chunk, heads].
    """
    shape, columns = x.shape, (-1, SEQ // CHUNK, CHUNK, SSM_INNER)
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
    chunked = lambda t, *tail: t.reshape(-1, SEQ // CHUNK, CHUNK, *tail)  # noqa: E731
    xs, dt = chunked(xs, SSM_HEADS, SSM_HEAD_DIM), chunked(dt, SSM_HEADS)
    y = ssd(xs * dt[..., None], chunked(b, SSM_STATE), chunked(c, SSM_STATE), -jnp.exp(p["a_log"]) * dt)
    y = (y + p["d"][:, None] * xs).reshape(-1, SEQ, SSM_INNER)
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
    blocks = x.reshape(*x.shape[:2], LRU_BLOCKS, -1)
    gates = jax.nn.sigmoid(jnp.einsum("bsnw,nwv->bsnv", blocks, p["gates"]) + p["gates_bias"])
    i, r = (g.reshape(-1, SEQ, LRU_WIDTH) for g in jnp.split(gates, 2, -1))
    a = jnp.exp(-LRU_C * r * jax.nn.softplus(p["decay"]))
    first = (np.arange(SEQ) == 0)[:, None]
    scale = jnp.where(first, 1.0, jnp.sqrt(1 - a * a))
    time_first = lambda t: t.transpose(1, 0, 2)  # noqa: E731
    h = time_first(linear_recurrence(time_first(a), time_first(scale * i * x)))
    return (h * jax.nn.gelu(y, approximate=True)) @ p["out"] + p["out_bias"]


def cross_entropy(logits, target):
    is_target = target[..., None] == np.arange(VOCAB)  # a mask: the gradient of an indexed pick is a slow scatter
    return jnp.mean(jax.nn.logsumexp(logits, -1) - jnp.where(is_target, logits, 0).sum(-1))
