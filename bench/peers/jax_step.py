# SPDX-License-Identifier: Apache-2.0
"""One training step: loss, gradients added up over micro-batches, clipping and AdamW."""
import functools

import jax
import jax.numpy as jnp
from jax import lax

from jax_common import DTYPES, UNDECAYED, narrowed, rms_norm

LEARNING_RATE, BETA1, BETA2, ADAM_EPS, WEIGHT_DECAY, CLIP_NORM = 3e-4, 0.9, 0.95, 1e-8, 0.1, 1.0


def apply_block(kind, model, layers, p, stream):
    """stream: activations [batch, seq, hidden] and the router losses so far."""
    x, router_loss = stream
    p = narrowed(p, model)
    y = rms_norm(x, p["norm"])
    if kind == "E" and model.experts:
        y, loss = layers.experts(model, p, y)
        return x + y, router_loss + loss
    layer = {"A": layers.attention, "E": layers.mlp, "M": layers.mamba2, "R": layers.griffin}[kind]
    return x + layer(model, p, y), router_loss


def block_of(kind, model, layers, looped):
    block = functools.partial(apply_block, kind, model, layers)
    if model.remat == "none":
        return block
    policy = jax.checkpoint_policies.dots_with_no_batch_dims_saveable if model.remat == "selective" else None
    return jax.checkpoint(block, policy=policy, prevent_cse=not looped)  # a loop already keeps the two passes apart


def loss_fn(params, tokens, model, layers):  # tokens [batch, seq + 1]
    stream = (params["embed"][tokens[:, :-1]].astype(DTYPES[model.precision]), jnp.zeros(()))

    def period(stream, blocks):
        for kind, p in zip(model.pattern, blocks):
            stream = block_of(kind, model, layers, looped=True)(p, stream)
        return stream, None

    if params["periods"]:
        stream, _ = lax.scan(period, stream, params["periods"])
    for kind, p in zip(model.letters[len(model.letters) - len(params["blocks"]):], params["blocks"]):
        stream = block_of(kind, model, layers, looped=False)(p, stream)
    x, router_loss = stream
    logits = rms_norm(x, params["norm"].astype(x.dtype)) @ params["head"].astype(x.dtype)
    loss = layers.cross_entropy(logits.astype(jnp.float32), tokens[:, 1:])
    return loss + router_loss / max(1, model.letters.count("E"))  # the mean over blocks


def loss_and_grads(params, tokens, model, layers):  # tokens [micro-batches, batch, seq + 1]
    """Means over the micro-batches; gradients add up in f32."""
    one = lambda micro: jax.value_and_grad(loss_fn)(params, micro, model, layers)  # noqa: E731
    count = tokens.shape[0]
    if count == 1:
        return one(tokens[0])
    zeros = jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)
    total, _ = lax.scan(lambda sums, micro: (jax.tree.map(jnp.add, sums, one(micro)), None), zeros, tokens)
    return jax.tree.map(lambda t: t / count, total)


def adamw(state, grads):
    params, mean, square, step = state
    step = step + 1
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, CLIP_NORM / norm)
    bias1, bias2 = 1 - BETA1 ** step, 1 - BETA2 ** step

    def update(path, p, m, v, g):
        g = g * scale
        m, v = BETA1 * m + (1 - BETA1) * g, BETA2 * v + (1 - BETA2) * g * g
        decay = 0.0 if path[-1].key in UNDECAYED else WEIGHT_DECAY
        return p - LEARNING_RATE * (m / bias1 / (jnp.sqrt(v / bias2) + ADAM_EPS) + decay * p), m, v

    updated = jax.tree_util.tree_map_with_path(update, params, mean, square, grads)
    return (*jax.tree.transpose(jax.tree.structure(params), None, updated), step)


def train_step(state, tokens, model, layers):
    loss, grads = loss_and_grads(state[0], tokens, model, layers)
    return adamw(state, grads), loss
