# SPDX-License-Identifier: Apache-2.0
"""The models as a good JAX user writes them: library functions and the published forms, no tuning for one machine."""
import jax
import jax.numpy as jnp
from jax import lax

from jax_common import *  # noqa: F403


def prepare(params):
    return params


def attention(p, x):
    heads = lambda t: t.reshape(*t.shape[:2], -1, HEAD_DIM)  # noqa: E731
    q, k, v = rope(heads(x @ p["q"])), rope(heads(x @ p["k"])), heads(x @ p["v"])
    return jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(*x.shape[:2], -1) @ p["out"]


def mlp(p, x):
    return (jax.nn.silu(x @ p["gate"]) * (x @ p["up"])) @ p["down"]


def route(router, x):
    """One sequence x [seq, hidden]: choices take the slots of their expert first come first served."""
    probs = jax.nn.softmax(x @ router, -1)
    weight, expert = lax.top_k(probs, TOP_K)
    weight /= weight.sum(-1, keepdims=True)
    one_hot = jax.nn.one_hot(expert.reshape(-1), EXPERTS, dtype=jnp.int32)
    position = ((jnp.cumsum(one_hot, 0) - 1) * one_hot).sum(-1).reshape(SEQ, TOP_K)  # past the capacity: dropped
    rows = jnp.zeros((EXPERTS, CAPACITY, HIDDEN)).at[expert, position].set(x[:, None], mode="drop")
    return rows, expert, position, weight, probs, one_hot.sum(0)


def combine(rows, expert, position, weight):  # [experts, capacity, hidden] -> [seq, hidden]
    return jnp.einsum("tkh,tk->th", rows.at[expert, position].get(mode="fill", fill_value=0), weight)


def experts(p, x):
    rows, expert, position, weight, probs, count = jax.vmap(route, (None, 0))(p["router"], x)
    inner = jax.nn.silu(jnp.einsum("bech,ehf->becf", rows, p["gate"])) * jnp.einsum("bech,ehf->becf", rows, p["up"])
    rows = jnp.einsum("becf,efh->bech", inner, p["down"])
    return jax.vmap(combine)(rows, expert, position, weight), balance_loss(probs, count)


def segment_sum(x):
    """[..., t] -> [..., t, t]: sum of x over (s, t] below the diagonal, -inf above it."""
    total = jnp.cumsum(x, -1)
    mask = jnp.tril(jnp.ones((x.shape[-1], x.shape[-1]), bool))
    return jnp.where(mask, total[..., :, None] - total[..., None, :], -jnp.inf)


def ssd(x, a, b, c):
    """The minimal chunked form of the Mamba-2 paper, for one group of b and c.

    x [batch, chunks, chunk, heads, dim], already times dt; a [batch, chunks, chunk, heads]; b, c [..., chunk, state].
    """
    a = a.transpose(0, 3, 1, 2)  # [batch, heads, chunks, chunk]
    total = jnp.cumsum(a, -1)
    within = jnp.einsum("bcln,bcsn,bhcls,bcshp->bclhp", c, b, jnp.exp(segment_sum(a)), x)
    states = jnp.einsum("bcln,bhcl,bclhp->bchpn", b, jnp.exp(total[..., -1:] - total), x)
    states = jnp.concatenate([jnp.zeros_like(states[:, :1]), states], 1)
    decay = jnp.exp(segment_sum(jnp.pad(total[..., -1], ((0, 0), (0, 0), (1, 0)))))
    entering = jnp.einsum("bhzc,bchpn->bzhpn", decay, states)[:, :-1]
    return within + jnp.einsum("bcln,bchpn,bhcl->bclhp", c, entering, jnp.exp(total))


def mamba2(p, x):
    cuts = [SSM_INNER, 2 * SSM_INNER + 2 * SSM_STATE]
    z, xbc, dt = jnp.split(x @ p["in"], cuts, -1)
    xbc = jax.nn.silu(causal_conv(xbc, p["conv"], p["conv_bias"]))
    xs, b, c = jnp.split(xbc, [SSM_INNER, SSM_INNER + SSM_STATE], -1)
    dt = jax.nn.softplus(dt + p["dt_bias"])
    chunked = lambda t, *tail: t.reshape(-1, SEQ // CHUNK, CHUNK, *tail)  # noqa: E731
    xs, dt = chunked(xs, SSM_HEADS, SSM_HEAD_DIM), chunked(dt, SSM_HEADS)
    y = ssd(xs * dt[..., None], -jnp.exp(p["a_log"]) * dt, chunked(b, SSM_STATE), chunked(c, SSM_STATE))
    y = (y + p["d"][:, None] * xs).reshape(-1, SEQ, SSM_INNER)
    return rms_norm(y * jax.nn.silu(z), p["gate_norm"]) @ p["out"]


def griffin(p, x):
    y = jax.nn.gelu(x @ p["y"] + p["y_bias"], approximate=True)
    x = causal_conv(x @ p["x"] + p["x_bias"], p["conv"], p["conv_bias"])
    blocks = x.reshape(*x.shape[:2], LRU_BLOCKS, -1)
    gate = lambda w, bias: jax.nn.sigmoid(jnp.einsum("bsnw,nwv->bsnv", blocks, w) + bias).reshape(x.shape)  # noqa: E731
    i, r = gate(p["i_gate"], p["i_bias"]), gate(p["r_gate"], p["r_bias"])
    a = jnp.exp(-LRU_C * r * jax.nn.softplus(p["decay"]))
    scale = jnp.where((jnp.arange(SEQ) == 0)[:, None], 1.0, jnp.sqrt(1 - a * a))
    combine = lambda left, right: (left[0] * right[0], right[0] * left[1] + right[1])  # noqa: E731
    h = lax.associative_scan(combine, (a, scale * i * x), axis=1)[1]
    return (h * y) @ p["out"] + p["out_bias"]


def cross_entropy(logits, target):
    log_probs = jax.nn.log_softmax(logits, -1)
    return -jnp.mean(jnp.take_along_axis(log_probs, target[..., None], -1))
