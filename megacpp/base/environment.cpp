// SPDX-License-Identifier: Apache-2.0
#include "megacpp/base/environment.h"

#include <cstdlib>

namespace megacpp::base {

std::string environment_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

}  // namespace megacpp::base
