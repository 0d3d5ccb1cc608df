// SPDX-License-Identifier: Apache-2.0
// The chips of one process, on one GPU or spread over several that access each other's memory (peer_gpus.h). Every chip
// has a host thread and a stream of its own; tensors move between their arenas by one launch for all members of a call
// that are on a GPU (movement_table.h), with sums in the order of the group.
// - start() marks on the chip's stream that its operands are there. The member that comes last enqueues, on a stream of
//   the group on each of its GPUs, the whole movement behind the marks of all. Each GPU writes the results of its own
//   chips, and reads memory of the others for that. finish() orders the chip's stream behind what all of them do.
// - Streams wait for events of any GPU, and record only events of their own.
// - No host waits for the device. A stream cannot wait for a mark that nobody has set yet, so finish() waits until the
//   threads of all members have started the call: chips that enqueue at the same pace do not notice.
// - All that is enqueued waits only for what was enqueued before it: the device never stops, whatever chips do later.
//   Of several GPUs one may be lost while another waits for it: there no wait of the host is without a limit.
// - On the host thread (kHostThread) a call begins at once, and finish() returns when it is complete.
// - All of it may be captured into a graph, of all chips together (step_graph.h), as long as every call that is started
//   is also finished, and every send drained, before the capture ends.
#pragma once

#include <atomic>
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
#include "megacpp/runtime/cuda/movement_table.h"
#include "megacpp/runtime/cuda/peer_gpus.h"

namespace megacpp::runtime::cuda {

struct VirtualChipsOptions {
  std::shared_ptr<collectives::World> control;  // whose chips these are; all in this process
  std::chrono::milliseconds wait_limit{};
  Gpus gpus;  // connected; that of a chip (gpu_of_chip) is made current on every thread that calls for it
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
  bool has_failed() override { return has_failed_; }

 protected:
  std::vector<std::string> gather(const std::string& own) override;

 private:
  class Chip;
  class OwnGpuAgain;
  struct InFlight;
  // What one GPU moves of the calls of a group: for members behind one another that are on it.
  struct GpuPart {
    size_t gpu;
    MemberRange members;
    OwnedStream stream;
    OwnedEvent moved;  // its part of a call; not needed where that is all
  };
  struct Group {
    collectives::GroupCalls calls;
    std::vector<GpuPart> parts;  // in the order of their members

    const GpuPart& part_of(int64_t index) const;
  };
  using Lock = std::unique_lock<std::mutex>;

  Chip& at(int64_t chip) const { return *chips_[static_cast<size_t>(chip)]; }
  const Driver& driver() const { return options_.gpus.front()->driver(); }
  size_t gpu_of(int64_t chip) const { return gpu_of_chip(chip, chips(), options_.gpus.size()); }
  bool has_several_gpus() const { return options_.gpus.size() > 1; }
  void enter(size_t gpu) const { options_.gpus[gpu]->attach(); }
  // These enter the GPUs of all members, and leave any of them current (OwnGpuAgain).
  Group& group_of(const std::vector<int64_t>& members);
  Group make_group(const std::vector<int64_t>& members) const;
  void enqueue(Group& group, int64_t sequence);
  void move_part(const GpuPart& part, Group& group, int64_t sequence);
  void join_parts(const Group& group) const;
  void enqueue_message(InFlight& send, InFlight& recv);
  Stream* sender_stream(const Chip& sender, const Chip& receiver, const InFlight& recv) const;

  void fail(const collectives::Failure& failure);
  void wait_for_end(Stream* stream) const;
  void check_alive(int64_t chip, const std::string& where) const;

  // One lock guards all of it, and the calls in flight of every chip.
  std::mutex mutex_;
  const VirtualChipsOptions options_;
  std::vector<CollectiveKernel> kernels_;  // by GPU
  std::deque<Group> groups_;
  std::vector<std::unique_ptr<Chip>> chips_;
  std::vector<Address> scratch_;  // of tabulate()
  std::optional<collectives::Failure> failure_;
  std::chrono::steady_clock::time_point end_by_;  // of a failure: nobody waits longer for streams

  std::atomic<bool> has_failed_ = false;  // for who looks while another holds the lock and waits for the device
};

/// What holds for them: "cuda", sums in a fixed order, ordered on streams.
collectives::Properties virtual_chips_properties();

}  // namespace megacpp::runtime::cuda
