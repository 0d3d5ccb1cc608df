# SPDX-License-Identifier: Apache-2.0
"""The idiomatic models for speed on a GPU: no loop over blocks, one product for all that reads the same input."""
import jax
import jax.numpy as jnp
from jax import lax

from jax_common import packed, rope, router_losses
from jax_idiomatic import combine, griffin, mamba2, route  # noqa: F401

PACKED = {"qkv": ("q", "k", "v"), "gate_up": ("gate", "up")}


def prepare(params):
    """Repeated blocks come stacked: here each stands for itself."""
    count = jax.tree.leaves(params["periods"])[0].shape[0] if params["periods"] else 0
    blocks = [jax.tree.map(lambda leaf, at=at: leaf[at], block) for at in range(count) for block in params["periods"]]
    return params | {"periods": [], "blocks": [packed(block, PACKED, jnp.concatenate) for block in blocks + params["blocks"]]}


def attention(model, p, x):
    dim, q_width = model.head_dim, model.q_heads * model.head_dim
    q, k, v = jnp.split(x @ p["qkv"], [q_width, q_width + model.kv_heads * dim], -1)
    q, k, v = (t.reshape(*t.shape[:2], -1, dim) for t in (q, k, v))
    mixed = jax.nn.dot_product_attention(rope(model, q), rope(model, k), v, is_causal=True,
                                         implementation=model.attention)
    return mixed.reshape(*x.shape[:2], -1) @ p["out"]


def swiglu(gate_up):
    gate, up = jnp.split(gate_up, 2, -1)
    return jax.nn.silu(gate) * up


def mlp(model, p, x):
    return swiglu(x @ p["gate_up"]) @ p["down"]


def padded_experts(model, p, x):
    rows, expert, position, weight, routed = jax.vmap(lambda t: route(model, p["router"], t))(x)
    inner = swiglu(jnp.einsum("bech,ehf->becf", rows, p["gate_up"]))
    rows = jnp.einsum("becf,efh->bech", inner, p["down"])
    return jax.vmap(combine)(rows, expert, position, weight), routed


def ragged_experts(model, p, x):
    """Choices sorted by expert, each expert's rows one group; nothing is dropped."""
    logits = x.astype(jnp.float32) @ p["router"]
    probs = jax.nn.softmax(logits, -1)
    weight, expert = lax.top_k(probs, model.top_k)
    weight = (weight / weight.sum(-1, keepdims=True)).astype(x.dtype)
    order = jnp.argsort(expert.reshape(-1), stable=True)  # choice at each place
    place = jnp.zeros_like(order).at[order].set(jnp.arange(order.size), unique_indices=True)
    count = jax.nn.one_hot(expert, model.experts, dtype=jnp.int32).sum((1, 2))  # [batch, experts]
    sizes = count.sum(0)
    rows = x.reshape(-1, model.hidden)[order // model.top_k]
    rows = lax.ragged_dot(swiglu(lax.ragged_dot(rows, p["gate_up"], sizes)), p["down"], sizes)
    chosen = rows[place].reshape(*expert.shape, model.hidden)
    return jnp.einsum("btkh,btk->bth", chosen, weight), (logits, probs, count)


def experts(model, p, x):
    y, routed = (ragged_experts if model.expert_products == "ragged" else padded_experts)(model, p, x)
    if model.shared_inner:
        y += (jax.nn.silu(x @ p["shared_gate"]) * (x @ p["shared_up"])) @ p["shared_down"]
    return y, router_losses(model, *routed)


def cross_entropy(logits, target):
    chosen = jnp.take_along_axis(logits, target[..., None], -1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - chosen)
