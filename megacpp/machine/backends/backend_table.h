// SPDX-License-Identifier: Apache-2.0
// The backends of this build, by name and by the chips they run on, and what is done with the one that a recipe names.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "megacpp/machine/runtime/backend.h"

namespace megacpp::runtime {

/// In the order of backend_list.inc.
const std::vector<Backend>& all_backends();

/// E1003 for a name that is none, with those there are.
const Backend& backend_named(std::string_view name);

/// The one that runs on such chips: `wanted`, or else the first that does. E1505 where none does.
const Backend& backend_on(hw::ChipKind kind, std::string_view wanted,
                          const std::vector<Backend>& backends = all_backends());

/// E1505 with what to set instead, for a recipe that its backend cannot run.
void require_supported(const recipe::Recipe& recipe);

/// What estimates of a recipe that runs on this backend are compiled for.
schedule::Target estimate_target(const Backend& backend, const recipe::Recipe& recipe, const TargetMesh& mesh);

/// With the backend that the recipe names, or a given one, all chips in this process. A fault that is asked for while
/// compiling is raised when loading, on every backend; E1505 for what the backend cannot run.
schedule::Target target_for(const recipe::Recipe& recipe, const ir::Mesh& mesh);
schedule::Target target_on(const Backend& backend, const recipe::Recipe& recipe, const ir::Mesh& mesh);
std::unique_ptr<Executable> load_for(const recipe::Recipe& recipe, const compile::Compiled& compiled,
                                     const LoadOptions& options);
std::unique_ptr<Executable> load_on(const Backend& backend, const recipe::Recipe& recipe,
                                    const compile::Compiled& compiled, const LoadOptions& options);

}  // namespace megacpp::runtime
