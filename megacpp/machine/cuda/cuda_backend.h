// SPDX-License-Identifier: Apache-2.0
// The CUDA backend: what it runs (as data for the compiler, on machines without a GPU too) and how it loads a compiled
// run. The chips of a process that has all of them are spread over the GPUs that it sees; one of several processes has
// a GPU of its own.
#pragma once

#include <memory>

#include "megacpp/machine/collectives/transport.h"
#include "megacpp/machine/cuda/embedded_cubins.h"
#include "megacpp/machine/cuda/library.h"
#include "megacpp/machine/cuda/toolbox.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/machine/runtime/executable.h"
#include "megacpp/machine/runtime/load_options.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::runtime {

/// The record of the backend `cuda`.
Backend cuda_backend();

namespace cuda {

/// `chips` of the mesh; `transport` says how processes are joined.
schedule::Target cuda_target(int64_t chips = 1,
                             const collectives::Transport& transport = collectives::inproc_transport());

/// What a run goes through beside this program: tests bring their own.
struct LoadParts {
  LibrarySearch libraries = {};
  FindCubin find_cubin = embedded_cubin;
};

/// `compiled` must outlive the executable. Obtains the zeroed arenas of the local chips and prepares every kernel; a
/// load that fails aborts the world, so that no process waits. E1508 without a GPU, E1509 without a library that a
/// kernel needs, E1505 for a kernel that this build lacks, and for GPUs of this process that are of different kinds or
/// have no peer access to each other. memory::OutOfMemory before anything is obtained when a chip's plan exceeds its
/// limit or those of a GPU together its free memory, or what they keep on the host that of the machine (E2001), and
/// when the GPU or the host refuses it all the same (E2003, E2005), or the GPU what NCCL keeps there to connect
/// processes, which is done here too. E3103 where processes, or GPUs of one, would compute their products by different
/// algorithms.
std::unique_ptr<Executable> load(const compile::Compiled& compiled, const LoadOptions& options,
                                 const LoadParts& parts = {});

}  // namespace cuda
}  // namespace megacpp::runtime
