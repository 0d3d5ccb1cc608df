# SPDX-License-Identifier: Apache-2.0
"""The models as a good JAX user writes them: library functions and the published forms, no tuning for one machine."""
import jax
import jax.numpy as jnp
from jax import lax

from jax_common import LRU_C, causal_conv, gate_norm, rope, router_losses


def prepare(params):
    return params


def attention(model, p, x):
    heads = lambda t: t.reshape(*t.shape[:2], -1, model.head_dim)  # noqa: E731
    q, k, v = rope(model, heads(x @ p["q"])), rope(model, heads(x @ p["k"])), heads(x @ p["v"])
    mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=model.attention)
    return mixed.reshape(*x.shape[:2], -1) @ p["out"]


def swiglu(x, gate, up, down):
    return (jax.nn.silu(x @ gate) * (x @ up)) @ down


def mlp(model, p, x):
    return swiglu(x, p["gate"], p["up"], p["down"])


def route(model, router, x):
    """One sequence x [seq, hidden]: choices take the slots of their expert first come first served."""
    logits = x.astype(jnp.float32) @ router
    probs = jax.nn.softmax(logits, -1)
    weight, expert = lax.top_k(probs, model.top_k)
    weight /= weight.sum(-1, keepdims=True)
    one_hot = jax.nn.one_hot(expert.reshape(-1), model.experts, dtype=jnp.int32)
    position = ((jnp.cumsum(one_hot, 0) - 1) * one_hot).sum(-1).reshape(expert.shape)  # past the capacity: dropped
    rows = jnp.zeros((model.experts, model.capacity, model.hidden), x.dtype)
    rows = rows.at[expert, position].set(x[:, None], mode="drop", unique_indices=True)
    return rows, expert, position, weight.astype(x.dtype), (logits, probs, one_hot.sum(0))


def combine(rows, expert, position, weight):  # [experts, capacity, hidden] -> [seq, hidden]
    chosen = rows.at[expert, position].get(mode="fill", fill_value=0, unique_indices=True)
    return jnp.einsum("tkh,tk->th", chosen, weight)


def experts(model, p, x):
    rows, expert, position, weight, routed = jax.vmap(lambda t: route(model, p["router"], t))(x)
    inner = jax.nn.silu(jnp.einsum("bech,ehf->becf", rows, p["gate"])) * jnp.einsum("bech,ehf->becf", rows, p["up"])
    rows = jnp.einsum("becf,efh->bech", inner, p["down"])
    y = jax.vmap(combine)(rows, expert, position, weight)
    if model.shared_inner:
        y += swiglu(x, p["shared_gate"], p["shared_up"], p["shared_down"])
    return y, router_losses(model, *routed)


def segment_sum(x):
    """[..., t] -> [..., t, t]: sum of x over (s, t] below the diagonal, -inf above it."""
    total = jnp.cumsum(x, -1)
    mask = jnp.tril(jnp.ones((x.shape[-1], x.shape[-1]), bool))
    return jnp.where(mask, total[..., :, None] - total[..., None, :], -jnp.inf)


def ssd(x, a, b, c):
    """The minimal chunked form of the Mamba-2 paper; decays and the states between chunks are f32.

    x [batch, chunks, chunk, groups, heads of a group, dim], already times dt; a [batch, chunks, chunk, groups, heads];
    b, c [batch, chunks, chunk, groups, state].
    """
    narrow = lambda t: t.astype(x.dtype)  # noqa: E731
    a = a.transpose(0, 3, 4, 1, 2)  # [batch, groups, heads, chunks, chunk]
    total = jnp.cumsum(a, -1)
    within = jnp.einsum("bclgn,bcsgn,bghcls,bcsghp->bclghp", c, b, narrow(jnp.exp(segment_sum(a))), x)
    states = jnp.einsum("bclgn,bghcl,bclghp->bcghpn", b, narrow(jnp.exp(total[..., -1:] - total)), x)
    states = jnp.concatenate([jnp.zeros_like(states[:, :1]), states], 1).astype(a.dtype)
    decay = jnp.exp(segment_sum(jnp.pad(total[..., -1], ((0, 0), (0, 0), (0, 0), (1, 0)))))
    entering = narrow(jnp.einsum("bghzc,bcghpn->bzghpn", decay, states)[:, :-1])
    return within + jnp.einsum("bclgn,bcghpn,bghcl->bclghp", c, entering, narrow(jnp.exp(total)))


def mamba2(model, p, x):
    inner, states = model.ssm_inner, model.ssm_groups * model.ssm_state
    z, xbc, dt = jnp.split(x @ p["in"], [inner, inner + model.ssm_channels], -1)
    xbc = jax.nn.silu(causal_conv(xbc, p["conv"], p["conv_bias"]))
    xs, b, c = jnp.split(xbc, [inner, inner + states], -1)
    dt = jax.nn.softplus(dt + p["dt_bias"])
    chunked = lambda t, *tail: t.reshape(x.shape[0], -1, model.chunk, model.ssm_groups, *tail)  # noqa: E731
    heads = model.ssm_heads // model.ssm_groups
    xs, dt, rates = chunked(xs, heads, model.ssm_head_dim), chunked(dt, heads), -jnp.exp(p["a_log"])
    y = ssd((xs * dt[..., None]).astype(x.dtype), rates.reshape(-1, heads) * dt, chunked(b, model.ssm_state),
            chunked(c, model.ssm_state))
    y = (y + p["d"].reshape(-1, heads, 1) * xs).reshape(z.shape)
    return gate_norm(model, y * jax.nn.silu(z), p["gate_norm"]) @ p["out"]


def griffin(model, p, x):
    y = jax.nn.gelu(x @ p["y"] + p["y_bias"], approximate=True)
    x = causal_conv(x @ p["x"] + p["x_bias"], p["conv"], p["conv_bias"])
    blocks = x.reshape(*x.shape[:2], model.lru_blocks, -1)

    def gate(weight, bias):
        raw = jnp.einsum("bsnw,nwv->bsnv", blocks, weight) + bias
        return jax.nn.sigmoid(raw.astype(jnp.float32)).reshape(x.shape)

    i, r = gate(p["i_gate"], p["i_bias"]), gate(p["r_gate"], p["r_bias"])
    a = jnp.exp(-LRU_C * r * jax.nn.softplus(p["decay"]))
    scale = jnp.where((jnp.arange(model.sequence) == 0)[:, None], 1.0, jnp.sqrt(1 - a * a))
    combine = lambda left, right: (left[0] * right[0], right[0] * left[1] + right[1])  # noqa: E731
    h = lax.associative_scan(combine, (a, scale * i * x), axis=1)[1]
    return (h.astype(x.dtype) * y) @ p["out"] + p["out_bias"]


def cross_entropy(logits, target):
    log_probs = jax.nn.log_softmax(logits, -1)
    return -jnp.mean(jnp.take_along_axis(log_probs, target[..., None], -1))
