// SPDX-License-Identifier: Apache-2.0
// Frames as messages of MPI: a few receives that are bound to their buffers once and started again and again, a few
// buffers to send from. As many bytes for any number of processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/mpi/mpi_launch.h"
#include "megacpp/machine/collectives/mpi/mpi_plugin.h"
#include "megacpp/machine/collectives/processes/endpoint.h"

namespace megacpp::collectives {

/// Starts MPI, if it is not started, which waits there for all processes of the launch. Where they have not come within
/// the limit, `on_late` is called with E3102, on another thread: it must end the process, which cannot leave MPI. E3104
/// as mpi_endpoint().
void start_mpi_within(const MpiLaunch& launch, std::chrono::milliseconds limit,
                      const std::function<void(const base::Error& error)>& on_late);

/// Of this process in the run that a launcher has started. The n-th endpoints that processes make belong together, and
/// making one waits for nobody. E3104 where MPI cannot be had, or is another than the launcher's.
std::unique_ptr<Endpoint> mpi_endpoint(const MpiLaunch& launch);

/// What MPI said of this process when it was started.
struct MpiProcess {
  int64_t process = 0;
  int64_t processes = 1;
  std::string host;
};
/// Over a table that has been started. `tag`: the same for the endpoints that belong together, and no others.
std::unique_ptr<Endpoint> make_mpi_endpoint(const MegacppMpi& mpi, const MpiProcess& process, int tag);

}  // namespace megacpp::collectives
