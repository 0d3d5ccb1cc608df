// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/gpu_shares.h"

#include <stdlib.h>

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/json.h"

namespace megacpp::runtime::plugins {
namespace {

using Users = std::map<std::string, std::vector<size_t>>;  // by GPU: the processes that take it, ascending

// Who cannot tell counts on from those before it on its machine: whether there are so many the plugin will say.
std::vector<std::string> seen_by(const std::vector<GpusOfProcess>& processes, size_t process) {
  const GpusOfProcess& own = processes[process];
  if (!own.gpus.empty()) return own.gpus;
  int64_t count = 0;
  for (size_t other = 0; other <= process; ++other)
    if (processes[other].machine == own.machine) count += processes[other].chips;
  std::vector<std::string> seen;
  for (int64_t gpu = 0; gpu < count; ++gpu) seen.push_back(fmt::format("{} {}", own.machine, gpu));
  return seen;
}

// Its places in `seen`: those with the fewest users first, and of these the first.
std::vector<int64_t> least_used(const std::vector<std::string>& seen, int64_t count, const Users& users) {
  std::vector<int64_t> places;
  for (int64_t place = 0; place < std::ssize(seen); ++place) places.push_back(place);
  std::ranges::stable_sort(places, {}, [&](int64_t place) {
    const auto at = users.find(seen[static_cast<size_t>(place)]);
    return at == users.end() ? size_t{0} : at->second.size();
  });
  places.resize(static_cast<size_t>(count));
  std::ranges::sort(places);
  return places;
}

// The first users of the GPUs of a machine are what NCCL takes them for, and so reach each other directly; so do the
// second ones, and so on.
void add_variables(GpuShare& share, const GpusOfProcess& own, size_t earlier, bool is_one_machine) {
  if (earlier > 0) share.variables.emplace_back("NCCL_HOSTID", fmt::format("{}-{}", own.machine, earlier));
  if (is_one_machine) share.variables.emplace_back("NCCL_SOCKET_IFNAME", "lo");
}

}  // namespace

std::string to_text(const GpusOfProcess& process) {
  return base::to_text(base::Json{{"machine", process.machine}, {"gpus", process.gpus}, {"chips", process.chips}});
}

GpusOfProcess gpus_of_process(const std::string& text) {
  const base::Json json = base::parse_json(text, base::Code::E9001, "GPUs of a process");
  return {.machine = json.at("machine").get<std::string>(),
          .gpus = json.at("gpus").get<std::vector<std::string>>(),
          .chips = json.at("chips").get<int64_t>()};
}

std::vector<GpuShare> gpu_shares(const std::vector<GpusOfProcess>& processes) {
  Users users;
  std::vector<std::vector<std::string>> taken(processes.size());  // by process
  std::vector<GpuShare> shares(processes.size());
  std::set<std::string> machines;
  for (size_t process = 0; process < processes.size(); ++process) {
    const GpusOfProcess& own = processes[process];
    const std::vector<std::string> seen = seen_by(processes, process);
    const std::string got = fmt::format("{} for {} of the process", base::counted(std::ssize(seen), "GPU"),
                                        base::counted(own.chips, "chip"));
    MEGACPP_REQUIRE(std::ssize(seen) >= own.chips, E1504,
                    ({.where = fmt::format("process {} on {}", process, own.machine),
                      .got = got,
                      .wanted = "a GPU for each of its chips",
                      .next = "start more processes with fewer chips each, or lower the degrees of the layout"}));
    shares[process].devices = least_used(seen, own.chips, users);
    for (const int64_t place : shares[process].devices) {
      taken[process].push_back(seen[static_cast<size_t>(place)]);
      users[taken[process].back()].push_back(process);
    }
    machines.insert(own.machine);
  }
  const bool is_any_shared = std::ranges::any_of(users, [](const auto& gpu) { return gpu.second.size() > 1; });
  for (size_t process = 0; process < processes.size() && is_any_shared; ++process) {
    size_t earlier = 0;  // users of the most crowded of its GPUs
    for (const std::string& gpu : taken[process]) {
      const std::vector<size_t>& all = users[gpu];
      shares[process].sharers = std::max(shares[process].sharers, std::ssize(all));
      earlier = std::max(earlier, static_cast<size_t>(std::ranges::find(all, process) - all.begin()));
    }
    add_variables(shares[process], processes[process], earlier, machines.size() == 1);
  }
  return shares;
}

GpuShare share_gpus(collectives::World& world, const GpusOfProcess& own) {
  std::vector<GpusOfProcess> processes;
  for (const std::string& text : world.share("GPUs of a process", to_text(own)))
    processes.push_back(gpus_of_process(text));
  GpuShare share = gpu_shares(processes)[static_cast<size_t>(world.process())];
  constexpr int kKeep = 0;
  for (const auto& [name, value] : share.variables) ::setenv(name.c_str(), value.c_str(), kKeep);
  return share;
}

}  // namespace megacpp::runtime::plugins
