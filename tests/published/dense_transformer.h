// SPDX-License-Identifier: Apache-2.0
// The dense transformer that published formulas are about, as near as a recipe comes to it, and its planned bytes on
// one chip. Nothing runs and nothing is allocated, so that sizes may be those of the papers.
//
// A layer of theirs is two blocks of ours, A and E: as many heads of keys as of queries, an inner width with one
// activation function and two matrices, no rotary embedding, the embedding used as output head. Where we differ: RMS
// norms without a bias for layer norms, no biases, no dropout, squared ReLU for GeLU.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "megacpp/program/memory/memory_plan.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::published {

/// Letters as in arXiv:2205.05198, table 1.
struct Sizes {
  int64_t layers = 4;     // L
  int64_t hidden = 64;    // h
  int64_t heads = 4;      // a
  int64_t inner = 256;    // 4h there
  int64_t vocab = 4096;   // v; large enough here that the peak is behind the last layer, where all layers' bytes are
  int64_t sequence = 32;  // s
  int64_t batch = 128;    // b, sequences of a micro-step on one chip; enough that 16-bit weights take no more as copies

  int64_t sbh() const { return sequence * batch * hidden; }
  int64_t parameters_of_layer() const { return 4 * hidden * hidden + 2 * hidden * inner + 2 * hidden; }
  int64_t parameters() const { return layers * parameters_of_layer() + hidden + vocab * hidden; }
};

/// bf16, two micro-steps, so that gradients add up.
recipe::Recipe dense_transformer(const Sizes& sizes, const recipe::Layout& layout);

memory::MemoryPlan plan_of(const recipe::Recipe& recipe);

int64_t bytes_of(const memory::MemoryPlan& plan, ir::Role role);

/// What is kept between forward and backward pass, and copies of weights for all micro-steps, at the peak.
struct Kept {
  int64_t of_tokens = 0;   // grows with the batch: activations of `Sizes::batch` sequences
  int64_t of_weights = 0;  // does not: 16-bit copies of weights. Weights that are just being gathered do not count
};

/// Told apart by planning twice, with the batch and with twice the batch. `is_wanted` is asked about "block02", "head".
Kept kept_bytes(recipe::Recipe recipe, const std::function<bool(const std::string&)>& is_wanted);

}  // namespace megacpp::published
