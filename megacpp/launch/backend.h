// SPDX-License-Identifier: Apache-2.0
// The backend a recipe names: what the compiler must know of it, and how it loads what was compiled.
#pragma once

#include <memory>

#include "megacpp/compile/compile.h"
#include "megacpp/plan/plan.h"
#include "megacpp/recipe/recipe.h"
#include "megacpp/runtime/cpu/cpu_backend.h"
#include "megacpp/runtime/executable.h"
#include "megacpp/runtime/plugins/flags.h"
#include "megacpp/schedule/target.h"

namespace megacpp::launch {

/// recipe.train.threads, or all cores when it is 0.
int threads_for(const recipe::Recipe& recipe);

/// Before each flag where they are printed.
inline constexpr std::string_view kFlagLabel = "flag       ";
/// The flags that a recipe gives to XLA, checked: E1507.
runtime::plugins::ResolvedFlags xla_flags(const recipe::Recipe& recipe);

schedule::Target target_for(const recipe::Recipe& recipe, const ir::Mesh& mesh);

/// The faults a recipe asks for.
runtime::Faults faults_for(const recipe::Recipe& recipe);

/// `options` is what the CPU backend takes; XLA takes none of it. Limits and faults come from the recipe, for both.
/// memory::OutOfMemory when it does not fit or an injected fault is for compiling or loading; E1505 where this build
/// has no XLA lane.
std::unique_ptr<runtime::Executable> load_for(const recipe::Recipe& recipe, const compile::Compiled& compiled,
                                              const runtime::cpu::LoadOptions& options);

}  // namespace megacpp::launch
