// SPDX-License-Identifier: Apache-2.0
// A small model and hardware to plan it on, without a backend and without measuring this machine.
#pragma once

#include <string>
#include <vector>

#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/program/recipe/parse.h"

namespace megacpp::testing_support {

/// Every op stays whole and needs no workspace.
inline schedule::Target test_kernels() {
  return {.name = "test-host",
          .runs = [](std::string_view, const ops::NodeView&) { return base::Decision::yes(); },
          .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; }};
}

/// As "host:4" or any chip of the library; a limit for all chips, 0: the hardware's own.
inline fit::Assumptions test_assumptions(const std::string& hardware, int64_t limit = 0) {
  fit::Assumptions assumptions{.slice = hw::parse_target(hardware, {.host_rates =
                                                                        [] {
                                                                          return hw::HostRates{
                                                                              .matrix_flops = 1e11,
                                                                              .bytes_per_second = 2e10,
                                                                              .cores = 4,
                                                                              .memory = int64_t{1} << 34,
                                                                              .processor = "test-host",
                                                                              .date = "2026-11-15"};
                                                                        }}),
                               .kernels = test_kernels()};
  if (assumptions.slice.chip.tiling.exists()) assumptions.xla_forms.emplace();  // TPUs are reached through XLA alone
  if (limit > 0) assumptions.limits.assign(static_cast<size_t>(assumptions.slice.devices()), limit);
  return assumptions;
}

/// Attention and experts, large enough that layouts differ.
inline recipe::Recipe test_recipe(const std::vector<std::string>& overrides = {}) {
  return recipe::parse(
      "name: test\n"
      "model:\n  pattern: AE\n  depth: 8\n  hidden: 64\n  vocab: 128\n"
      "  attention: {heads: 4, kv_heads: 2, head_dim: 16}\n"
      "  feed_forward: {activation: swiglu, intermediate: 128, experts: 4, top_k: 2, capacity_factor: 1.25}\n"
      "train: {batch: 8, sequence: 64, steps: 3}\n",
      "test.yaml", overrides);
}

}  // namespace megacpp::testing_support
