// SPDX-License-Identifier: Apache-2.0
// Backends as `megacpp hw` prints them: what each is, on which chips it runs, how they exchange tensors, and whether it
// can run here.
#pragma once

#include <string>

#include "megacpp/cli/json.h"

namespace megacpp::cli {

std::string backends_text();
Json backends_json();

}  // namespace megacpp::cli
