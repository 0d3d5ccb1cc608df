// SPDX-License-Identifier: Apache-2.0
// The XLA backend on the devices of the CPU plugin, for tests that derive from CpuPluginTest.
#pragma once

#include <filesystem>

#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/machine/xla/pjrt/pjrt_backend.h"
#include "megacpp/program/recipe/block_loops.h"

namespace megacpp::testing_support {

/// XLA is to compile fast here, not to make fast programs: a fourth of the time. Where a test loads a program twice, a
/// folder keeps what was compiled.
inline runtime::Backend xla_backend(emit::Placement placement, const std::filesystem::path& cache = {}) {
  runtime::Backend backend = runtime::backend_named("xla");
  backend.target = [placement](const recipe::RunRequest&, const runtime::TargetMesh&) {
    return runtime::pjrt::xla_target(placement);
  };
  backend.load = [placement, cache](const recipe::RunRequest& request, const compile::Compiled& compiled,
                                    const runtime::LoadOptions& options) {
    return runtime::pjrt::load(compiled,
                               {.placement = placement,
                                .plugin = MEGACPP_PJRT_CPU_PLUGIN,
                                .has_loops = request.has_block_loops,
                                .flags = {{"xla_backend_optimization_level", int64_t{0}},
                                          {"xla_cpu_use_fusion_emitters", false},
                                          {"xla_llvm_disable_expensive_passes", true}},
                                .cache = cache},
                               options);
  };
  return backend;
}

}  // namespace megacpp::testing_support
