// SPDX-License-Identifier: Apache-2.0
// Variables of the environment. Nothing is kept: each call asks for what is set now.
#pragma once

#include <string>

namespace megacpp::base {

/// Empty where it is not set.
std::string environment_variable(const std::string& name);

}  // namespace megacpp::base
