// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/environment.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "megacpp/core/base/error.h"

namespace megacpp::base {
namespace {

constexpr auto kKnown = std::to_array<std::string_view>({
#define MEGACPP_VARIABLE(name, held, how) #name,
#include "megacpp/core/base/environment_variables.inc"
#undef MEGACPP_VARIABLE
});
static_assert(std::ranges::is_sorted(kKnown));

}  // namespace

void require_known_variable(std::string_view name) {
  MEGACPP_CHECK(std::ranges::binary_search(kKnown, name))
      << name << " is not in base/environment_variables.inc, which says how the processes of a run hold a variable";
}

std::string environment_variable(const std::string& name) {
  require_known_variable(name);
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

}  // namespace megacpp::base
