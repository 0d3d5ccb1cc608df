// SPDX-License-Identifier: Apache-2.0
// One process of a run whose chips are a plugin's devices: its client is joined with those of the other processes, so
// that a program runs on the devices of all. In one process nothing is joined.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/key_values.h"
#include "megacpp/machine/collectives/world.h"
#include "megacpp/machine/plugins/gpu_shares.h"
#include "megacpp/machine/plugins/plugin_places.h"
#include "megacpp/machine/xla/pjrt/client.h"

namespace megacpp::runtime::pjrt {

struct ProcessPart {
  int64_t process = 0;
  std::vector<std::vector<int64_t>> chips = {};  // of every process, ascending
  plugins::GpuShare gpus = {};                   // of this one, where its client must be told
  /// By which clients find each other, for the life of the run; shared with the client. None: one process.
  std::shared_ptr<collectives::KeyValues> store = {};

  const std::vector<int64_t>& local_chips() const { return chips[static_cast<size_t>(process)]; }
};

/// The UUIDs of the GPUs that this process sees, in the plugin's order.
using SeenGpus = std::function<std::vector<std::string>()>;
/// By the driver, which the plugin goes through too; none where there is no driver: the plugin says so.
std::vector<std::string> gpus_by_driver();

/// All processes together, before the plugin is asked for devices. E1505 for a kind of plugin that joins none, E1504 as
/// plugins::gpu_shares().
ProcessPart join_processes(const std::shared_ptr<collectives::World>& world, plugins::PluginKind kind,
                           std::chrono::milliseconds limit, const SeenGpus& seen = gpus_by_driver);

/// What the plugin is asked for; E1504 when it has too few devices for this process.
ClientRequest request_for(const ProcessPart& part, plugins::PluginKind kind);
/// The same where nothing is run: its pool grows as compiling needs it, and leaves a run beside it the rest of the GPU.
ClientRequest request_to_compile(const ProcessPart& part, plugins::PluginKind kind);

/// The device of every chip, by chip, as ids of the plugin: each process has its own devices in the order of their ids.
/// Over processes they tell each other their numbers; `limit`: for that.
std::vector<int64_t> device_ids(const Client& client, const ProcessPart& part, std::chrono::milliseconds limit);

/// The same from what is known. `numbers`: what the plugin calls every process. E1505 where two have the same, because
/// the plugin has not joined them; E1504 where one has too few devices.
struct JoinedDevices {
  std::span<const DeviceDescription> all;
  const std::vector<std::vector<int64_t>>& chips;  // of every process
  std::vector<int> numbers;
};
std::vector<int64_t> ids_by_chip(const JoinedDevices& joined, const std::string& plugin);

}  // namespace megacpp::runtime::pjrt
