// SPDX-License-Identifier: Apache-2.0
// The machines of a run's processes, and what a plan must know of them: which chips each has, by the dealing of the
// mesh that is planned, and what it has free beside the memory of its devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/hardware/fit/fit_report.h"

namespace megacpp::launch {

/// What a process says of its machine.
struct ProcessHost {
  std::string machine;     // as runtime::machine_identity() has it
  std::string name;        // of the host, for people
  int64_t free_bytes = 0;  // beside the memory of devices
};

struct RunHost {
  std::string name;
  std::vector<int64_t> processes;  // ascending
  int64_t free_bytes = 0;          // the least that one of them sees

  bool operator==(const RunHost&) const = default;
};
/// In the order of their first processes.
std::vector<RunHost> run_hosts(const std::vector<ProcessHost>& processes);

/// For the plan of a run over those. Meshes have a multiple of as many chips as there are processes.
fit::Hosts planned_hosts(const std::vector<RunHost>& hosts);

}  // namespace megacpp::launch
