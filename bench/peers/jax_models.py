# SPDX-License-Identifier: Apache-2.0
"""What the benchmark models are, in numbers. Needs neither JAX nor NumPy, so that bench/xla can read it too."""
import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Model:
    """Sizes of a model and how it is computed; blocks are the letters of `pattern`, tiled to `depth`."""
    pattern: str
    depth: int
    hidden: int
    vocab: int
    q_heads: int
    kv_heads: int
    head_dim: int
    inner: int  # of the feed-forward, of each expert where there are experts
    rope_theta: float = 10000.0
    experts: int = 0  # 0: dense
    top_k: int = 2
    capacity_factor: float = 1.25  # of each sequence
    shared_inner: int = 0  # of the expert that every token passes; 0: none
    balance_loss: float = 0.01
    z_loss: float = 0.0  # of the router
    ssm_heads: int = 0
    ssm_head_dim: int = 64
    ssm_state: int = 64
    ssm_groups: int = 1
    chunk: int = 64  # tokens
    lru_width: int = 0
    lru_blocks: int = 1
    conv_width: int = 4
    sequence: int = 512
    precision: str = "f32"  # f32 | bf16: of activations and of weights in products; everything kept is f32
    attention: str = "xla"  # xla | cudnn: the implementation that jax.nn.dot_product_attention is asked for
    remat: str = "none"  # none | selective: keep products with weights only | full: keep inputs of blocks only
    expert_products: str = "padded"  # padded: batched, of every slot | ragged: of the chosen rows, none dropped

    @property
    def letters(self):
        return (self.pattern * self.depth)[:self.depth]

    @property
    def periods(self):
        """How often the whole pattern repeats; 0 where it stands once and there is nothing to loop over."""
        return self.depth // len(self.pattern) if self.depth >= 2 * len(self.pattern) else 0

    @property
    def tail(self):
        """Blocks after the repeated ones."""
        return self.letters[self.periods * len(self.pattern):]

    @property
    def capacity(self):
        """Rows an expert has for the tokens of one sequence."""
        return min(math.ceil(self.sequence * self.top_k / self.experts * self.capacity_factor), self.sequence)

    @property
    def ssm_inner(self):
        return self.ssm_heads * self.ssm_head_dim

    @property
    def ssm_channels(self):
        """Channels of the convolution: x, then B and C of each group."""
        return self.ssm_inner + 2 * self.ssm_groups * self.ssm_state


# The nam models are recipes/*.yaml, the others bench/recipes/*.yaml of the same name.
MODELS = {
    "dense": Model(pattern="AEAEAEAEAEAE", depth=12, hidden=384, vocab=8192, q_heads=6, kv_heads=2, head_dim=64,
                   inner=1536),
    "hybrid": Model(pattern="AEMEAEMEAEMR", depth=12, hidden=384, vocab=8192, q_heads=6, kv_heads=2, head_dim=64,
                    inner=256, experts=8, ssm_heads=12, lru_width=384, lru_blocks=6),
    "dense-1b": Model(pattern="AE", depth=32, hidden=2048, vocab=32768, q_heads=32, kv_heads=8, head_dim=64, inner=8192),
    "hybrid-2b": Model(pattern="AEMEAEMEAEMR", depth=24, hidden=2048, vocab=32768, q_heads=32, kv_heads=8, head_dim=64,
                       inner=4096, experts=8, ssm_heads=64, ssm_state=128, chunk=256, lru_width=2048),
    "nam52-1b": Model(pattern="AE", depth=52, hidden=1792, vocab=65536, q_heads=28, kv_heads=4, head_dim=64,
                      rope_theta=500000.0, inner=4864),
    "nam56r-1b": Model(pattern="AEMEAEMEAEMR", depth=56, hidden=1792, vocab=65536, q_heads=28, kv_heads=4, head_dim=64,
                       rope_theta=500000.0, inner=1216, experts=8, shared_inner=2432, z_loss=0.001, ssm_heads=56,
                       ssm_state=128, ssm_groups=4, chunk=128, lru_width=1792, lru_blocks=8),
}


def forward_flops(model, tokens):
    """Matrix products only, a multiply-add counts two.

    Causal products (attention; inside a Mamba-2 chunk) count half, experts count the routed tokens, not the padding.
    """
    hidden, q, kv = model.hidden, model.q_heads * model.head_dim, model.kv_heads * model.head_dim
    inner, states = model.ssm_inner, model.ssm_groups * model.ssm_state
    per_token = {
        "A": 2 * hidden * (2 * q + 2 * kv) + 2 * model.sequence * q,
        "M": 2 * hidden * (3 * inner + 2 * states + model.ssm_heads) + model.chunk * (states + inner)
        + 4 * model.ssm_state * inner,
        "R": 6 * hidden * model.lru_width + 4 * model.lru_width ** 2 // model.lru_blocks,
        "E": 6 * hidden * model.inner,
    }
    if model.experts:
        per_token["E"] = 2 * hidden * model.experts + 6 * hidden * (model.inner * model.top_k + model.shared_inner)
    return tokens * (sum(per_token[kind] for kind in model.letters) + 2 * hidden * model.vocab)
