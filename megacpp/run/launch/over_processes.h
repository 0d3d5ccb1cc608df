// SPDX-License-Identifier: Apache-2.0
// A launch that a launcher of MPI has started in several processes: which of them speaks, what cannot run so, and where
// chips are placed. For a process that was started alone nothing changes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/decision.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/mesh.h"
#include "megacpp/machine/collectives/transport.h"
#include "megacpp/machine/collectives/world.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::launch {

/// Whether this process prints and writes for all: the first of several, or the only one.
bool is_first_process();

/// E1007 for one of several processes, of a command that starts trainings as processes of its own.
void require_alone(const std::string& command, const std::string& next);

/// A world to agree in before step 0: processes take as long as they need there, up to start_limit(). One that does not
/// come, or does not answer, is waited for up to the limit.
collectives::WorldOptions world_of_start(int64_t chips, std::chrono::seconds limit);

/// The first that the processes of a launch do together: all have the same command, environment and program, whatever
/// comes of it later. `own`: fields of the command (run_inputs.h); the others are added. E3103 where they differ. Who
/// has not come within the limit is E3102, with which `on_late` ends the process where MPI itself waits for it.
void agree_on_command(std::vector<collectives::Field> own, std::chrono::seconds limit,
                      const std::function<void(const base::Error& error)>& on_late);

/// What the first process says, on all of them, before there is a recipe to launch; `say` is called there alone. Where
/// that throws, the other processes get E3101 with its words.
std::string from_first_process(std::string_view subject, const std::function<std::string()>& say);

/// Calls `body` on every process, for as long as it takes there. Where it throws on one, all end: that one with its
/// error, the others with E3101, which names the process, its host and the reason; E3102 for one that does not come, or
/// does not answer, within the limit.
void on_all_processes(std::string_view subject, std::chrono::seconds limit, const std::function<void()>& body);
/// The same in a world of theirs.
void on_all_processes(collectives::World& world, std::string_view subject, const std::function<void()>& body);

/// Whether the chips of a run of the recipe may be those of several processes; no, with the reason.
base::Decision joins_processes(const recipe::Recipe& recipe);
/// E1505 where they may not, or not as many of one process; E1007 where the processes of the launch cannot have as many
/// chips each.
void require_over_processes(const recipe::Recipe& recipe);

/// Between the processes of this launch, with sums as layout.collectives has them; inproc for a process alone.
collectives::Transport transport_for(const recipe::Recipe& recipe);

/// The chips of one process.
struct ProcessPlace {
  int64_t process = 0;
  std::string host;
  std::vector<int64_t> chips;
};
/// By process; `hosts` as World::hosts(): nothing where they are not known.
std::vector<ProcessPlace> process_places(const ir::Mesh& mesh, const std::vector<std::string>& hosts);
/// " on node8, process 1" for a chip; empty where hosts are not known.
std::string host_text(const std::vector<ProcessPlace>& places, int64_t chip);
/// "node7: chips 0, 1, 2, 3; node8: chips 4, 5, 6, 7"
std::string hosts_text(const std::vector<ProcessPlace>& places);

/// "4, started by mpirun of OpenMPI; model inside a process; data across". Empty for a process alone.
std::string processes_text(const ir::Mesh& mesh);

}  // namespace megacpp::launch
