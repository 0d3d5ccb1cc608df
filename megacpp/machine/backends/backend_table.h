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

/// The same of virtual chips of this machine.
const Backend& backend_here(std::string_view wanted);

/// The one that the recipe names; E1505 with what to set instead for what it cannot run.
const Backend& backend_that_runs(const recipe::Recipe& recipe);

/// What estimates of what runs on this backend are compiled for.
schedule::Target estimate_target(const Backend& backend, const recipe::RunRequest& request, const TargetMesh& mesh);

/// With all chips in this process, of a backend that can run what is requested. A fault that is asked for while
/// compiling is raised when loading, on every backend.
schedule::Target target_on(const Backend& backend, const recipe::RunRequest& request, const ir::Mesh& mesh);
std::unique_ptr<Executable> load_on(const Backend& backend, const recipe::RunRequest& request,
                                    const compile::Compiled& compiled, const LoadOptions& options);

}  // namespace megacpp::runtime
