// SPDX-License-Identifier: Apache-2.0
// What --json prints: one object a command, whether it succeeds or fails. Files that make such objects include
// <nlohmann/json.hpp> by themselves: it is a large header.
#pragma once

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/json.h"

namespace megacpp::cli {

using base::Json;

/// The object of the command that runs. It is printed when the command ends, so that one which fails after all can say
/// so in it.
void print_json(const Json& object);

/// An error as an object: code, title, where, got, wanted, next and exit_status.
Json error_json(const base::Error& error);

/// Prints the object, if there is one; with an `error`, also without, and that under "error".
void end_json(const base::Error* error);

}  // namespace megacpp::cli
