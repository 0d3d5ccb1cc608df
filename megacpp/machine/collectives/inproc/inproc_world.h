// SPDX-License-Identifier: Apache-2.0
// A mesh in one process: all chips are its threads, and no other process takes part.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/engine/call_engine.h"
#include "megacpp/machine/collectives/inproc/thread_mover.h"
#include "megacpp/machine/collectives/world.h"

namespace megacpp::collectives {

/// Properties of chips that are threads of one process.
Properties inproc_properties();

class InprocWorld final : public World {
 public:
  /// `properties`: those of a transport that has but this process.
  explicit InprocWorld(const WorldOptions& options, const Properties& properties = inproc_properties());

  const Properties& properties() const override { return properties_; }
  int64_t chips() const override { return engine_.chips(); }
  const std::vector<int64_t>& local_chips() const override { return engine_.local(); }
  Communicator& communicator(int64_t chip) override { return engine_.at(chip); }
  void abort(int64_t chip, const std::string& reason) override { communicator(chip).abort(reason); }
  bool has_failed() override { return engine_.has_failed(); }

 protected:
  /// One process is all there are.
  std::vector<std::string> gather(const std::string& own) override;

 private:
  const Properties properties_;
  CallEngine engine_;
  ThreadMover mover_;
};

}  // namespace megacpp::collectives
