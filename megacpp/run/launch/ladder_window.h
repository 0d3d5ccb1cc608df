// SPDX-License-Identifier: Apache-2.0
// When memory that runs out is answered by the ladder: while a run starts, in step 0, and in the step of the first
// compilation after it, as often as that step compiles. At any other time the run ends with a report; so it does where
// a host ran out whose chips have memory of their own: no rung leaves a host more.
#pragma once

#include <cstdint>

#include "megacpp/hardware/hw/chip.h"
#include "megacpp/program/memory/out_of_memory.h"

namespace megacpp::launch {

/// Whether fewer bytes on chips leave their host more: virtual chips are in its memory, devices have their own.
enum class HostMemory : uint8_t { shared, apart };
HostMemory host_memory_of(const hw::Chip& chip);

/// start_up -> first_step -> steady -> closed. Compilations are counted by the backend, from its start.
class LadderWindow {
 public:
  enum class Phase : uint8_t {
    start_up,    // until step 0 begins: planning, compiling, loading
    first_step,  // step 0
    steady,      // later steps, none of which has compiled: the first that does is in the window
    closed,      // a step after step 0 has compiled and ended
  };

  explicit LadderWindow(HostMemory memory) : memory_(memory) {}

  Phase phase() const { return phase_; }

  /// Everything is loaded.
  void begin_steps() { phase_ = Phase::first_step; }
  /// A step ended well, with so many compilations since the start.
  void end_step(int64_t compiles);
  /// Whether a failure now is in the window. `compiles`, where a backend could count them, includes those of the step
  /// that failed; a compiler that ran out of memory has begun one that is not counted.
  bool contains(const memory::OomFacts& failure, int64_t compiles) const;

 private:
  HostMemory memory_;
  Phase phase_ = Phase::start_up;
  int64_t compiles_ = 0;  // at the end of the last step
};

}  // namespace megacpp::launch
