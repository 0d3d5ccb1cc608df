// SPDX-License-Identifier: Apache-2.0
// A way to run the same body on every local chip of a world, as a training run does: a chip that fails tells the others
// before it goes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/transport.h"

namespace megacpp::testing_support {

/// Memory that both a test and the chips of a transport can use.
using Memory = std::shared_ptr<std::byte>;
inline Memory host_memory(size_t bytes) { return Memory(new std::byte[bytes], std::default_delete<std::byte[]>()); }

/// A transport with all that its tests need.
struct TransportRig {
  collectives::Transport transport;
  std::function<Memory(size_t bytes)> allocate = host_memory;
  std::string why_not = {};  // why it cannot be tested here; empty: it can
};

using ChipBody = std::function<void(collectives::Communicator&)>;

/// How a chip's body ended: with the error it threw, or none. By chip of the mesh; none for chips that are not local.
using Outcomes = std::vector<std::optional<base::Error>>;

inline std::optional<base::Error> run_chip(collectives::Communicator& communicator, const ChipBody& body) {
  try {
    body(communicator);
    return std::nullopt;
  } catch (const base::Error& error) {
    communicator.abort(error.what());
    return error;
  }
}

inline Outcomes run_local_chips(collectives::World& world, const ChipBody& body) {
  Outcomes outcomes(static_cast<size_t>(world.chips()));
  std::vector<std::thread> threads;
  for (const int64_t chip : world.local_chips())
    threads.emplace_back([&, chip] { outcomes[static_cast<size_t>(chip)] = run_chip(world.communicator(chip), body); });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

/// On a world made for it.
inline Outcomes run_on(const collectives::Transport& transport, const collectives::WorldOptions& options,
                       const ChipBody& body) {
  return run_local_chips(*transport.make(options), body);
}

}  // namespace megacpp::testing_support
