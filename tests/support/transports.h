// SPDX-License-Identifier: Apache-2.0
// Every transport under test, and a way to run the same body on every chip of a mesh, as a training run does: a chip
// that fails tells the others before it goes.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "megacpp/base/error.h"
#include "megacpp/collectives/inproc/inproc_world.h"

namespace megacpp::testing_support {

using ChipBody = std::function<void(collectives::Communicator&)>;

/// How a chip's body ended: with the error it threw, or none. By chip.
using Outcomes = std::vector<std::optional<base::Error>>;

struct Mesh {
  int64_t chips = 1;
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
};

struct Transport {
  std::string name;
  Outcomes (*run)(const Mesh& mesh, const ChipBody& body);
};

inline std::optional<base::Error> run_chip(collectives::Communicator& communicator, const ChipBody& body) {
  try {
    body(communicator);
    return std::nullopt;
  } catch (const base::Error& error) {
    communicator.abort(error.what());
    return error;
  }
}

inline Outcomes run_inproc(const Mesh& mesh, const ChipBody& body) {
  collectives::InprocWorld world(mesh.chips, {.timeout = mesh.timeout});
  Outcomes outcomes(static_cast<size_t>(mesh.chips));
  std::vector<std::thread> threads;
  for (int64_t chip = 0; chip < mesh.chips; ++chip)
    threads.emplace_back([&, chip] { outcomes[static_cast<size_t>(chip)] = run_chip(world.communicator(chip), body); });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

inline const std::vector<Transport>& transports() {
  static const std::vector<Transport> list = {{"inproc", run_inproc}};
  return list;
}

}  // namespace megacpp::testing_support
