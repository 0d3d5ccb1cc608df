// SPDX-License-Identifier: Apache-2.0
// A mesh over processes, each with one chip on a GPU: tensors go from device to device through NCCL, as messages
// between pairs (exchange_steps.h), so that sums have the order of the group and the bits of a run in one process. The
// control world joins the processes, hands around the ids by which NCCL connects, and hears of failures.
// - Groups are made and messages announced before the first call, by all processes, and connected together
//   (DeviceCommunicator::connect); what is new later by its first call. Every group, and every kind of message between
//   two chips, has a communicator and a stream of its own, so that calls of different groups need no common order.
// - start() and finish() only enqueue; all of it may be captured into a graph once a step has run.
// - A host waits by DeviceCommunicator::wait(). A thread listens for failures of other processes and then ends what
//   NCCL has under way, connecting too, so that neither a stream nor a host waits for a chip that is gone; for one that
//   is silent it waits no longer than the limit.
// - Graphs that have captured calls are destroyed before the world: NCCL waits for that.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/engine/call_engine.h"
#include "megacpp/machine/collectives/world.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {

struct NcclChipsOptions {
  std::shared_ptr<collectives::World> control;  // with one local chip
  std::chrono::milliseconds wait_limit{};       // longest wait of a host for its stream, and for a chip to connect
  const Driver& driver;
  Toolbox& toolbox;
  Context* context;  // of the chip's GPU
};

class NcclChips final : public collectives::World {
 public:
  /// After plugins::share_gpus(). E1509 where NCCL is not here, E1505 where this build has no device code.
  explicit NcclChips(const NcclChipsOptions& options);
  ~NcclChips() override;

  const collectives::Properties& properties() const override;
  int64_t chips() const override { return control_->chips(); }
  const std::vector<int64_t>& local_chips() const override { return control_->local_chips(); }
  collectives::Communicator& communicator(int64_t chip) override;
  void abort(int64_t chip, const std::string& reason) override { communicator(chip).abort(reason); }
  bool has_failed() override { return control_->has_failed(); }
  int64_t process() const override { return control_->process(); }
  const std::vector<std::string>& hosts() const override { return control_->hosts(); }

 protected:
  std::vector<std::string> gather(const std::string& own) override;

 private:
  class Chip;
  std::shared_ptr<collectives::World> control_;
  collectives::CallEngine engine_;
  std::unique_ptr<Chip> chip_;
};

/// What holds for them: "nccl", sums in a fixed order, ordered on streams.
collectives::Properties nccl_chips_properties();

}  // namespace megacpp::runtime::cuda
