// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/mpi/mpi_transport.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/inproc/inproc_world.h"
#include "megacpp/machine/collectives/mpi/mpi_endpoint.h"
#include "megacpp/machine/collectives/placement.h"
#include "megacpp/machine/collectives/processes/process_world.h"

namespace megacpp::collectives {
namespace {

/// Of the processes of this launch, once a world has joined them; worlds are made one after the other.
std::vector<std::string>& known_hosts() {
  static std::vector<std::string> hosts;
  return hosts;
}

std::unique_ptr<World> make_mpi_world(const WorldOptions& options, const Properties& properties) {
  const std::optional<MpiLaunch> launch = mpi_launch();
  if (!launch) return std::make_unique<InprocWorld>(options, properties);
  require_even_shares(*launch, options.chips);
  const ProcessWorld::Options own{
      .properties = properties,
      .owners = owners_of({.chips = options.chips, .processes = launch->processes, .order = options.order}),
      .wait_limit = options.wait_limit,
      .agreement_limit = options.agreement_limit,
      .answer_limit = options.answer_limit,
      .join_limit = options.join_limit,
      .hosts = known_hosts()};
  auto world = std::make_unique<ProcessWorld>(own, mpi_endpoint(*launch));
  known_hosts() = world->hosts();
  return world;
}

Transport mpi_transport_with(Sums sums) {
  const Properties properties = {
      .name = "mpi", .has_fixed_order_sums = sums == Sums::exact, .ordering = Ordering::host};
  return {.properties = properties,
          .doc = "processes that a launcher of MPI has started, each with some chips; alone without one",
          .workspace_bytes = terms_bytes,
          .make = [properties](const WorldOptions& options) { return make_mpi_world(options, properties); }};
}

}  // namespace

Transport mpi_transport() { return mpi_transport_with(Sums::exact); }

Transport transport_of_launch(Sums sums) { return mpi_launch() ? mpi_transport_with(sums) : inproc_transport(); }

}  // namespace megacpp::collectives
