// SPDX-License-Identifier: Apache-2.0
// Whether a launcher of MPI has started this process, from the variables that launchers set: nothing is loaded to find
// out, and a program that was started alone never looks for MPI.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace megacpp::collectives {

struct MpiLaunch {
  int64_t process = 0;
  int64_t processes = 1;
  std::string launcher;   // "mpirun of OpenMPI", for messages
  std::string variables;  // that say so: "PMI_RANK and PMI_SIZE"
  std::string name = {};  // of the launch, which no other one of this machine has; empty: its launcher gives it none
  int64_t processes_here = 0;  // of them on this host; 0: its launcher does not say
};

/// `variable`: the value of one of the environment, empty where it is not set. None: started alone, or as the only one.
/// E3104 for values that are no numbers of processes, as a stale environment has them.
std::optional<MpiLaunch> find_mpi_launch(const std::function<std::string(const std::string& name)>& variable);

/// Of this process.
std::optional<MpiLaunch> mpi_launch();

/// E1007 where its processes cannot have as many chips each. Asks nobody, so that a launch need not be joined for it.
void require_even_shares(const MpiLaunch& launch, int64_t chips);

}  // namespace megacpp::collectives
