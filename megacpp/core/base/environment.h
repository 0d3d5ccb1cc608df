// SPDX-License-Identifier: Apache-2.0
// Variables of the environment. Nothing is kept: each call asks for what is set now. All that are read stand in
// environment_variables.inc, since a run over several processes must know what each of them is to it.
#pragma once

#include <string>
#include <string_view>

namespace megacpp::base {

/// Empty where it is not set. E9001 for one that environment_variables.inc does not have.
std::string environment_variable(const std::string& name);

/// E9001 for a variable that environment_variables.inc does not have; for who reads a copy of the environment.
void require_known_variable(std::string_view name);

}  // namespace megacpp::base
