// SPDX-License-Identifier: Apache-2.0
// Devices that need not be here: a slice known by name, to compile for. What is compiled for it can be asked about and
// serialized, not run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "megacpp/machine/xla/pjrt/compile_options.h"
#include "megacpp/machine/xla/pjrt/compiled_program.h"
#include "megacpp/machine/xla/pjrt/device_description.h"
#include "megacpp/machine/xla/pjrt/handle.h"
#include "megacpp/machine/xla/pjrt/plugin.h"

namespace megacpp::runtime::pjrt {

class Topology {
 public:
  /// For libtpu names are "v6e:4x4"; options chips_per_host_bounds and wrap are lists of three. E1506 when the plugin
  /// does not know the name, E1505 when it makes no topologies at all.
  Topology(const Plugin& plugin, const std::string& name, const std::vector<NamedValue>& options = {});

  std::string platform_name() const;
  std::string platform_version() const;
  const std::vector<DeviceDescription>& devices() const { return devices_; }

  CompiledProgram compile(std::string_view stablehlo, const CompileOptions& options) const;

 private:
  Handle topology_;
  std::vector<DeviceDescription> devices_;
};

}  // namespace megacpp::runtime::pjrt
