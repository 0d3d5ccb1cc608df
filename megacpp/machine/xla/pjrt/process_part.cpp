// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/process_part.h"

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

#include "megacpp/core/base/error.h"
#include "megacpp/hardware/hw/chip.h"
#include "megacpp/machine/cuda/gpu.h"
#include "megacpp/machine/runtime/fault_injection.h"
#include "megacpp/machine/xla/reserve.h"

namespace megacpp::runtime::pjrt {
namespace {

using plugins::OverProcesses;
using plugins::PluginKind;

std::string chips_words(const std::vector<int64_t>& chips) {
  std::string words;
  for (const int64_t chip : chips) words += std::to_string(chip) + " ";
  return words;
}

std::vector<int64_t> chips_in(const std::string& words) {
  std::istringstream stream(words);
  std::vector<int64_t> chips;
  for (int64_t chip = 0; stream >> chip;) chips.push_back(chip);
  return chips;
}

plugins::GpuShare divide_gpus(collectives::World& world, const SeenGpus& seen) {
  const plugins::GpusOfProcess own{.machine = host_name(), .gpus = seen(), .chips = std::ssize(world.local_chips())};
  return plugins::share_gpus(world, own);
}

// What the plugin calls every process.
std::vector<int> plugin_numbers(const Client& client, const ProcessPart& part, std::chrono::milliseconds limit) {
  const auto key = [](size_t process) { return "megacpp/number_of_process/" + std::to_string(process); };
  part.store->put(key(static_cast<size_t>(part.process)), std::to_string(client.process_index()));
  std::vector<int> numbers;
  for (size_t process = 0; process < part.chips.size(); ++process) {
    // A client is made in as long as its devices take. Where it waits for values as well, the store gives up.
    const auto begin = std::chrono::steady_clock::now();
    const std::chrono::milliseconds longest = collectives::start_limit(limit);
    const std::optional<std::string> number = part.store->get(key(process), longest);
    const bool has_hung = std::chrono::steady_clock::now() - begin >= longest;
    MEGACPP_REQUIRE(number.has_value(), E3102,
                    ({.where = "process " + std::to_string(part.process),
                      .got = (has_hung ? "waited " + std::to_string(longest.count()) + " ms"
                                       : "all processes have waited " + std::to_string(limit.count()) +
                                             " ms for values of each other, this one") +
                             " for the devices of process " + std::to_string(process),
                      .wanted = "a client of the plugin in every process",
                      .next = "look at that process; raise train.wait_limit if it is only slow"}));
    numbers.push_back(std::stoi(*number));
  }
  return numbers;
}

}  // namespace

std::vector<std::string> gpus_by_driver() {
  try {
    return cuda::visible_gpus(cuda::open_driver(cuda::driver_place({})));
  } catch (const base::Error& error) {
    if (error.code() != base::Code::E1508) throw;
    return {};
  }
}

ProcessPart join_processes(const std::shared_ptr<collectives::World>& world, PluginKind kind,
                           std::chrono::milliseconds limit, const SeenGpus& seen) {
  if (world->has_all_chips()) return {.chips = {world->local_chips()}};
  const base::Decision joins = plugins::joins_processes(kind);
  MEGACPP_REQUIRE(static_cast<bool>(joins), E1505,
                  ({.where = "xla.plugin",
                    .got = joins.reason(),
                    .wanted = "a plugin whose clients in several processes are one mesh",
                    .next = "set backend: cpu, take the cuda or tpu plugin, or start megacpp alone"}));
  ProcessPart part{.process = world->process()};
  for (const std::string& words : world->share("chips of a process", chips_words(world->local_chips())))
    part.chips.push_back(chips_in(words));
  if (plugins::info_of(kind).over_processes == OverProcesses::by_options) part.gpus = divide_gpus(*world, seen);
  part.store = std::make_shared<collectives::KeyValues>(world, limit);
  return part;
}

ClientRequest request_for(const ProcessPart& part, PluginKind kind) {
  ClientRequest request{.devices = std::ssize(part.local_chips()), .options = {}, .store = part.store};
  // Only the CPU plugin makes as many devices as it is asked for, and refuses nothing else by this name.
  if (kind == PluginKind::cpu) request.options.push_back({"cpu_device_count", request.devices});
  if (kind == PluginKind::cuda)
    request.options.push_back({"memory_fraction", static_cast<float>(xla::gpu_pool_share(part.gpus.sharers))});
  if (!part.store || plugins::info_of(kind).over_processes != OverProcesses::by_options) return request;
  request.options.push_back({"node_id", part.process});
  request.options.push_back({"num_nodes", static_cast<int64_t>(part.chips.size())});
  request.options.push_back({"visible_devices", part.gpus.devices});
  return request;
}

ClientRequest request_to_compile(const ProcessPart& part, PluginKind kind) {
  ClientRequest request = request_for(part, kind);
  if (kind == PluginKind::cuda) request.options.push_back({"preallocate", false});
  return request;
}

std::vector<int64_t> ids_by_chip(const JoinedDevices& joined, const std::string& plugin) {
  const std::set<int> distinct(joined.numbers.begin(), joined.numbers.end());
  MEGACPP_REQUIRE(distinct.size() == joined.numbers.size(), E1505,
                  ({.where = plugin,
                    .got = "a plugin to which " + std::to_string(joined.numbers.size()) + " processes are " +
                           std::to_string(distinct.size()) + " of its own numbers: it has not joined their clients",
                    .wanted = "a client with the devices of all processes",
                    .next = "take a plugin that knows the options node_id and num_nodes; on a TPU pod see that "
                            "TPU_WORKER_ID and TPU_WORKER_HOSTNAMES are those of each host"}));
  size_t chips = 0;
  for (const std::vector<int64_t>& its : joined.chips) chips += its.size();
  std::vector<int64_t> ids(chips);
  for (size_t process = 0; process < joined.chips.size(); ++process) {
    std::vector<int64_t> devices;
    for (const DeviceDescription& device : joined.all)
      if (device.process == joined.numbers[process]) devices.push_back(device.id);
    std::ranges::sort(devices);
    const std::vector<int64_t>& its = joined.chips[process];
    MEGACPP_REQUIRE(devices.size() >= its.size(), E1504,
                    ({.where = plugin,
                      .got = std::to_string(devices.size()) + " devices of process " + std::to_string(process),
                      .wanted = std::to_string(its.size()) + ", as many as it has chips",
                      .next = "lower the degrees of the layout, or start more processes"}));
    for (size_t i = 0; i < its.size(); ++i) ids[static_cast<size_t>(its[i])] = devices[i];
  }
  return ids;
}

std::vector<int64_t> device_ids(const Client& client, const ProcessPart& part, std::chrono::milliseconds limit) {
  if (!part.store) {
    std::vector<int64_t> ids;
    for (size_t device = 0; device < part.local_chips().size(); ++device) ids.push_back(client.devices()[device].id);
    return ids;
  }
  const std::vector<DeviceDescription> all = client.all_devices();
  return ids_by_chip({.all = all, .chips = part.chips, .numbers = plugin_numbers(client, part, limit)},
                     client.plugin().file().filename().string());
}

}  // namespace megacpp::runtime::pjrt
