// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/unsupported.h"

#include "megacpp/core/base/error.h"

namespace megacpp::recipe {

std::optional<Unsupported> unsupported_offload(const Recipe& recipe, const std::string& reason) {
  const Offload offload = recipe.layout.offload;
  if (offload == Offload::none) return std::nullopt;
  return Unsupported{.setting = "layout.offload: " + std::string(base::text_of(offload)),
                     .reason = reason,
                     .instead = "layout.offload: none"};
}

void require_supported(const FindUnsupported& find, const std::string& backend, const Recipe& recipe) {
  const std::optional<Unsupported> found = find ? find(recipe) : std::nullopt;
  if (!found) return;
  base::raise(base::Code::E1505, {.where = found->setting,
                                  .got = "backend " + backend,
                                  .wanted = "what it can run: " + found->reason,
                                  .next = "set " + found->instead + ", or use another backend"});
}

}  // namespace megacpp::recipe
