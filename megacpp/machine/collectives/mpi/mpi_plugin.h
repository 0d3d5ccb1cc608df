// SPDX-License-Identifier: Apache-2.0
// What the program needs of MPI, as a table of plain functions. Types and constants of MPI differ between its libraries
// (a communicator is a pointer in OpenMPI, a number in MPICH), so libmegacpp_mpi.so alone is compiled with the header
// of the one that is installed. The program loads it at run time where a launcher of MPI has started it, and is the
// same without. Functions return 0, or an error that error_text() explains; none throws.
#pragma once

#include <cstdint>

extern "C" {

struct MegacppMpi {
  uint32_t version;  // of this table
  /// Starts MPI for calls from several threads. Null: it runs; otherwise why it does not.
  const char* (*start)(int* process, int* processes, char* host, int host_bytes);
  /// "Open MPI v4.1.4, ...": what was loaded.
  void (*library)(char* text, int bytes);

  void* (*make_request)();
  /// Also of one that is not done.
  void (*free_request)(void* request);
  /// The same buffer for every message with this tag that is received with it, from any process.
  int (*bind_receive)(void* request, void* buffer, int bytes, int tag);
  int (*start_receive)(void* request);
  /// The buffer must not change until test() says that it is done.
  int (*send)(void* request, const void* buffer, int bytes, int process, int tag);
  /// `process` and `bytes` of what was received.
  int (*test)(void* request, int* is_done, int* process, int* bytes);

  void (*error_text)(int error, char* text, int bytes);
  /// Once, at the end of the program; waits for all processes.
  void (*finish)();
};

/// The table of the plugin.
using MegacppMpiTable = const MegacppMpi* (*)();

}  // extern "C"

namespace megacpp::collectives {

inline constexpr uint32_t kMpiTableVersion = 1;
inline constexpr const char* kMpiTableSymbol = "megacpp_mpi_table";

}  // namespace megacpp::collectives
