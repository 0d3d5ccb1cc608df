// SPDX-License-Identifier: Apache-2.0
// LoRA (Hu et al. 2021): beside a frozen matrix W [in, out] stand two small ones that are trained instead of it, and
// x W becomes x W + alpha / rank * (x A) B. B starts at zero, so that training starts from the base to the bit. A
// matrix per expert or head, [count, in, out], has as many pairs. Which parameters have adapters and what these are is
// said here; blocks::project computes with them, whatever the family.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/program/blocks/parameter.h"

namespace megacpp::blocks {

struct Lora {
  int64_t rank = 0;  // 0: no adapters, everything is trained
  double alpha = 16;
  /// Patterns of names (see name_matches) of the matrices that have adapters.
  std::vector<std::string> targets = {"block*"};

  bool is_on() const { return rank > 0; }
  double scale() const { return alpha / static_cast<double>(rank); }
  bool operator==(const Lora&) const = default;
};

/// Appended to the name of a matrix: A [.., in, rank] and B [.., rank, out].
inline constexpr std::string_view kLoraA = ".lora_A";
inline constexpr std::string_view kLoraB = ".lora_B";
static_assert(kLoraA.size() == kLoraB.size());

/// By its name.
bool is_adapter(std::string_view parameter);

/// Whether the parameter, by its full name, has adapters: a matrix of a block that some target names.
bool has_adapters(const Lora& lora, const Parameter& parameter);

/// A and B of a matrix. Each is split as the matrix is on its side, the rank never is.
std::vector<Parameter> adapters_of(const Lora& lora, const Parameter& matrix);

/// The first target that names no frozen matrix of a block among these parameters.
std::optional<std::string> unmatched_target(const Lora& lora, std::span<const Parameter> parameters);

}  // namespace megacpp::blocks
