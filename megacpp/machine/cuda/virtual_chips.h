// SPDX-License-Identifier: Apache-2.0
// The chips of one process, on one GPU or spread over several that access each other's memory (peer_gpus.h). Every chip
// has a host thread and a stream of its own; what they start and finish is a call engine's matter, and tensors move
// between their arenas by launches (gpu_mover.h).
// - No host waits for the device. A stream cannot wait for a mark that nobody has set yet, so finish() waits until the
//   threads of all members have started the call: chips that enqueue at the same pace do not notice.
// - On the host thread (kHostThread) a call begins at once, and finish() returns when it is complete.
// - All of it may be captured into a graph, of all chips together (step_graph.h), as long as every call that is started
//   is also finished, and every send drained, before the capture ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/world.h"
#include "megacpp/machine/cuda/gpu_mover.h"

namespace megacpp::runtime::cuda {

struct VirtualChipsOptions {
  std::shared_ptr<collectives::World> control;  // whose chips these are; all in this process
  std::chrono::milliseconds wait_limit{};
  Gpus gpus;  // as GpuMover has them
};

class VirtualChips final : public collectives::World {
 public:
  /// E1505 where this build has no device code, or for more chips than one launch serves.
  explicit VirtualChips(VirtualChipsOptions options);
  ~VirtualChips() override;

  const collectives::Properties& properties() const override;
  int64_t chips() const override { return engine_.chips(); }
  const std::vector<int64_t>& local_chips() const override { return engine_.local(); }
  collectives::Communicator& communicator(int64_t chip) override;
  void abort(int64_t chip, const std::string& reason) override { communicator(chip).abort(reason); }
  bool has_failed() override { return engine_.has_failed(); }

 protected:
  std::vector<std::string> gather(const std::string& own) override;

 private:
  class Chip;

  const VirtualChipsOptions options_;
  collectives::CallEngine engine_;
  GpuMover mover_;
  std::vector<std::unique_ptr<Chip>> chips_;
};

/// Their properties: "cuda", sums in a fixed order, ordered on streams.
collectives::Properties virtual_chips_properties();

}  // namespace megacpp::runtime::cuda
