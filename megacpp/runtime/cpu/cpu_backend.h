// SPDX-License-Identifier: Apache-2.0
// The CPU backend: what it runs (as data for the compiler) and how it loads a compiled run.
#pragma once

#include <memory>
#include <vector>

#include "megacpp/memory/memory_plan.h"
#include "megacpp/runtime/executable.h"
#include "megacpp/schedule/target.h"

namespace megacpp::runtime::cpu {

/// Threads available to this process.
int available_threads();

schedule::Target cpu_target(int threads);

struct LoadOptions {
  int threads = 1;
  bool profile = false;  // keep seconds per op
};

/// Obtains the arena (E3002 when the machine has no such memory), zeroes it and prepares every kernel.
std::unique_ptr<Executable> load(const std::vector<LoadedProgram>& programs, const memory::MemoryPlan& plan,
                                 const LoadOptions& options);

}  // namespace megacpp::runtime::cpu
