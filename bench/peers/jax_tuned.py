# SPDX-License-Identifier: Apache-2.0
"""The models written for speed on one CPU. README.md lists what was tried and kept."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_common import LRU_C, causal_conv, gate_norm, packed, rope, router_losses

Q_BLOCK = 128
PACKED = {"qkv": ("q", "k", "v"), "gate_up": ("gate", "up"), "in": ("y", "x"), "in_bias": ("y_bias", "x_bias"),
          "gates": ("i_gate", "r_gate"), "gates_bias": ("i_bias", "r_bias")}


def prepare(params):
    return params | {"blocks": [packed(block, PACKED, np.concatenate) for block in params["blocks"]]}


def attention(model, p, x):
    seq, dim, kv_heads = model.sequence, model.head_dim, model.kv_heads
    q, k, v = jnp.split(x @ p["qkv"], [model.q_heads * dim, (model.q_heads + kv_heads) * dim], -1)
    q = rope(model, q.reshape(-1, seq, model.q_heads, dim)) * dim ** -0.5
    k = rope(model, k.reshape(-1, seq, kv_heads, dim)).transpose(0, 2, 1, 3)
    v = v.reshape(-1, seq, kv_heads, dim).transpose(0, 2, 1, 3)
    q = q.reshape(-1, seq, kv_heads, model.q_heads // kv_heads, dim).transpose(0, 2, 3, 1, 4)  # [batch, kv head, group, seq, dim]
    return attend(q, k, v).transpose(0, 3, 1, 2, 4).reshape(*x.shape[:2], -1) @ p["out"]


def attend(q, k, v):
    """Each block of queries meets only the keys up to its end; a group's queries are rows of one product."""
    out = []
    for start in range(0, q.shape[3], Q_BLOCK):
        end = start + Q_BLOCK
        rows = q[:, :, :, start:end]
        flat = rows.reshape(*rows.shape[:2], -1, rows.shape[-1])
        scores = jnp.einsum("bnqd,bnkd->bnqk", flat, k[:, :, :end]).reshape(*rows.shape[:4], end)
        mask = np.arange(start, end)[:, None] >= np.arange(end)
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e30), -1).reshape(*flat.shape[:3], end)
        out.append(jnp.einsum("bnqk,bnkd->bnqd", weights, v[:, :, :end]).reshape(rows.shape))
    return jnp.concatenate(out, 3)


def swiglu(gate_up):
    gate, up = jnp.split(gate_up, 2, -1)
    return jax.nn.silu(gate) * up


def mlp(model, p, x):
    return swiglu(x @ p["gate_up"]) @ p["down"]


def take_rows(x, index):
    """Rows of x; an index one past the end gives zeros (an empty slot or a dropped choice)."""
    return jnp.take(x, index, axis=0, mode="fill", fill_value=0)


def choose_slots(model, expert):
    """One sequence, expert [seq, k]: slot of each choice, choice of each slot; first come first served by (token, choice)."""
    flat = expert.reshape(-1)
    one_hot = (flat[:, None] == np.arange(model.experts)).astype(jnp.int32)
    position = (jnp.cumsum(one_hot, 0) * one_hot).sum(1) - 1
    slots = model.experts * model.capacity
    slot = jnp.where(position < model.capacity, flat * model.capacity + position, slots)
    choice = jnp.full(slots, flat.size, jnp.int32).at[slot].set(np.arange(flat.size), mode="drop")
    return slot.reshape(expert.shape), choice, one_hot.sum(0)


def experts(model, p, x):  # x [batch, seq, hidden]
    logits = x @ p["router"]
    probs = jax.nn.softmax(logits, -1)
    weight, expert = lax.top_k(probs, model.top_k)
    weight /= weight.sum(-1, keepdims=True)
    slot_of_choice, choice_of_slot, count = jax.vmap(lambda t: choose_slots(model, t))(expert)
    rows = jax.vmap(take_rows)(x, choice_of_slot // model.top_k)
    rows = rows.reshape(-1, model.experts, model.capacity, model.hidden)
    rows = jnp.einsum("becf,efh->bech", swiglu(jnp.einsum("bech,ehf->becf", rows, p["gate_up"])), p["down"])
    rows = rows.reshape(-1, model.experts * model.capacity, model.hidden)
    out = (jax.vmap(take_rows)(rows, slot_of_choice) * weight[..., None]).sum(2)
    return out, router_losses(model, logits, probs, count)


def ssd(x, b, c, log_decay):
    """Chunked state-space duality; heads are folded into columns wherever all of them share a product.

    x [batch, chunks, chunk, heads, dim], already times dt; b, c [batch, chunks, chunk, state];
    log_decay [batch, chunks, chunk, heads].
    """
    shape, columns = x.shape, (*x.shape[:3], -1)
    lower = np.tril(np.ones((x.shape[2], x.shape[2]), np.float32))
    total = jnp.einsum("ls,bzsh->bzhl", lower, log_decay)  # cumulative sum within the chunk
    decay = jnp.exp(jnp.where(lower > 0, total[..., :, None] - total[..., None, :], -1e30))
    mixing = jnp.einsum("bzln,bzsn->bzls", c, b)[:, :, None] * decay  # [batch, chunks, heads, chunk, chunk]
    x = x.transpose(0, 1, 3, 2, 4)
    within = jnp.einsum("bzhls,bzhsp->bzhlp", mixing, x).transpose(0, 1, 3, 2, 4)
    to_end = x * jnp.exp(total[..., -1:] - total)[..., None]
    added = jnp.einsum("bzln,bzlf->bznf", b, to_end.transpose(0, 1, 3, 2, 4).reshape(columns))
    keep = jnp.repeat(jnp.exp(total[..., -1]), shape[-1], -1)[:, :, None]
    state, entering = jnp.zeros_like(added[:, 0]), []
    for chunk in range(shape[1]):
        entering.append(state)
        state = state * keep[:, chunk] + added[:, chunk]
    carried = jnp.einsum("bzln,bznf->bzlf", c, jnp.stack(entering, 1)).reshape(shape)
    return within + carried * jnp.exp(total).transpose(0, 1, 3, 2)[..., None]


def mamba2(model, p, x):  # of one group
    inner, states = model.ssm_inner, model.ssm_state
    z, xbc, dt = jnp.split(x @ p["in"], [inner, inner + model.ssm_channels], -1)
    xbc = jax.nn.silu(causal_conv(xbc, p["conv"], p["conv_bias"]))
    xs, b, c = jnp.split(xbc, [inner, inner + states], -1)
    dt = jax.nn.softplus(dt + p["dt_bias"])
    chunked = lambda t, *tail: t.reshape(x.shape[0], -1, model.chunk, *tail)  # noqa: E731
    xs, dt = chunked(xs, model.ssm_heads, model.ssm_head_dim), chunked(dt, model.ssm_heads)
    y = ssd(xs * dt[..., None], chunked(b, states), chunked(c, states), -jnp.exp(p["a_log"]) * dt)
    y = (y + p["d"][:, None] * xs).reshape(z.shape)
    return gate_norm(model, y * jax.nn.silu(z), p["gate_norm"]) @ p["out"]


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


def griffin(model, p, x):
    y, x = jnp.split(x @ p["in"] + p["in_bias"], 2, -1)
    x = causal_conv(x, p["conv"], p["conv_bias"])
    blocks = x.reshape(*x.shape[:2], model.lru_blocks, -1)
    gates = jax.nn.sigmoid(jnp.einsum("bsnw,nwv->bsnv", blocks, p["gates"]) + p["gates_bias"])
    i, r = (g.reshape(x.shape) for g in jnp.split(gates, 2, -1))
    a = jnp.exp(-LRU_C * r * jax.nn.softplus(p["decay"]))
    first = (np.arange(model.sequence) == 0)[:, None]
    scale = jnp.where(first, 1.0, jnp.sqrt(1 - a * a))
    time_first = lambda t: t.transpose(1, 0, 2)  # noqa: E731
    h = time_first(linear_recurrence(time_first(a), time_first(scale * i * x)))
    return (h * jax.nn.gelu(y, approximate=True)) @ p["out"] + p["out_bias"]


def cross_entropy(logits, target):
    is_target = target[..., None] == np.arange(logits.shape[-1])  # a mask: the gradient of an indexed pick is a slow scatter
    return jnp.mean(jax.nn.logsumexp(logits, -1) - jnp.where(is_target, logits, 0).sum(-1))
