// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/run_hosts.h"

#include <algorithm>
#include <map>

#include "megacpp/machine/collectives/placement.h"

namespace megacpp::launch {

std::vector<RunHost> run_hosts(const std::vector<ProcessHost>& processes) {
  std::vector<RunHost> hosts;
  std::map<std::string, size_t> places;  // by machine
  for (size_t process = 0; process < processes.size(); ++process) {
    const ProcessHost& own = processes[process];
    const auto [at, is_new] = places.try_emplace(own.machine, hosts.size());
    if (is_new) hosts.push_back({.name = own.name, .processes = {}, .free_bytes = own.free_bytes});
    RunHost& host = hosts[at->second];
    host.processes.push_back(static_cast<int64_t>(process));
    host.free_bytes = std::min(host.free_bytes, own.free_bytes);
  }
  return hosts;
}

fit::Hosts planned_hosts(const std::vector<RunHost>& hosts) {
  fit::Hosts planned;
  std::map<int64_t, int64_t> host_of;  // by process
  for (const RunHost& host : hosts) {
    for (const int64_t process : host.processes) host_of[process] = std::ssize(planned.all);
    planned.all.push_back({.name = host.name, .bytes = host.free_bytes});
  }
  planned.of_chips = [host_of](const ir::Mesh& mesh) {
    std::vector<int64_t> of_chips = collectives::owners_of(
        {.chips = mesh.chips(), .processes = std::ssize(host_of), .order = collectives::dealing_order(mesh)});
    for (int64_t& owner : of_chips) owner = host_of.at(owner);
    return of_chips;
  };
  return planned;
}

}  // namespace megacpp::launch
