// SPDX-License-Identifier: Apache-2.0
// Whether a pass leaves a per-chip program over the axis "x" computing the same on two chips, bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "megacpp/core/ir/text.h"
#include "tests/support/spmd_evaluator.h"
#include "tests/support/tensors.h"

namespace megacpp::testing_support {

inline void expect_same_on_two_chips(const ir::Graph& before, const ir::Graph& after) {
  const ir::Mesh mesh({{"x", 2}});
  std::vector<std::map<std::string, ops::Tensor>> inputs;
  for (int chip = 0; chip < 2; ++chip) inputs.push_back(random_inputs(before, "chip" + std::to_string(chip)));
  const auto wanted = evaluate_spmd(before, mesh, inputs, ops::Rounding::none);
  const auto got = evaluate_spmd(after, mesh, inputs, ops::Rounding::none);
  for (size_t chip = 0; chip < 2; ++chip)
    for (const auto& [name, tensor] : wanted[chip])
      ASSERT_TRUE(is_close(got[chip].at(name), tensor, 0.0)) << name << "\n" << ir::print(after);
}

}  // namespace megacpp::testing_support
