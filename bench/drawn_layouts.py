# SPDX-License-Identifier: Apache-2.0
"""Layouts of training steps that nobody chose, drawn from a seed: what judges rules that were fitted to chosen ones."""
import math
import random

SLICES = {"v6e:2x2": 4, "v6e:2x4": 8, "v6e:4x4": 16, "v6e:4x8": 32, "v6e:8x8": 64}
LEVELS = ("none", "selective", "full")
# Recipes by their file, with the letters of their pattern and the depths that are drawn, whole repeats of it. The pattern of
# nam56r-1b is cut to four blocks: the compiler takes a third of the time.
MODELS = {
    "recipes/nam52-1b.yaml": ("AE", (24, 40, 52)),
    "recipes/nam56r-1b.yaml": ("AEMR", (16, 28, 56)),
    "bench/recipes/dense-1b.yaml": ("AE", (24, 32, 40)),
    "bench/recipes/llama-7b.yaml": ("AE", (64,)),
}
UNROLLED_DEPTHS = (8, 12, 16, 24)
# Tokens of a sequence and what context_parallel is drawn from: short, and, if asked for, long.
SHORT = ((1024, 2048, 4096), (1, 1, 1, 2))
LONG = ((8192, 16384, 32768), (1, 2, 4, 8))


def powers(most):
    return [2 ** i for i in range(int(math.log2(most)) + 1)]


def draw(dice, has_loops, lengths):
    """(recipe, target, settings) of one layout. Whether it is legal and fits a chip, a plan says."""
    recipe = dice.choice(list(MODELS))
    letters, depths = MODELS[recipe]
    target = dice.choice(list(SLICES))
    sequences, contexts = lengths
    tensor, context = dice.choice((1, 1, 2, 4)), dice.choice(contexts)
    apart = max(1, SLICES[target] // (tensor * context))  # chips with sequences of their own
    expert = dice.choice(powers(min(apart, 8))) if "M" in letters else 1
    on_a_chip = dice.choice((1, 1, 2, 4))
    settings = {
        "layout.data_parallel": apart // expert,
        "layout.expert_parallel": expert,
        "layout.tensor_parallel": tensor,
        "layout.context_parallel": context,
        "layout.zero": dice.choice((0, 1, 2, 3, 3)),
        "layout.sequence_parallel": "true" if dice.random() < 0.75 else "false",
        "train.sequence": dice.choice(sequences),
        "train.batch": apart * on_a_chip,
        "train.micro_steps": dice.choice((1, 1, 2, 4)),
        "train.precision": "bf16",
        "model.pattern": letters,
        "model.depth": dice.choice(depths if has_loops else UNROLLED_DEPTHS),
        "xla.loops": "on" if has_loops else "off",
    }
    return recipe, target, settings | {f"train.recompute.{letter}": dice.choice(LEVELS) for letter in letters}


def draw_small(dice):
    """(recipe, settings) of a model that two cores train in a second a step: other widths, experts and lengths than the recipe's."""
    recipe = dice.choice(("recipes/nam52-tiny.yaml", "recipes/nam56r-tiny.yaml"))
    hidden, head_dim = dice.choice((64, 128, 192, 256)), dice.choice((16, 32, 64))
    settings = {
        "model.depth": dice.choice((2, 4, 6, 8) if "nam52" in recipe else (4, 8, 12)),
        "model.hidden": hidden,
        "model.vocab": dice.choice((256, 1024, 4096)),
        "model.attention.head_dim": head_dim,
        "model.attention.heads": hidden // head_dim,
        "model.attention.kv_heads": max(1, hidden // head_dim // dice.choice((1, 2, 4))),
        "model.feed_forward.intermediate": hidden * dice.choice((1, 2, 3, 4)),
        "train.sequence": dice.choice((128, 256, 512, 1024)),
        "train.batch": dice.choice((2, 4, 8)),
    }
    if "nam56r" in recipe:
        settings |= {"model.mamba.head_dim": head_dim, "model.mamba.heads": 2 * hidden // head_dim,
                     "model.mamba.state": dice.choice((16, 32, 64)), "model.mamba.chunk": dice.choice((32, 64, 128)),
                     "model.recurrent.width": hidden, "model.feed_forward.experts": dice.choice((2, 4, 8)),
                     "model.feed_forward.shared_intermediate": hidden}
    return recipe, [f"{key}={value}" for key, value in settings.items()]


def drawn_rows(seed, count, is_taken, lengths=SHORT):
    """{row: (recipe, target, settings)} of `count` layouts for which is_taken(recipe, target, settings), three in four with
    blocks in loops. A row has the number of its draw, whatever was left out before it."""
    dice = random.Random(seed)
    rows = {}
    for number in range(100 * count):
        drawn = draw(dice, has_loops=dice.random() < 0.75, lengths=lengths)
        if is_taken(*drawn):
            rows[f"drawn-{seed}-{number}"] = drawn
        if len(rows) == count:
            break
    return rows
