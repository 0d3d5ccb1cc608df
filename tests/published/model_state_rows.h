// SPDX-License-Identifier: Apache-2.0
// Published bytes per parameter of weights, gradients and optimizer state, each with its source, the run of ours that
// comes nearest, and what the two differ by.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/published/dense_transformer.h"

namespace megacpp::published {

/// Bytes per parameter: what every chip holds, and what the d chips that share the batch hold together.
struct PerParameter {
  int64_t whole = 0;
  int64_t split = 0;

  int64_t bytes(int64_t parameters, int64_t chips) const { return whole * parameters + split * parameters / chips; }
};

struct Difference {
  std::string_view why;
  PerParameter ours_less_theirs;
};

struct StateRow {
  std::string name;
  std::string source;
  PerParameter published;
  std::vector<Difference> differences;
  // What a run of ours is told.
  ir::DType precision = ir::DType::bf16;
  recipe::Policy policy = recipe::Policy::spmd;
  int64_t zero = 0;
  int64_t chips = 4;   // d
  int64_t tensor = 1;  // t; each chip has that part of every parameter but norms
  int64_t micro_steps = 2;
  // What it plans, by role; `copy`: 16-bit weights kept from forward to backward.
  PerParameter weight = {4, 0}, gradient = {4, 0}, optimizer = {8, 0}, copy = {2, 0};
  Sizes sizes = {};
  double printed_gigabytes = 0;  // where the source gives a number for these sizes, to one decimal

  /// Those a chip computes with.
  int64_t parameters() const {
    const int64_t norms = (2 * sizes.layers + 1) * sizes.hidden;
    return (sizes.parameters() - norms) / tensor + norms;
  }
};

/// The ZeRO paper's stages, also at the size of its figure 1; DeepSpeed's estimate of stage 2.
std::vector<StateRow> zero_rows();
std::vector<StateRow> figure_rows();
/// Megatron-Core's distributed optimizer, for each combination of types.
std::vector<StateRow> megatron_rows();

}  // namespace megacpp::published
