// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/ladder_window.h"

namespace megacpp::launch {

HostMemory host_memory_of(const hw::Chip& chip) {
  return chip.shares_machine_memory() ? HostMemory::shared : HostMemory::apart;
}

void LadderWindow::end_step(int64_t compiles) {
  if (phase_ == Phase::first_step)
    phase_ = Phase::steady;
  else if (compiles > compiles_)
    phase_ = Phase::closed;
  compiles_ = compiles;
}

bool LadderWindow::contains(const memory::OomFacts& failure, int64_t compiles) const {
  if (failure.cls == memory::OomClass::host && memory_ == HostMemory::apart) return false;
  switch (phase_) {
    case Phase::start_up:
    case Phase::first_step:
      return true;
    case Phase::steady:
      return failure.cls == memory::OomClass::compile || compiles > compiles_;
    case Phase::closed:
      return false;
  }
  return false;
}

}  // namespace megacpp::launch
