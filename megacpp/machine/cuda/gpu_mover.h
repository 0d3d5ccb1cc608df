// SPDX-License-Identifier: Apache-2.0
// Moves bytes between the chips of one process that are on its GPUs, which access each other's memory: by one launch
// for all members of a call that are on a GPU (movement_table.h), with sums in the order of the group.
// - A call's mark on a chip's stream says that its operands are there. The member that comes last enqueues, on a stream
//   of the group on each of its GPUs, the whole movement behind the marks of all. Each GPU writes the results of its
//   own chips, and reads memory of the others for that. Joining orders the chip's stream behind what all of them do.
// - Streams wait for events of any GPU, and record only events of their own.
// - All that is enqueued waits only for what was enqueued before it: the device never stops, whatever chips do later.
//   Of several GPUs one may be lost while another waits for it: there no wait of the host is without a limit.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/engine/call_engine.h"
#include "megacpp/machine/collectives/world.h"
#include "megacpp/machine/cuda/handles.h"
#include "megacpp/machine/cuda/kernels/collective.h"
#include "megacpp/machine/cuda/movement_table.h"
#include "megacpp/machine/cuda/peer_gpus.h"

namespace megacpp::runtime::cuda {

class GpuMover final : public collectives::Mover, public collectives::OtherProcesses {
 public:
  struct Options {
    collectives::CallEngine& engine;
    collectives::World& control;  // hears of failures
    Gpus gpus;                    // connected; that of a chip (gpu_of_chip) is made current on who calls for it
  };
  explicit GpuMover(Options options);

  /// Returns when the stream has done all it holds. Without the engine's lock.
  void wait(int64_t chip, Stream* stream);

  void enter(int64_t chip) override { gpu_of(chip).attach(); }
  void open(collectives::GroupCalls& group, int64_t chip) override;
  std::unique_ptr<collectives::CallState> make_state(int64_t chip) override;
  void mark(collectives::InFlight& call, collectives::Stream stream) override;
  void begin(collectives::EngineLock& lock, collectives::InFlight& last) override;
  void begin_message(collectives::InFlight& send, collectives::InFlight& recv, int64_t chip) override;
  void begin_remote(collectives::EngineLock& lock, collectives::InFlight& message) override;
  void join(collectives::EngineLock& lock, collectives::InFlight& call, collectives::Stream stream) override;
  void settle(int64_t chip) override;
  void propose(const collectives::Failure& failure) override;

 private:
  class OwnGpuAgain;
  // The part of a group's calls that one GPU moves: for members behind one another that are on it.
  struct GpuPart {
    size_t gpu;
    MemberRange members;
    OwnedStream stream;
    OwnedEvent moved;  // its part of a call; not needed where that is all
  };
  using Parts = std::vector<GpuPart>;  // in the order of their members
  struct MessageStreams {
    OwnedStream received;             // where messages to a chip move
    std::optional<OwnedStream> sent;  // where those from it end that another GPU moves
  };

  const Driver& driver() const { return options_.gpus.front()->driver(); }
  size_t gpu_index(int64_t chip) const { return gpu_of_chip(chip, options_.engine.chips(), options_.gpus.size()); }
  const Gpu& gpu_of(int64_t chip) const { return *options_.gpus[gpu_index(chip)]; }
  bool has_several_gpus() const { return options_.gpus.size() > 1; }
  const GpuPart& part_of(const collectives::GroupCalls& group, int64_t index) const;
  collectives::InFlight& member(const collectives::GroupCalls& group, size_t index, int64_t sequence) const;
  void move_part(const GpuPart& part, collectives::GroupCalls& group, int64_t sequence);
  void join_parts(const Parts& parts) const;
  Stream* sender_stream(const collectives::InFlight& send, const collectives::InFlight& recv) const;
  template <typename Query>
  void wait_until(int64_t chip, const Query& query, const std::string& where);
  [[noreturn]] void time_out(int64_t chip, const std::string& where);
  void wait_for_end(Stream* stream) const;

  const Options options_;
  std::vector<CollectiveKernel> kernels_;         // by GPU
  std::deque<Parts> groups_;                      // by GroupCalls::number
  std::vector<MessageStreams> messages_;          // by chip
  std::vector<Address> scratch_;                  // of tabulate()
  std::chrono::steady_clock::time_point end_by_;  // of a failure: nobody waits longer for streams
};

}  // namespace megacpp::runtime::cuda
