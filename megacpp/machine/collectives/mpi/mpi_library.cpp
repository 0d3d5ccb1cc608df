// SPDX-License-Identifier: Apache-2.0
// The plugin, loaded and started once in a process, and ended with it.
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include "megacpp/core/base/environment.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/path.h"
#include "megacpp/machine/collectives/mpi/mpi_attendance.h"
#include "megacpp/machine/collectives/mpi/mpi_endpoint.h"

namespace megacpp::collectives {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPluginFile = "libmegacpp_mpi.so";
// For the other processes at the end: the first one may still write what a run leaves; after a failure nobody is
// worth waiting for.
constexpr std::chrono::milliseconds kFinishLimit(600000), kFailedLimit(500);

[[noreturn]] void no_mpi(const MpiLaunch& launch, const std::string& where, const std::string& got) {
  base::raise(base::Code::E3104, {.where = where,
                                  .got = got,
                                  .wanted = "the MPI that has started this process (" + launch.launcher + ")",
                                  .next = "build with that MPI's headers (./run mpi does); where no launcher has "
                                          "started it, unset " +
                                          launch.variables + ", which one has left behind"});
}

// Beside the program where it was built, in the folder of libraries where it was installed.
fs::path plugin_file(const MpiLaunch& launch) {
  const fs::path program = base::canonical("/proc/self/exe").parent_path();
  for (const fs::path& folder : {program, program.parent_path() / MEGACPP_LIBRARY_FOLDER})
    if (base::exists(folder / kPluginFile)) return folder / kPluginFile;
  no_mpi(launch, (program / kPluginFile).string(), "no such file: this program was built where no MPI was found");
}

const MegacppMpi& loaded_table(const MpiLaunch& launch) {
  const fs::path file = plugin_file(launch);
  const auto loader_words = [] {
    const char* const words = ::dlerror();
    return std::string(words == nullptr ? "the loader gave no reason" : words);
  };
  // Global: OpenMPI loads parts of its own, which look for the symbols of the library.
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) no_mpi(launch, file.string(), loader_words());
  void* const symbol = ::dlsym(library, kMpiTableSymbol);
  if (symbol == nullptr) no_mpi(launch, file.string(), loader_words());
  const MegacppMpi* const table = reinterpret_cast<MegacppMpiTable>(symbol)();
  if (table->version != kMpiTableVersion)
    no_mpi(launch, file.string(), "a plugin of another build: table version " + std::to_string(table->version));
  return *table;
}

// MPI waits for all processes at the end. One that is gone must not keep the others: what the launcher then ends, it
// ends with the status of this one.
void finish_mpi(int status, void* table) {
  static std::atomic<bool> is_finished = false;
  try {
    std::thread([status] {
      std::this_thread::sleep_for(status == 0 ? kFinishLimit : kFailedLimit);
      if (!is_finished) ::_exit(status);
    }).detach();
  } catch (const std::system_error&) {  // without a limit on the wait, a process that has failed waits for nobody
    if (status != 0) ::_exit(status);
  }
  static_cast<const MegacppMpi*>(table)->finish();
  is_finished = true;
}

struct StartedMpi {
  const MegacppMpi& table;
  MpiProcess process;
};

// A process of MPICH's launcher that starts OpenMPI, or the other way round, is a run of one process each.
StartedMpi start_mpi(const MpiLaunch& launch) {
  const MegacppMpi& table = loaded_table(launch);
  int process = 0, processes = 1;
  std::array<char, 256> host = {}, library = {};
  if (const char* const why = table.start(&process, &processes, host.data(), static_cast<int>(host.size())))
    no_mpi(launch, "MPI", why);
  ::on_exit(finish_mpi, const_cast<MegacppMpi*>(&table));
  table.library(library.data(), static_cast<int>(library.size()));
  if (process != launch.process || processes != launch.processes)
    no_mpi(launch, library.data(),
           "process " + std::to_string(process) + " of " + std::to_string(processes) +
               ", where the launcher has started " + std::to_string(launch.process) + " of " +
               std::to_string(launch.processes));
  return {table, {.process = process, .processes = processes, .host = host.data()}};
}

const StartedMpi& started_mpi(const MpiLaunch& launch) {
  static const StartedMpi mpi = start_mpi(launch);
  return mpi;
}

}  // namespace

void start_mpi_within(const MpiLaunch& launch, std::chrono::milliseconds limit,
                      const std::function<void(const base::Error& error)>& on_late) {
  static MpiAttendance attendance(launch);
  start_within({.limit = limit,
                .look = [] { attendance.look(); },
                .on_late = [&] { on_late(late_error(launch, attendance.come(), limit)); }},
               [&launch] { started_mpi(launch); });
}

std::unique_ptr<Endpoint> mpi_endpoint(const MpiLaunch& launch) {
  const StartedMpi& mpi = started_mpi(launch);
  static std::atomic<int> made = 0;  // the same number in every process: they make their worlds together
  return make_mpi_endpoint(mpi.table, mpi.process, made++);
}

}  // namespace megacpp::collectives
