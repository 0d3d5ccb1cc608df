// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/blocks/lora.h"

#include <algorithm>
#include <cmath>

#include "megacpp/core/base/error.h"

namespace megacpp::blocks {
namespace {

bool is_projection(const Parameter& parameter) {
  return parameter.letter != 0 && parameter.kind == ParameterKind::matrix;
}

// With the deviation of the uniform distribution in [-1, 1] / sqrt(in), from which linear layers commonly start.
Init start_of_a(int64_t in) { return Init::normal(1.0 / std::sqrt(3.0 * static_cast<double>(in))); }

}  // namespace

bool is_adapter(std::string_view parameter) { return parameter.ends_with(kLoraA) || parameter.ends_with(kLoraB); }

bool has_adapters(const Lora& lora, const Parameter& parameter) {
  return lora.is_on() && is_projection(parameter) &&
         std::ranges::any_of(lora.targets,
                             [&parameter](const std::string& target) { return name_matches(target, parameter.name); });
}

std::vector<Parameter> adapters_of(const Lora& lora, const Parameter& matrix) {
  const size_t rank = matrix.shape.size();
  MEGACPP_CHECK(rank >= 2 && matrix.dims.size() == rank) << matrix.name << " is no matrix";
  Parameter a{.name = matrix.name + std::string(kLoraA),
              .shape = matrix.shape,
              .dims = matrix.dims,
              .init = start_of_a(matrix.shape[rank - 2]),
              .letter = matrix.letter};
  Parameter b{.name = matrix.name + std::string(kLoraB),
              .shape = matrix.shape,
              .dims = matrix.dims,
              .init = Init::zeros(),
              .letter = matrix.letter};
  a.shape[rank - 1] = b.shape[rank - 2] = lora.rank;
  a.dims[rank - 1] = b.dims[rank - 2] = Dim::whole;
  return {std::move(a), std::move(b)};
}

std::optional<std::string> unmatched_target(const Lora& lora, std::span<const Parameter> parameters) {
  for (const std::string& target : lora.targets)
    if (std::ranges::none_of(parameters, [&target](const Parameter& parameter) {
          return parameter.frozen && is_projection(parameter) && name_matches(target, parameter.name);
        }))
      return target;
  return std::nullopt;
}

}  // namespace megacpp::blocks
