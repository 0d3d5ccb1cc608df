// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/backends/backend_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/suggest.h"
#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/machine/cuda/cuda_backend.h"
#include "megacpp/machine/runtime/fault_injection.h"
#include "megacpp/machine/xla/xla_backend.h"

namespace megacpp::runtime {

const std::vector<Backend>& all_backends() {
  static const std::vector<Backend> backends = {
#define MEGACPP_BACKEND(name, doc) name##_backend(),
#include "megacpp/program/recipe/backend_list.inc"
#undef MEGACPP_BACKEND
  };
  return backends;
}

const Backend& backend_named(std::string_view name) {
  const auto at = std::ranges::find(all_backends(), name, &Backend::name);
  if (at != all_backends().end()) return *at;
  std::vector<std::string> names;
  for (const Backend& backend : all_backends()) names.push_back(backend.name);
  std::string list;
  for (const std::string& each : names) list += (list.empty() ? "" : ", ") + each;
  base::raise(base::Code::E1003, {.where = "backend",
                                  .got = fmt::format("'{}'", name),
                                  .wanted = "one of " + list,
                                  .next = base::did_you_mean(name, names, "use one of these, or build with it")});
}

const Backend& backend_on(hw::ChipKind kind, std::string_view wanted, const std::vector<Backend>& backends) {
  const auto runs_there = [kind](const Backend& backend) {
    return std::ranges::find(backend.runs_on, kind) != backend.runs_on.end();
  };
  for (const Backend& backend : backends)
    if (backend.name == wanted && runs_there(backend)) return backend;
  const auto first = std::ranges::find_if(backends, runs_there);
  const std::string chip(hw::to_string(kind));
  MEGACPP_REQUIRE(first != backends.end(), E1505,
                  {.where = "hardware",
                   .got = "a " + chip,
                   .wanted = "hardware that a backend of this build runs on",
                   .next = "name other hardware, or use a build with a backend for a " + chip});
  return *first;
}

const Backend& backend_here(std::string_view wanted) { return backend_on(hw::ChipKind::host, wanted); }

const Backend& backend_that_runs(const recipe::Recipe& recipe) {
  const Backend& backend = backend_named(recipe.backend);
  recipe::require_supported(backend.cannot_run, backend.name, recipe);
  return backend;
}

schedule::Target estimate_target(const Backend& backend, const recipe::RunRequest& request, const TargetMesh& mesh) {
  return (backend.estimates_with.empty() ? backend : backend_named(backend.estimates_with)).target(request, mesh);
}

schedule::Target target_on(const Backend& backend, const recipe::RunRequest& request, const ir::Mesh& mesh) {
  return backend.target(request, mesh_here(request, mesh.chips()));
}

std::unique_ptr<Executable> load_on(const Backend& backend, const recipe::RunRequest& request,
                                    const compile::Compiled& compiled, const LoadOptions& options) {
  raise_faults(options.faults, memory::OomClass::compile, compiled, options.limits);
  return backend.load(request, compiled, options);
}

}  // namespace megacpp::runtime
