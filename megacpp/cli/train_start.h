// SPDX-License-Identifier: Apache-2.0
// What is printed before step 0: a summary of about ten lines, or everything.
#pragma once

#include <string>

#include "megacpp/machine/runtime/executable.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/run/data/source.h"
#include "megacpp/run/launch/launch.h"

namespace megacpp::cli {

/// A line each for model, layout, hardware, plan, backend, data and schedule, and those of the backend's own settings.
std::string start_text(const launch::Launch& launch, const compile::Compiled& compiled,
                       const data::TokenSource& source);

/// Which processes have which chips, and on which hosts. Empty for a process alone.
std::string places_text(launch::Launch& launch, const ir::Mesh& mesh);

/// The resolved recipe and the whole memory plan.
std::string verbose_text(const launch::Launch& launch, const compile::Compiled& compiled);

/// What a plugin did with the program: compiled it, and why, or found it compiled; what runs it.
/// Empty for a backend without a compiler of its own.
std::string loaded_text(const recipe::Recipe& recipe, const runtime::Executable& run);

}  // namespace megacpp::cli
