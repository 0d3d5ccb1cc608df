// SPDX-License-Identifier: Apache-2.0
// The degrees of a layout: how many chips share each thing. Their product is the number of chips.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "megacpp/program/recipe/recipe.h"

namespace megacpp::plan {

inline constexpr int64_t kMaxChips = int64_t{1} << 20;

struct Degree {
  std::string_view key;  // "layout.data_parallel"
  int64_t value = 1;
};

/// Data, expert, context, tensor, pipeline.
std::array<Degree, 5> degrees_of(const recipe::Layout& layout);

/// Beyond kMaxChips the number no longer matters: any number above it.
int64_t product_of_degrees(const recipe::Layout& layout);

}  // namespace megacpp::plan
