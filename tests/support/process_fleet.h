// SPDX-License-Identifier: Apache-2.0
// The worlds of several processes, joined by sockets, as one world whose chips are all here: what tests ask of every
// transport is asked of worlds over processes too, and each chip still knows only its own process.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "megacpp/machine/collectives/processes/process_world.h"
#include "megacpp/machine/collectives/runs.h"
#include "megacpp/machine/collectives/transport.h"
#include "tests/support/socket_endpoint.h"
#include "tests/support/transports.h"

namespace megacpp::testing_support {

enum class Deal : uint8_t {
  blocks,     // neighbours share a process
  like_cards  // neighbours never do
};

/// Which processes read each other's memory, as those of a host do; the others are sent to.
enum class Hosts : uint8_t {
  one,       // all do
  two,       // all but the last, which is alone on its host
  each_own,  // none does
};

struct FleetOptions {
  std::string_view name;  // lives as long as the program
  int64_t processes = 2;  // or as many as there are chips
  Deal deal = Deal::blocks;
  collectives::Sums sums = collectives::Sums::exact;
  Hosts hosts = Hosts::one;
};

inline std::vector<int64_t> fleet_owners(const FleetOptions& fleet, int64_t chips) {
  const int64_t processes = std::min(fleet.processes, chips);
  std::vector<int64_t> owners;
  for (int64_t chip = 0; chip < chips; ++chip)
    owners.push_back(fleet.deal == Deal::blocks ? chip * processes / chips : chip % processes);
  return owners;
}

/// The worlds of all processes, made side by side as processes make them.
inline std::vector<std::unique_ptr<collectives::ProcessWorld>> process_worlds(
    const collectives::ProcessWorld::Options& options, Hosts hosts = Hosts::one) {
  const int64_t processes = *std::ranges::max_element(options.owners) + 1;
  std::vector<std::unique_ptr<collectives::Endpoint>> endpoints = joined_endpoints(processes);
  std::vector<std::unique_ptr<collectives::ProcessWorld>> worlds(endpoints.size());
  std::vector<std::thread> threads;
  for (size_t process = 0; process < endpoints.size(); ++process)
    threads.emplace_back([&, process] {
      collectives::ProcessWorld::Options own = options;
      own.reads_memory = hosts == Hosts::one || (hosts == Hosts::two && process + 1 < endpoints.size());
      worlds[process] = std::make_unique<collectives::ProcessWorld>(own, std::move(endpoints[process]));
    });
  for (std::thread& thread : threads) thread.join();
  return worlds;
}

class Fleet final : public collectives::World {
 public:
  Fleet(const collectives::ProcessWorld::Options& options, Hosts hosts)
      : owners_(options.owners), worlds_(process_worlds(options, hosts)) {
    for (size_t chip = 0; chip < owners_.size(); ++chip) chips_.push_back(static_cast<int64_t>(chip));
  }

  const collectives::Properties& properties() const override { return worlds_.front()->properties(); }
  int64_t chips() const override { return worlds_.front()->chips(); }
  const std::vector<int64_t>& local_chips() const override { return chips_; }
  collectives::Communicator& communicator(int64_t chip) override { return world_of(chip).communicator(chip); }
  void abort(int64_t chip, const std::string& reason) override { world_of(chip).abort(chip, reason); }
  bool has_failed() override { return worlds_.front()->has_failed(); }

 protected:
  std::vector<std::string> gather(const std::string& own) override { return {own}; }

 private:
  collectives::World& world_of(int64_t chip) {
    return *worlds_[static_cast<size_t>(owners_[static_cast<size_t>(chip)])];
  }

  std::vector<int64_t> owners_;
  std::vector<int64_t> chips_;
  std::vector<std::unique_ptr<collectives::ProcessWorld>> worlds_;  // by process
};

inline collectives::Transport fleet_transport(const FleetOptions& fleet) {
  const collectives::Properties properties = {.name = fleet.name,
                                              .has_fixed_order_sums = fleet.sums == collectives::Sums::exact,
                                              .ordering = collectives::Ordering::host};
  return {.properties = properties,
          .doc = "processes of a test, joined by sockets",
          .workspace_bytes = collectives::terms_bytes,
          .make = [fleet, properties](const collectives::WorldOptions& options) {
            const collectives::ProcessWorld::Options own{.properties = properties,
                                                         .owners = fleet_owners(fleet, options.chips),
                                                         .wait_limit = options.wait_limit};
            return std::make_unique<Fleet>(own, fleet.hosts);
          }};
}

/// Every transport of the program, and worlds over two to four processes and one to three hosts, with sums of either
/// kind.
inline std::vector<TransportRig> transports_and_fleets() {
  std::vector<TransportRig> all;
  for (const collectives::Transport& transport : collectives::all_transports()) all.push_back({.transport = transport});
  for (const FleetOptions& fleet :
       {FleetOptions{.name = "two_processes", .processes = 2},
        FleetOptions{.name = "three_hosts", .processes = 3, .deal = Deal::like_cards, .hosts = Hosts::each_own},
        FleetOptions{.name = "four_processes_two_hosts", .processes = 4, .hosts = Hosts::two},
        FleetOptions{.name = "two_hosts_fast", .sums = collectives::Sums::fast, .hosts = Hosts::each_own},
        FleetOptions{.name = "three_processes_two_hosts_fast",
        .processes = 3,
        .deal = Deal::like_cards,
        .sums = collectives::Sums::fast,
        .hosts = Hosts::two}})
    all.push_back({.transport = fleet_transport(fleet)});
  return all;
}

}  // namespace megacpp::testing_support
