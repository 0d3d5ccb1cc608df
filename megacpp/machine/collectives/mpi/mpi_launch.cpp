// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/mpi/mpi_launch.h"

#include <array>
#include <charconv>

#include "megacpp/core/base/environment.h"
#include "megacpp/core/base/error.h"

namespace megacpp::collectives {
namespace {

/// How a launcher tells a process its number and how many there are.
struct MpiLauncher {
  const char* name;
  const char* process;
  const char* processes;
  const char* launch_name;     // empty: it gives none
  const char* processes_here;  // on this host; empty: it does not say
};

// The first whose variables are both there. srun sets its own in any case, also where it starts no MPI: only together
// with those of PMIx or PMI do they mean one.
constexpr std::array kLaunchers = {
    MpiLauncher{"mpirun of OpenMPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE",
                "OMPI_COMM_WORLD_LOCAL_SIZE"},
    MpiLauncher{"mpiexec of MPICH", "PMI_RANK", "PMI_SIZE", "PMI_JOBID", "MPI_LOCALNRANKS"},
    MpiLauncher{"srun with PMIx", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "PMIX_NAMESPACE", ""},
};

std::optional<int64_t> number_in(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::optional<MpiLaunch> find_mpi_launch(const std::function<std::string(const std::string& name)>& variable) {
  for (const MpiLauncher& launcher : kLaunchers) {
    const std::string process = variable(launcher.process), processes = variable(launcher.processes);
    if (process.empty() || processes.empty()) continue;
    const std::optional<int64_t> number = number_in(process), count = number_in(processes);
    MEGACPP_REQUIRE(
        number && count && *number >= 0 && *number < *count, E3104,
        ({.where = launcher.name,
          .got = std::string(launcher.process) + "=" + process + ", " + launcher.processes + "=" + processes,
          .wanted = "the number of a process and how many there are",
          .next = "unset these variables, which a launcher has left behind, or start again with mpirun"}));
    if (*count == 1) return std::nullopt;
    const auto value = [&variable](const char* name) { return *name == '\0' ? std::string() : variable(name); };
    return MpiLaunch{.process = *number,
                     .processes = *count,
                     .launcher = launcher.name,
                     .variables = std::string(launcher.process) + " and " + launcher.processes,
                     .name = value(launcher.launch_name),
                     .processes_here = number_in(value(launcher.processes_here)).value_or(0)};
  }
  return std::nullopt;
}

std::optional<MpiLaunch> mpi_launch() { return find_mpi_launch(base::environment_variable); }

void require_even_shares(const MpiLaunch& launch, int64_t chips) {
  MEGACPP_REQUIRE(chips % launch.processes == 0, E1007,
                  ({.where = launch.launcher,
                    .got = std::to_string(launch.processes) + " processes for " + std::to_string(chips) + " chips",
                    .wanted = "as many chips for every process",
                    .next = "start a number of processes that divides the chips of the layout; where no launcher has "
                            "started this one, unset " +
                            launch.variables + ", which one has left behind"}));
}

}  // namespace megacpp::collectives
