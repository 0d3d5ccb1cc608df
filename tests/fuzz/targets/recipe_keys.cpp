// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/print.h"
#include "tests/fuzz/json_tree.h"
#include "tests/fuzz/oracle.h"

namespace megacpp::fuzz {
namespace {

// Every section that a recipe may have. JSON is YAML too.
constexpr const char* kDocument = R"({
  "name": "fuzz", "backend": "cpu",
  "model": {"pattern": "AEMRD", "depth": 6, "hidden": 64, "vocab": 300, "tie_embeddings": false, "z_loss": 0.001,
    "attention": {"heads": 4, "kv_heads": 2, "head_dim": 16, "window": 0, "rope": true},
    "mamba": {"heads": 4, "groups": 2, "head_dim": 8, "state": 8, "chunk": 8, "conv_width": 4},
    "feed_forward": {"activation": "swiglu", "intermediate": 128, "experts": 4, "top_k": 2, "capacity_factor": 1.25},
    "recurrent": {"heads": 4, "width": 32, "conv_width": 4},
    "letters": {"D": {"family": "E", "feed_forward": {"experts": 0, "intermediate": 32}}}},
  "train": {"batch": 8, "sequence": 64, "steps": 3, "micro_steps": 2, "seed": 1, "precision": "f32", "threads": 2,
    "recompute": {"A": "full", "D": "none"}},
  "layout": {"policy": "spmd", "data_parallel": 2, "tensor_parallel": 2, "pipeline_parallel": 1, "context_parallel": 1,
    "expert_parallel": 1, "zero": 1, "schedule": "1f1b", "virtual_stages": 1, "reshard_after_forward": "true"},
  "hardware": {"target": "v6e:2x2", "limit": "1GiB", "limits": ["3=256MiB"], "fail_allocation": ["chip 0 step 2"]},
  "ladder": {"rungs": ["batch", "sequence"]},
  "optimizer": {"name": "adamw", "lr": 0.001, "beta1": 0.9, "clip": 1.0, "warmup_steps": 2, "schedule": "cosine"},
  "data": {"text": ["LICENSE"]},
  "xla": {"placement": "megacpp", "plugin": "cpu", "flags": [], "cache": "off"}
})";

void read_changed_recipe(Bytes input) {
  Choices choices(input);
  base::Json document = base::Json::parse(kDocument);
  change_tree(document, choices);
  const recipe::Recipe recipe = recipe::parse(base::to_text(document, choices.one_in(2) ? 2 : -1), "fuzz.yaml");
  require(recipe::parse(recipe::print(recipe), "printed.yaml") == recipe, "a printed recipe reads back as another");
  plan::make_plan(recipe);
}

}  // namespace

Target recipe_keys_target() {
  return {.name = "recipe_keys", .subject = "keys and values of a recipe", .weight = 100, .run = read_changed_recipe};
}

}  // namespace megacpp::fuzz
