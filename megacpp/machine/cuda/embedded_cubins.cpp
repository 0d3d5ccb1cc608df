// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/embedded_cubins.h"

#include <algorithm>

namespace megacpp::runtime::cuda {

std::span<const std::byte> embedded_cubin(std::string_view name) {
  const auto at = std::ranges::find(embedded_cubins(), name, &EmbeddedCubin::name);
  return at == embedded_cubins().end() ? std::span<const std::byte>() : at->code;
}

std::vector<std::string_view> missing_cubins() {
  std::vector<std::string_view> names;
  for (const EmbeddedCubin& cubin : embedded_cubins())
    if (cubin.code.empty()) names.push_back(cubin.name);
  return names;
}

}  // namespace megacpp::runtime::cuda
