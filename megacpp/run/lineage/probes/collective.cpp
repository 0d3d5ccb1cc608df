// SPDX-License-Identifier: Apache-2.0
// A sum over the virtual chips of a world, for every transport: a chip a thread, and every chip compares what it got.
#include <fmt/format.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <thread>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/transport.h"
#include "megacpp/run/lineage/probe.h"

namespace megacpp::lineage {
namespace {

constexpr int64_t kChips = 4;
constexpr int64_t kElements = 4096;  // of each chip
constexpr std::chrono::seconds kExchangeLimit(5);
constexpr std::chrono::seconds kCollectiveLimit(20);  // threads that do not start are no wait of a transport

/// What chips hold is whole numbers, so that their sum is exact in any order.
float operand(int64_t chip, int64_t element) { return static_cast<float>((chip + 1) * (element % 100)); }

void all_reduce(const collectives::Transport& transport, collectives::Communicator& communicator) {
  std::vector<int64_t> members(kChips);
  for (int64_t chip = 0; chip < kChips; ++chip) members[static_cast<size_t>(chip)] = chip;
  std::vector<float> values(kElements);
  for (int64_t i = 0; i < kElements; ++i) values[static_cast<size_t>(i)] = operand(communicator.rank(), i);
  collectives::Part part{.in = values.data(), .out = values.data(), .shape = {kElements}};
  collectives::Call call{.kind = collectives::Kind::all_reduce,
                         .group = &communicator.create_group(members),
                         .parts = {std::move(part)},
                         .where = "the doctor's sum"};
  std::vector<std::byte> workspace(static_cast<size_t>(transport.workspace_bytes(call, kChips)));
  call.workspace = workspace.empty() ? nullptr : workspace.data();
  communicator.run(call, collectives::kHostThread);
  for (int64_t i = 0; i < kElements; ++i) {
    float wanted = 0;
    for (int64_t chip = 0; chip < kChips; ++chip) wanted += operand(chip, i);
    const float got = values[static_cast<size_t>(i)];
    MEGACPP_REQUIRE(got == wanted, E3101,
                    {.where = fmt::format("chip {}, element {}", communicator.rank(), i),
                     .got = fmt::format("{}", got),
                     .wanted = fmt::format("{}, the sum of {} chips", wanted, kChips),
                     .next = "test the machine's memory and processors: they computed wrongly"});
  }
}

std::string sum_over(const collectives::Transport& transport) {
  const std::unique_ptr<collectives::World> world =
      transport.make({.chips = kChips, .wait_limit = std::chrono::milliseconds(kExchangeLimit)});
  std::vector<std::exception_ptr> failed(kChips);
  {
    std::vector<std::jthread> chips;
    for (const int64_t chip : world->local_chips())
      chips.emplace_back([&, chip] {
        try {
          all_reduce(transport, world->communicator(chip));
        } catch (const std::exception& error) {
          failed[static_cast<size_t>(chip)] = std::current_exception();
          world->abort(chip, error.what());
        }
      });
  }
  for (const std::exception_ptr& error : failed)
    if (error) std::rethrow_exception(error);
  return fmt::format("all_reduce over {} chips is their sum", kChips);
}

}  // namespace

std::vector<Probe> collective_probes() {
  std::vector<Probe> probes;
  for (const collectives::Transport& transport : collectives::all_transports())
    probes.push_back({.name = fmt::format("collective.{}", transport.properties.name),
                      .group = "collective",
                      .time_limit = kCollectiveLimit,
                      .ask = [transport](const Subject&) { return sum_over(transport); }});
  return probes;
}

}  // namespace megacpp::lineage
