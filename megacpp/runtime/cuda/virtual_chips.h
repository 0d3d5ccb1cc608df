// SPDX-License-Identifier: Apache-2.0
// The chips of one process that share a GPU. Every chip has a host thread and a stream of its own; tensors move between
// their arenas by one launch for all members of a call (movement_table.h), with sums in the order of the group.
// - start() marks on the chip's stream that its operands are there. The member that comes last enqueues, on a stream of
//   the group, the whole movement behind the marks of all. finish() orders the chip's stream behind it.
// - No host waits for the device. A stream cannot wait for a mark that nobody has set yet, so finish() waits until the
//   threads of all members have started the call: chips that enqueue at the same pace do not notice.
// - All that is enqueued waits only for what was enqueued before it: the device never stops, whatever chips do later.
// - On the host thread (kHostThread) a call begins at once, and finish() returns when it is complete.
// - All of it may be captured into a graph, of all chips together (step_graph.h), as long as every call that is started
//   is also finished, and every send drained, before the capture ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/collectives/failure.h"
#include "megacpp/collectives/inproc/rendezvous.h"
#include "megacpp/collectives/world.h"
#include "megacpp/runtime/cuda/handles.h"
#include "megacpp/runtime/cuda/kernels/collective.h"

namespace megacpp::runtime::cuda {

struct VirtualChipsOptions {
  std::shared_ptr<collectives::World> control;  // whose chips these are; all in this process
  std::chrono::milliseconds wait_limit{};
  const Driver& driver;
  Toolbox& toolbox;
  Context* context;  // of the GPU: made current on every thread that calls
};

class VirtualChips final : public collectives::World {
 public:
  /// E1505 where this build has no device code, or for more chips than one launch serves.
  explicit VirtualChips(VirtualChipsOptions options);
  ~VirtualChips() override;

  const collectives::Properties& properties() const override;
  int64_t chips() const override { return options_.control->chips(); }
  const std::vector<int64_t>& local_chips() const override { return options_.control->local_chips(); }
  collectives::Communicator& communicator(int64_t chip) override;
  void abort(int64_t chip, const std::string& reason) override { communicator(chip).abort(reason); }
  bool has_failed() override;

 protected:
  std::vector<std::string> gather(const std::string& own) override;

 private:
  class Chip;
  struct InFlight;
  struct Group {
    collectives::GroupCalls calls;
    OwnedStream stream;
  };
  using Lock = std::unique_lock<std::mutex>;

  Chip& at(int64_t chip) const { return *chips_[static_cast<size_t>(chip)]; }
  void enter() const { options_.driver.ctx_set_current(options_.context); }
  Group& group_of(const std::vector<int64_t>& members);
  void enqueue(Group& group, int64_t sequence);
  void enqueue_message(InFlight& send, InFlight& recv);
  void fail(const collectives::Failure& failure);
  void check_alive(int64_t chip, const std::string& where) const;

  // One lock guards all of it, and the calls in flight of every chip.
  std::mutex mutex_;
  const VirtualChipsOptions options_;
  CollectiveKernel kernel_;
  std::deque<Group> groups_;
  std::vector<std::unique_ptr<Chip>> chips_;
  std::vector<Address> scratch_;  // of tabulate()
  std::optional<collectives::Failure> failure_;
};

/// What holds for them: "cuda", sums in a fixed order, ordered on streams.
collectives::Properties virtual_chips_properties();

}  // namespace megacpp::runtime::cuda
