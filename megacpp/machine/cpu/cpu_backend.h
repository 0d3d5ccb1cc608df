// SPDX-License-Identifier: Apache-2.0
// The CPU backend: what it runs (as data for the compiler) and how it loads a compiled run.
#pragma once

#include <memory>
#include <vector>

#include "megacpp/core/ir/mesh.h"
#include "megacpp/machine/collectives/transport.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/machine/runtime/executable.h"
#include "megacpp/machine/runtime/load_options.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/memory/chip_fit.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::runtime {

/// The record of the backend `cpu`.
Backend cpu_backend();

namespace cpu {

/// Rates of our own kernels.
HostRatesProbe host_rates_probe();

/// `threads` of one chip; `transport` says what its collectives need.
schedule::Target cpu_target(int threads, const collectives::Transport& transport = collectives::inproc_transport());

/// This machine as `chips` virtual chips; those of one process share its memory and its rates.
hw::Slice host_slice(int64_t chips, const Machine& machine);

/// `compiled` must outlive the executable, and was compiled for the same transport and as many threads of a chip as the
/// processes agree on: the least that any of them has for one. Obtains the zeroed arenas of the
/// local chips and prepares every kernel; a load that fails aborts the world, so that no process waits.
/// memory::OutOfMemory before anything is touched when a chip's plan exceeds its limit or all together the machine's
/// memory (E2001), and when the machine refuses it all the same (E2005).
std::unique_ptr<Executable> load(const compile::Compiled& compiled, const LoadOptions& options);

}  // namespace cpu
}  // namespace megacpp::runtime
