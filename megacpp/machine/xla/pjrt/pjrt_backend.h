// SPDX-License-Identifier: Apache-2.0
// XLA as a backend: what it takes from the compiler, and a compiled run loaded on the devices of a PJRT plugin.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "megacpp/machine/runtime/executable.h"
#include "megacpp/machine/runtime/load_options.h"
#include "megacpp/machine/xla/pjrt/compile_options.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/emit/module.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::runtime::pjrt {

/// Calls of cuDNN for composites such as attention.
struct CudnnCalls {
  bool are_wanted = false;  // a composite that becomes none is a fallback
  bool can_be = false;      // else none does
};

/// Composites are decomposed, or become loops, but for attention where the plugin calls cuDNN for it; order, fusion and
/// memory are XLA's, with placement `xla` the collectives too.
schedule::Target xla_target(emit::Placement placement, const CudnnCalls& cudnn = {});

/// What XLA needs beside the options of all backends.
struct PluginOptions {
  emit::Placement placement = emit::Placement::megacpp;
  std::filesystem::path plugin;
  bool has_loops = true;  // over blocks that repeat
  std::map<std::string, FlagValue> flags = {};
  std::filesystem::path cache = {};  // of compiled programs; empty: none
};

/// `compiled` was made for xla_target() and must outlive the executable. One step is one program: state stays on the
/// devices, and so do outputs until they are fetched. E2001 when what XLA needs exceeds a chip's limit, or what the
/// plugin's client says it has of the chip. E1505 for values to be checked, for a fetched output that the step does not
/// leave, and for a plugin that joins no processes where the transport has several; then programs come from no cache.
/// E1504 when the plugin has too few devices, E3001 for a cache that cannot be written; errors of the plugin as in
/// status.h.
std::unique_ptr<Executable> load(const compile::Compiled& compiled, const PluginOptions& plugin,
                                 const LoadOptions& options = {});

}  // namespace megacpp::runtime::pjrt
