// SPDX-License-Identifier: Apache-2.0
// What tests of export, generate and eval begin with: a small model that has a Hugging Face class, and JSON of
// commands.
#pragma once

#include <nlohmann/json.hpp>

#include "megacpp/core/base/json.h"
#include "tests/support/command_line.h"

namespace megacpp::testing_support {

/// Exported as NemotronH.
inline constexpr const char* kExportedRecipe = R"(name: hybrid
model:
  pattern: MEA
  depth: 3
  hidden: 16
  vocab: 256
  attention: {heads: 4, kv_heads: 2, head_dim: 4, rope: false}
  feed_forward: {intermediate: 24, activation: relu2}
  mamba: {heads: 4, head_dim: 8, state: 4, groups: 2, chunk: 8}
train: {batch: 2, sequence: 16, steps: 1, threads: 1}
)";

/// Of a command that succeeds with --json.
inline base::Json json_of(const CommandResult& result) {
  EXPECT_EQ(result.status, 0) << result.err;
  return base::parse_json(result.out, base::Code::E1202, "output");
}

}  // namespace megacpp::testing_support
