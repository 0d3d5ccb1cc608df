// SPDX-License-Identifier: Apache-2.0
// Allocations that fail because somebody asked for it, so that what answers a full chip can be rehearsed without one.
// An injected fault raises the same error, at the same place and on the same thread, as memory that really ran out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/program/compile/compile.h"
#include "megacpp/program/memory/out_of_memory.h"

namespace megacpp::runtime {

struct Fault {
  int64_t chip = 0;
  memory::OomClass cls = memory::OomClass::runtime;  // compile, load, or runtime: in a step
  int64_t step = -1;                                 // from 0, in a step only

  bool operator==(const Fault&) const = default;
};
using Faults = std::vector<Fault>;

/// Whether this is a moment at which an allocation is to fail.
bool is_injected_at(const Faults& faults, const Fault& moment);

/// What the chip would have wanted then, held against `limit_bytes` (0: not known): E2002, E2003 or E2004.
memory::OutOfMemory injected_error(const Fault& fault, const compile::Compiled& compiled, int64_t limit_bytes);

/// Raises the first fault of the class `cls` for a chip the mesh has, if there is one: for compiling and loading.
void raise_faults(const Faults& faults, memory::OomClass cls, const compile::Compiled& compiled,
                  const std::vector<int64_t>& limits);

/// The machine's own name, as messages about its chips give it.
std::string host_name();

}  // namespace megacpp::runtime
