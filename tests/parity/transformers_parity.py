#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `megacpp export` and `megacpp generate` with transformers on tiny models of every class.

Needs torch, transformers and safetensors. For each class a random model is saved by transformers, imported and
exported by megacpp, loaded by transformers again, and compared: tensors to the bit, logits of every position, greedy
tokens. A hybrid recipe of ours goes the same way from its initial weights. Runs on the CPU with transformers 4.50 and
later; a class that the installed version lacks (NemotronH before 5) is named and skipped.

usage: tests/parity/transformers_parity.py build/fast/bin/megacpp [--json FILE]
The exit status is the verdict.
"""
import argparse
import inspect
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import torch
import transformers
from safetensors.torch import load_file

TOLERANCE = 2e-4  # of logits, relative to the largest
NEW_TOKENS = 12
PROMPTS = [[3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1], [8]]

RECIPE = """
name: hybrid
model:
  pattern: MEMAE
  depth: 5
  hidden: 64
  vocab: 97
  init_std: 0.1
  attention: {heads: 8, kv_heads: 2, head_dim: 8, rope: false}
  feed_forward: {intermediate: 96, activation: relu2}
  mamba: {heads: 8, head_dim: 16, state: 16, groups: 2, chunk: 16}
train: {batch: 1, sequence: 16, steps: 1}
"""


def mamba2_groups():
    """Some versions repeat the groups of Mamba-2 on the CPU in another order than its kernels do: one is right in all."""
    from transformers.models.mamba2 import modeling_mamba2
    return 2 if "repeat_interleave" in inspect.getsource(modeling_mamba2.Mamba2Mixer) else 1


def tiny_models():
    """What makes the configuration of each class, by name; small, with every kind of layer of the class."""
    common = dict(vocab_size=97, hidden_size=64, tie_word_embeddings=False, bos_token_id=0, eos_token_id=None)
    attention = dict(num_attention_heads=8, num_key_value_heads=2)
    mamba = dict(conv_kernel=4, chunk_size=16)
    return {
        "LlamaForCausalLM": lambda: transformers.LlamaConfig(
            **common, **attention, intermediate_size=96, num_hidden_layers=3, initializer_range=0.1),
        "MixtralForCausalLM": lambda: transformers.MixtralConfig(
            **common, **attention, intermediate_size=80, num_hidden_layers=2, num_local_experts=4,
            num_experts_per_tok=2, initializer_range=0.1),
        "Mamba2ForCausalLM": lambda: transformers.Mamba2Config(
            **common, **mamba, n_groups=mamba2_groups(), num_heads=8, head_dim=16, state_size=16, num_hidden_layers=3,
            expand=2, initializer_range=0.1),
        "NemotronHForCausalLM": lambda: transformers.NemotronHConfig(
            **common, **attention, **mamba, n_groups=2, head_dim=8, intermediate_size=96, mamba_num_heads=8,
            mamba_head_dim=16, ssm_state_size=16, hybrid_override_pattern="M-M*-", num_hidden_layers=5, initializer_range=0.1),
    }


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, arguments))}: {done.stderr}")
    return done.stdout


def stored_tensors(folder):
    tensors = {}
    for file in sorted(pathlib.Path(folder).glob("*.safetensors")):
        tensors.update(load_file(file))
    return tensors


def different_tensors(first, second):
    a, b = stored_tensors(first), stored_tensors(second)
    return sorted(name for name in a.keys() | b.keys()
                  if name not in a or name not in b or a[name].dtype != b[name].dtype or not torch.equal(a[name], b[name]))


def greedy(model, prompt):
    """Token by token over the whole sequence, without a cache: what the class computes, however it caches."""
    ids = list(prompt)
    for _ in range(NEW_TOKENS):
        logits = model(torch.tensor([ids]), use_cache=False).logits
        ids.append(int(logits[0, -1].argmax()))
    return ids[len(prompt):]


def compare(program, folder, work):
    """Our tokens and logits against those of the loaded folder."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).float().eval()
    row = {"class": type(model).__name__, "tokens_equal": True, "logits_error": 0.0}
    for prompt in PROMPTS:
        logits_file = pathlib.Path(work) / "logits.safetensors"
        ids = " ".join(map(str, prompt))
        out = json.loads(run(program, "generate", folder, "--ids", ids, "--max-tokens", NEW_TOKENS, "--temperature", 0,
                             "--json", "--logits", logits_file))
        tokens = out["sequences"][0]["tokens"]
        row["tokens_equal"] &= tokens == greedy(model, prompt)
        ours = load_file(logits_file)["logits"][:, 0]
        theirs = model(torch.tensor([(prompt + tokens)[:len(ours)]]), use_cache=False).logits[0]
        error = ((ours - theirs).abs().max() / theirs.abs().max()).item()
        row["logits_error"] = max(row["logits_error"], error)
    return row


def check_class(program, name, make_config, work):
    torch.manual_seed(1)
    model = getattr(transformers, name)(make_config()).float().eval()
    for parameter in model.parameters():  # norms and biases too: a model that was trained
        if parameter.ndim == 1:
            parameter.data += 0.05 * torch.randn_like(parameter)
    saved, exported = pathlib.Path(work) / f"{name}-saved", pathlib.Path(work) / f"{name}-exported"
    model.save_pretrained(saved)
    run(program, "export", saved, exported)
    return {**compare(program, exported, work), "different_tensors": different_tensors(saved, exported)}


def check_recipe(program, work):
    """Exported as NemotronH."""
    recipe, exported = pathlib.Path(work) / "hybrid.yaml", pathlib.Path(work) / "hybrid-exported"
    recipe.write_text(RECIPE)
    run(program, "export", recipe, exported, "--shard-bytes", 100000)
    return {**compare(program, exported, work), "different_tensors": []}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--json", help="write the result there")
    arguments = parser.parse_args()
    torch.set_grad_enabled(False)
    checks = {name: lambda work, name=name, make=make: check_class(arguments.program, name, make, work)
              for name, make in tiny_models().items()}
    skipped = [name for name in checks if not hasattr(transformers, name)]
    if "NemotronHForCausalLM" not in skipped:
        checks["hybrid recipe"] = lambda work: check_recipe(arguments.program, work)
    with tempfile.TemporaryDirectory() as work:
        rows = [check(work) for name, check in checks.items() if name not in skipped]
    for name in skipped:
        print(f"{name:<24} SKIPPED: transformers {transformers.__version__} does not have it")
    for row in rows:
        row["passed"] = row["tokens_equal"] and row["logits_error"] <= TOLERANCE and not row["different_tensors"]
        print(f"{row['class']:<24} tokens {'equal' if row['tokens_equal'] else 'DIFFER'}  "
              f"logits {row['logits_error']:.1e}  tensors that differ {row['different_tensors'] or 'none'}")
    result = {"transformers": transformers.__version__, "torch": torch.__version__,
              "date": time.strftime("%Y-%m-%d"), "rows": rows, "skipped": skipped}
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(result, indent=2) + "\n")
    return 0 if all(row["passed"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
