// SPDX-License-Identifier: Apache-2.0
// What the processes of a run take of the memory of their hosts beside devices: what is offloaded to pinned memory, and
// the snapshot that checkpoints are written from. Several processes of a host share what it has, so they are counted
// together, and all processes come to the same answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/world.h"
#include "megacpp/machine/runtime/load_options.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/memory/chip_fit.h"

namespace megacpp::runtime {

/// Of one process.
struct HostUse {
  std::string machine;  // as machine_identity() has it: machines of one name are several
  std::string host;     // its name
  int64_t offloaded_bytes = 0;
  int64_t activation_bytes = 0;  // of these
  int64_t snapshot_bytes = 0;
  int64_t free_bytes = 0;  // of the host, before any of it is taken
  int64_t chip = 0;        // the first of the process

  bool operator==(const HostUse&) const = default;
};
/// Of this process, with the local chips of its world.
HostUse own_host_use(const compile::Compiled& compiled, const collectives::World& world, const LoadOptions& options);
std::string to_text(const HostUse& use);
HostUse host_use_of(const std::string& text);

/// A host whose processes need more than it has.
struct HostMisfit {
  std::string host;
  memory::HostFit fit;
};
/// The one that lacks most; of two alike the first by name. Nothing: all have enough.
std::optional<HostMisfit> host_misfit(const std::vector<HostUse>& processes);

/// All processes together, before any takes memory: E2001 on all where one host has too little.
void require_host_memory(collectives::World& world, const HostUse& own);

}  // namespace megacpp::runtime
