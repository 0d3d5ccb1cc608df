// SPDX-License-Identifier: Apache-2.0
// Moves bytes between chips that are threads of one process: members of a group read straight from each other's
// buffers, each while it is inside finish(). Sums are added in the order of the group.
#pragma once

#include <cstdint>
#include <vector>

#include "megacpp/machine/collectives/engine/call_engine.h"
#include "megacpp/machine/collectives/inproc/move.h"

namespace megacpp::collectives {

class ThreadMover : public Mover {
 public:
  explicit ThreadMover(CallEngine& engine);

  void mark(InFlight& call, Stream stream) override;
  void begin(EngineLock&, InFlight&) override {}
  void begin_message(InFlight&, InFlight&, int64_t) override {}
  void begin_remote(EngineLock& lock, InFlight& message) override;
  bool advance(EngineLock& lock, InFlight& call) override;

 protected:
  CallEngine& engine() const { return engine_; }
  /// True when other processes allow the step; fills in what stands for their members in it.
  virtual bool prepare(InFlight& /*call*/, int64_t /*step*/, Member& /*member*/) { return true; }
  /// All local members have passed so many gates.
  virtual void on_passed(InFlight& /*call*/, int64_t /*gates*/) {}

 private:
  bool make_step(EngineLock& lock, InFlight& call);
  bool copy_message(EngineLock& lock, InFlight& recv);

  CallEngine& engine_;
  std::vector<std::vector<const void*>> pointers_;  // by chip; scratch of move_data()
};

}  // namespace megacpp::collectives
