// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/host_use.h"

#include <algorithm>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/json.h"
#include "megacpp/core/base/machine_memory.h"
#include "megacpp/machine/runtime/fault_injection.h"
#include "megacpp/machine/runtime/machine_identity.h"

namespace megacpp::runtime {

HostUse own_host_use(const compile::Compiled& compiled, const collectives::World& world, const LoadOptions& options) {
  HostUse use{.machine = machine_identity(),
              .host = host_name(),
              .free_bytes = base::available_memory_bytes(),
              .chip = world.local_chips().front()};
  for (const int64_t chip : world.local_chips()) {
    const memory::AwayBytes away = compiled.programs_of(chip).memory.of_host();
    use.offloaded_bytes += away.bytes;
    use.activation_bytes += away.activation_bytes;
  }
  if (options.snapshot_bytes) use.snapshot_bytes = options.snapshot_bytes(world.local_chips());
  return use;
}

std::string to_text(const HostUse& use) {
  return base::to_text(base::Json{{"machine", use.machine},
                                  {"host", use.host},
                                  {"offloaded", use.offloaded_bytes},
                                  {"activations", use.activation_bytes},
                                  {"snapshot", use.snapshot_bytes},
                                  {"free", use.free_bytes},
                                  {"chip", use.chip}});
}

HostUse host_use_of(const std::string& text) {
  const base::Json json = base::parse_json(text, base::Code::E9001, "what a process takes of its host");
  return {.machine = json.at("machine").get<std::string>(),
          .host = json.at("host").get<std::string>(),
          .offloaded_bytes = json.at("offloaded").get<int64_t>(),
          .activation_bytes = json.at("activations").get<int64_t>(),
          .snapshot_bytes = json.at("snapshot").get<int64_t>(),
          .free_bytes = json.at("free").get<int64_t>(),
          .chip = json.at("chip").get<int64_t>()};
}

std::optional<HostMisfit> host_misfit(const std::vector<HostUse>& processes) {
  std::map<std::pair<std::string, std::string>, memory::HostFit> hosts;  // by name and machine
  for (const HostUse& process : processes) {
    const auto [at, is_new] = hosts.try_emplace(
        {process.host, process.machine}, memory::HostFit{.limit_bytes = process.free_bytes, .chip = process.chip});
    memory::HostFit& fit = at->second;
    fit.offloaded_bytes += process.offloaded_bytes;
    fit.activation_bytes += process.activation_bytes;
    fit.snapshot_bytes += process.snapshot_bytes;
    fit.limit_bytes = std::min(fit.limit_bytes, process.free_bytes);
  }
  std::optional<HostMisfit> worst;
  for (const auto& [host, fit] : hosts) {
    const int64_t lacks = fit.needed_bytes() - fit.limit_bytes;
    if (!fit.fits() && (!worst || lacks > worst->fit.needed_bytes() - worst->fit.limit_bytes))
      worst = {host.first, fit};
  }
  return worst;
}

void require_host_memory(collectives::World& world, const HostUse& own) {
  std::vector<HostUse> processes;
  for (const std::string& text : world.share("memory of hosts", to_text(own))) processes.push_back(host_use_of(text));
  if (const std::optional<HostMisfit> misfit = host_misfit(processes))
    throw memory::host_misfit_error(misfit->fit, "host " + misfit->host);
}

}  // namespace megacpp::runtime
