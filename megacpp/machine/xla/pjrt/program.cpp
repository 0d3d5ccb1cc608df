// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/program.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/xla/pjrt/client_state.h"

namespace megacpp::runtime::pjrt {
namespace {

void destroy_loaded(const Api& api, void* object) noexcept {
  auto args = MEGACPP_PJRT_ARGS(PJRT_LoadedExecutable_Destroy);
  args.executable = static_cast<PJRT_LoadedExecutable*>(object);
  api.destroy(&PJRT_Api::PJRT_LoadedExecutable_Destroy, args);
}

CompiledProgram compiled_of(const Handle& loaded) {
  auto args = MEGACPP_PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable);
  args.loaded_executable = as<PJRT_LoadedExecutable>(loaded);
  loaded.api().call(&PJRT_Api::PJRT_LoadedExecutable_GetExecutable, args, Phase::query);
  return CompiledProgram(own_executable(loaded.api(), args.executable, loaded.client()));
}

std::vector<size_t> device_indices(const Handle& loaded) {
  const ClientState& client = *loaded.client();
  auto args = MEGACPP_PJRT_ARGS(PJRT_LoadedExecutable_AddressableDevices);
  args.executable = as<PJRT_LoadedExecutable>(loaded);
  client.api().call(&PJRT_Api::PJRT_LoadedExecutable_AddressableDevices, args, Phase::query);
  std::vector<size_t> indices;
  for (size_t i = 0; i < args.num_addressable_devices; ++i) {
    const auto found = std::find(client.devices.begin(), client.devices.end(), args.addressable_devices[i]);
    MEGACPP_CHECK(found != client.devices.end()) << "a program runs on a device that its client does not have";
    indices.push_back(static_cast<size_t>(found - client.devices.begin()));
  }
  return indices;
}

}  // namespace

void Execution::await() const {
  if (done.empty()) return;
  done[0].client()->count([](Counters& counters) { counters.host_syncs += 1; });
  for (const Handle& event : done) {
    auto args = MEGACPP_PJRT_ARGS(PJRT_Event_Await);
    args.event = as<PJRT_Event>(event);
    event.api().call(&PJRT_Api::PJRT_Event_Await, args, Phase::execute);
  }
}

LoadedProgram::LoadedProgram(Handle loaded)
    : loaded_(std::move(loaded)), compiled_(compiled_of(loaded_)), devices_(device_indices(loaded_)) {}

Execution LoadedProgram::execute(std::span<const std::vector<const Buffer*>> arguments) const {
  const std::shared_ptr<ClientState>& client = loaded_.client();
  const Api& api = loaded_.api();
  const size_t num_devices = devices_.size();
  const auto num_outputs = static_cast<size_t>(compiled_.num_outputs());
  MEGACPP_CHECK(arguments.size() == num_devices)
      << arguments.size() << " argument lists for " << num_devices << " devices";
  std::vector<std::vector<PJRT_Buffer*>> inputs(num_devices);
  std::vector<std::vector<PJRT_Buffer*>> results(num_devices, std::vector<PJRT_Buffer*>(num_outputs));
  std::vector<PJRT_Buffer* const*> input_lists;
  std::vector<PJRT_Buffer**> result_lists;
  for (size_t d = 0; d < num_devices; ++d) {
    MEGACPP_CHECK(arguments[d].size() == arguments[0].size()) << "device " << d << " has another number of arguments";
    for (const Buffer* argument : arguments[d]) inputs[d].push_back(as<PJRT_Buffer>(argument->handle()));
    input_lists.push_back(inputs[d].data());
    result_lists.push_back(results[d].data());
  }
  std::vector<PJRT_Event*> events(num_devices);

  auto options = MEGACPP_PJRT_STRUCT(PJRT_ExecuteOptions);
  auto args = MEGACPP_PJRT_ARGS(PJRT_LoadedExecutable_Execute);
  args.executable = as<PJRT_LoadedExecutable>(loaded_);
  args.options = &options;
  args.argument_lists = input_lists.data();
  args.num_devices = num_devices;
  args.num_args = inputs[0].size();
  args.output_lists = result_lists.data();
  args.device_complete_events = events.data();
  api.call(&PJRT_Api::PJRT_LoadedExecutable_Execute, args, Phase::execute);
  client->count([](Counters& counters) { counters.executions += 1; });

  Execution execution;
  execution.outputs.resize(num_devices);
  for (size_t d = 0; d < num_devices; ++d) {
    for (PJRT_Buffer* result : results[d]) execution.outputs[d].emplace_back(own_buffer(api, result, client));
    execution.done.push_back(own_event(api, events[d], client));
  }
  return execution;
}

LoadedProgram compile(const Client& client, std::string_view stablehlo, const CompileOptions& options,
                      const std::string& cause) {
  const auto start = std::chrono::steady_clock::now();
  const std::shared_ptr<ClientState>& state = client.state();
  const Api& api = state->api();
  const std::string encoded = encode(options);
  auto program = stablehlo_program(stablehlo);
  auto args = MEGACPP_PJRT_ARGS(PJRT_Client_Compile);
  args.client = as<PJRT_Client>(state->client);
  args.program = &program;
  args.compile_options = encoded.data();
  args.compile_options_size = encoded.size();
  api.call(&PJRT_Api::PJRT_Client_Compile, args, Phase::compile);
  LoadedProgram result(Handle(api, args.executable, destroy_loaded, state));
  state->count([&](Counters& counters) {
    counters.compiles[cause] += 1;
    counters.compile_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  });
  return result;
}

LoadedProgram load_serialized(const Client& client, std::string_view bytes) {
  const std::shared_ptr<ClientState>& state = client.state();
  auto args = MEGACPP_PJRT_ARGS(PJRT_Executable_DeserializeAndLoad);
  args.client = as<PJRT_Client>(state->client);
  args.serialized_executable = bytes.data();
  args.serialized_executable_size = bytes.size();
  state->api().call(&PJRT_Api::PJRT_Executable_DeserializeAndLoad, args, Phase::load);
  return LoadedProgram(Handle(state->api(), args.loaded_executable, destroy_loaded, state));
}

}  // namespace megacpp::runtime::pjrt
