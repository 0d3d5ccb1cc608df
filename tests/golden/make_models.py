# SPDX-License-Identifier: Apache-2.0
"""Writes golden files from the public reference models: small random models of unusual shapes, with logits, losses and every
gradient in f32. Needs torch, transformers and safetensors; not part of any build or test.

    python3 tests/golden/make_models.py FOLDER [CASE ...]

Tensors: param.* (weights), in.* (ids, labels: the target of each position), out.* (logits, ce, loss, aux, router logits), grad.*.
Metadata key `meta`: JSON with the class, its configuration and the version of transformers.
"""
import json
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers import (LlamaConfig, LlamaForCausalLM, Mamba2Config, Mamba2ForCausalLM, MixtralConfig, MixtralForCausalLM,
                          NemotronHConfig, NemotronHForCausalLM)

CASES = {
    # odd head counts, explicit head_dim not hidden/heads, length 37, tied embeddings
    "llama_odd": (LlamaForCausalLM, LlamaConfig, dict(
        vocab_size=61, hidden_size=48, intermediate_size=40, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=3,
        head_dim=10, rms_norm_eps=1e-6, tie_word_embeddings=True, rope_parameters={"rope_theta": 5000.0, "rope_type": "default"}), 3, 37),
    # one key/value head, length 1 block
    "llama_mqa": (LlamaForCausalLM, LlamaConfig, dict(
        vocab_size=53, hidden_size=32, intermediate_size=56, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=1), 1, 130),
    # 7 experts, top 3
    "mixtral_top3": (MixtralForCausalLM, MixtralConfig, dict(
        vocab_size=59, hidden_size=40, intermediate_size=24, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
        num_local_experts=7, num_experts_per_tok=3, router_aux_loss_coef=0.05), 2, 29),
    # as many sequences as experts: expert parallelism of four needs both
    "mixtral_four": (MixtralForCausalLM, MixtralConfig, dict(
        vocab_size=59, hidden_size=32, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        num_local_experts=4, num_experts_per_tok=2, router_aux_loss_coef=0.02), 4, 24),
    # sliding window shorter than the sequence, top 1
    "mixtral_window": (MixtralForCausalLM, MixtralConfig, dict(
        vocab_size=59, hidden_size=32, intermediate_size=20, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4,
        num_local_experts=3, num_experts_per_tok=1, sliding_window=9), 2, 33),
    # length not a multiple of the chunk, one group
    "mamba2_ragged": (Mamba2ForCausalLM, Mamba2Config, dict(
        vocab_size=47, hidden_size=36, num_heads=6, head_dim=12, state_size=10, n_groups=1, chunk_size=16, num_hidden_layers=2,
        expand=2, conv_kernel=4), 2, 41),
    # three groups, chunk larger than the sequence
    "mamba2_groups": (Mamba2ForCausalLM, Mamba2Config, dict(
        vocab_size=47, hidden_size=48, num_heads=6, head_dim=16, state_size=8, n_groups=3, chunk_size=64, num_hidden_layers=1,
        expand=2, conv_kernel=3), 2, 19),
    # every family of the class, length not a multiple of the chunk
    "nemotron_h_odd": (NemotronHForCausalLM, NemotronHConfig, dict(
        vocab_size=67, hidden_size=40, layers_block_type=["full_attention", "linear_attention", "mlp", "linear_attention", "full_attention", "mlp"],
        num_attention_heads=5, num_key_value_heads=1, head_dim=8, intermediate_size=72, mamba_num_heads=4, mamba_head_dim=20,
        ssm_state_size=12, n_groups=4, conv_kernel=4, chunk_size=8), 2, 27),
}


def run(name, cls, config_cls, options, batch, length, folder):
    torch.manual_seed(hash_of(name))
    config = config_cls(**options)
    config._attn_implementation = "eager"
    model = cls(config).float().eval()
    with torch.no_grad():  # fresh models start with unit norms and zero biases: make every gradient say something
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    tokens = torch.randint(0, config.vocab_size, (batch, length + 1))
    ids, labels = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    arguments = {"output_router_logits": True} if cls is MixtralForCausalLM else {}
    result = model(input_ids=ids, use_cache=False, **arguments)
    ce = torch.nn.functional.cross_entropy(result.logits.reshape(-1, config.vocab_size), labels.reshape(-1))
    loss = ce
    tensors = {"in.ids": ids.int(), "in.labels": labels.int(), "out.logits": result.logits, "out.ce": ce.reshape(1)}
    if cls is MixtralForCausalLM:
        from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func
        aux = load_balancing_loss_func(result.router_logits, config.num_local_experts, config.num_experts_per_tok)
        loss = ce + config.router_aux_loss_coef * aux
        tensors["out.aux"] = aux.reshape(1)
        for i, logits in enumerate(result.router_logits):
            tensors[f"out.router_logits.{i}"] = logits
    tensors["out.loss"] = loss.reshape(1)
    loss.backward()
    for key, parameter in model.named_parameters():
        tensors["param." + key] = parameter
        tensors["grad." + key] = parameter.grad
    meta = {"cls": cls.__name__, "config": config.to_dict(), "transformers": transformers.__version__}
    save_file({k: v.detach().contiguous().clone() for k, v in tensors.items()}, f"{folder}/{name}.safetensors",
              metadata={"meta": json.dumps(meta, default=str)})
    print(name, float(ce), float(loss))


def hash_of(name):
    return sum(ord(c) * 31**i for i, c in enumerate(name)) % 2**31


if __name__ == "__main__":
    for case, (cls, config_cls, options, batch, length) in CASES.items():
        if len(sys.argv) > 2 and case not in sys.argv[2:]:
            continue
        run(case, cls, config_cls, options, batch, length, sys.argv[1])
