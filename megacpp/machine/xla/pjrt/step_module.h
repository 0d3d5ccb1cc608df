// SPDX-License-Identifier: Apache-2.0
// What a compiled run is to XLA: the module of its step, the options to compile it with, and the client it runs on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "megacpp/machine/xla/pjrt/client.h"
#include "megacpp/machine/xla/pjrt/compile_options.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/emit/module.h"

namespace megacpp::runtime::pjrt {

struct ModuleOptions {
  emit::Placement placement = emit::Placement::megacpp;
  std::filesystem::path plugin;  // its kind decides what its compiler can take
  bool has_loops = true;         // over blocks that repeat
};

/// `compiled` was made for xla_target(placement). No pipeline, which the backend's record refuses.
emit::Module module_of(const compile::Compiled& compiled, const ModuleOptions& options);

/// One partition a chip, on the first of these devices in their order.
CompileOptions options_for(std::span<const DeviceDescription> devices, int64_t chips,
                           std::map<std::string, FlagValue> flags);
/// One partition a chip, each on the device of this id.
CompileOptions options_on(std::vector<int64_t> device_ids, std::map<std::string, FlagValue> flags);

/// To compile with, the chips in this process. E1504 when the plugin has too few devices.
Client client_for(const Plugin& plugin, int64_t chips);

}  // namespace megacpp::runtime::pjrt
