// SPDX-License-Identifier: Apache-2.0
// What XLA made of a step, for people and as JSON.
#pragma once

#include "megacpp/cli/json.h"
#include "megacpp/cli/xla_compile.h"

namespace megacpp::cli {

/// Where it was compiled, memory, cost and time.
void print_xla_report(const XlaCompilation& compilation);
/// XLA's collectives beside ours, those that differ marked.
void print_xla_collectives(const XlaCompilation& compilation);

/// Both.
Json xla_json(const XlaCompilation& compilation);

}  // namespace megacpp::cli
