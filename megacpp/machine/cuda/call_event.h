// SPDX-License-Identifier: Apache-2.0
// The state that movers of GPUs keep beside a call in flight.
#pragma once

#include "megacpp/machine/collectives/engine/rendezvous.h"
#include "megacpp/machine/cuda/handles.h"

namespace megacpp::runtime::cuda {

/// An event of the chip's GPU. It first marks that the chip is ready; once the movement is enqueued, which waits for
/// the mark, the same event marks its end.
struct CallEvent final : collectives::CallState {
  explicit CallEvent(const Driver& driver) : event(driver) {}

  OwnedEvent event;
  bool is_marked = false;  // ready on a stream; else at once
};

inline CallEvent& call_event(const collectives::InFlight& call) { return static_cast<CallEvent&>(*call.state); }

}  // namespace megacpp::runtime::cuda
