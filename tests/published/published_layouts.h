// SPDX-License-Identifier: Apache-2.0
// Layouts that others publish for models of their size, cut to a few blocks: which of them is legal does not depend on
// the depth. Degrees of data parallelism are two where the source leaves them to the reader.
//
// Sources: "index" is the recipe index of NVIDIA's Megatron Bridge (docs.nvidia.com/nemo/megatron-bridge, nightly,
// nemo-mbridge-recipe-recommender/references/recipe-index.html); "automodel" is the performance summary of NVIDIA NeMo
// AutoModel (docs.nvidia.com/nemo/automodel, performance-summary: experts and FSDP over the same 64 chips); "maxtext"
// is AI-Hypercomputer/tpu-recipes, training/trillium/Llama3.1-70B-MaxText, whose five sequences of a chip are
// micro-steps here; "usual" stands for what everybody runs: FSDP alone, experts over some of its chips, or tensors
// inside a node.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string_view>

#include "megacpp/recipe/recipe.h"

namespace megacpp::published {

struct PublishedLayout {
  const char* name;
  const char* source;
  const char* model;
  int64_t batch;     // sequences of a micro-step over all chips
  int64_t sequence;  // tokens
  const char* layout;
  int64_t micro_steps = 1;
};

void PrintTo(const PublishedLayout& row, std::ostream* out);

std::span<const PublishedLayout> published_layouts();
/// One of them, by its name.
const PublishedLayout& published_layout(std::string_view name);

/// A training in bf16 that computes everything again.
recipe::Recipe published_recipe(const PublishedLayout& row);

}  // namespace megacpp::published
