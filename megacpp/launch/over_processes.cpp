// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/over_processes.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "megacpp/base/error.h"
#include "megacpp/collectives/mpi/mpi_launch.h"
#include "megacpp/collectives/mpi/mpi_transport.h"
#include "megacpp/collectives/placement.h"
#include "megacpp/runtime/backend.h"

namespace megacpp::launch {

bool is_first_process() {
  const std::optional<collectives::MpiLaunch> launch = collectives::mpi_launch();
  return !launch || launch->process == 0;
}

std::string from_first_process(std::string_view subject, const std::function<std::string()>& say) {
  const std::optional<collectives::MpiLaunch> launch = collectives::mpi_launch();
  if (!launch) return say();
  const std::unique_ptr<collectives::World> world =
      collectives::transport_of_launch().make({.chips = launch->processes});
  std::string said;
  try {
    if (world->is_coordinator()) said = say();
  } catch (const std::exception& error) {
    world->abort(world->local_chips().front(), error.what());
    throw;
  }
  return world->share(subject, said).front();
}

void require_over_processes(const recipe::Recipe& recipe) {
  const std::optional<collectives::MpiLaunch> launch = collectives::mpi_launch();
  if (!launch) return;
  const std::vector<std::string>& transports = runtime::backend_named(recipe.backend).transports;
  MEGACPP_REQUIRE(std::ranges::count(transports, std::string("mpi")) > 0, E1505,
                  ({.where = launch->launcher,
                    .got = fmt::format("{} processes for backend {}, which has one", launch->processes, recipe.backend),
                    .wanted = "a backend whose chips may be those of several processes",
                    .next = "set backend: cpu, or start megacpp alone"}));
}

std::string processes_text(const ir::Mesh& mesh) {
  const std::optional<collectives::MpiLaunch> launch = collectives::mpi_launch();
  if (!launch) return "";
  const std::vector<int64_t> owners = collectives::owners_of(
      {.chips = mesh.chips(), .processes = launch->processes, .order = collectives::dealing_order(mesh)});
  return fmt::format("{}, started by {}; {}", launch->processes, launch->launcher,
                     collectives::placement_text(mesh, owners));
}

}  // namespace megacpp::launch
