// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/topology.h"

#include "megacpp/machine/xla/pjrt/api.h"

namespace megacpp::runtime::pjrt {
namespace {

void destroy_topology(const Api& api, void* object) noexcept {
  auto args = MEGACPP_PJRT_ARGS(PJRT_TopologyDescription_Destroy);
  args.topology = static_cast<PJRT_TopologyDescription*>(object);
  api.destroy(&PJRT_Api::PJRT_TopologyDescription_Destroy, args);
}

Handle create_topology(const Api& api, const std::string& name, const std::vector<NamedValue>& options) {
  const std::vector<PJRT_NamedValue> arguments = named_arguments(options);
  auto args = MEGACPP_PJRT_ARGS(PJRT_TopologyDescription_Create);
  args.topology_name = name.data();
  args.topology_name_size = name.size();
  args.create_options = arguments.data();
  args.num_options = arguments.size();
  if (auto failure = api.try_call(&PJRT_Api::PJRT_TopologyDescription_Create, args)) {
    failure->message = "topology '" + name + "': " + failure->message;
    api.raise(std::move(*failure), Phase::create_topology);
  }
  return {api, args.topology, destroy_topology};
}

}  // namespace

Topology::Topology(const Plugin& plugin, const std::string& name, const std::vector<NamedValue>& options)
    : topology_(create_topology(plugin.api(), name, options)) {
  const Api& api = plugin.api();
  auto args = MEGACPP_PJRT_ARGS(PJRT_TopologyDescription_GetDeviceDescriptions);
  args.topology = as<PJRT_TopologyDescription>(topology_);
  api.call(&PJRT_Api::PJRT_TopologyDescription_GetDeviceDescriptions, args, Phase::query);
  for (size_t i = 0; i < args.num_descriptions; ++i) devices_.push_back(describe(api, args.descriptions[i]));
}

std::string Topology::platform_name() const {
  auto args = MEGACPP_PJRT_ARGS(PJRT_TopologyDescription_PlatformName);
  args.topology = as<PJRT_TopologyDescription>(topology_);
  topology_.api().call(&PJRT_Api::PJRT_TopologyDescription_PlatformName, args, Phase::query);
  return {args.platform_name, args.platform_name_size};
}

std::string Topology::platform_version() const {
  auto args = MEGACPP_PJRT_ARGS(PJRT_TopologyDescription_PlatformVersion);
  args.topology = as<PJRT_TopologyDescription>(topology_);
  topology_.api().call(&PJRT_Api::PJRT_TopologyDescription_PlatformVersion, args, Phase::query);
  return {args.platform_version, args.platform_version_size};
}

CompiledProgram Topology::compile(std::string_view stablehlo, const CompileOptions& options) const {
  const Api& api = topology_.api();
  const std::string encoded = encode(options);
  auto program = stablehlo_program(stablehlo);
  auto args = MEGACPP_PJRT_ARGS(PJRT_Compile);
  args.topology = as<PJRT_TopologyDescription>(topology_);
  args.program = &program;
  args.compile_options = encoded.data();
  args.compile_options_size = encoded.size();
  api.call(&PJRT_Api::PJRT_Compile, args, Phase::compile);
  return CompiledProgram(own_executable(api, args.executable));
}

}  // namespace megacpp::runtime::pjrt
