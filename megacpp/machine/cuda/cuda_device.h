// SPDX-License-Identifier: Apache-2.0
// One chip of the CUDA backend: its arena on a GPU, its stream, its kernels and its end of the transport. Several
// virtual chips of one GPU have arenas and streams of their own. All that a step does is enqueued on the stream; the
// host waits only where it fetches something.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "megacpp/machine/cuda/gpu.h"
#include "megacpp/machine/cuda/host_copies.h"
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/step_graph.h"
#include "megacpp/machine/cuda/tile_batch.h"
#include "megacpp/machine/cuda/upload_ring.h"
#include "megacpp/machine/runtime/chip_device.h"

namespace megacpp::runtime::cuda {

/// A chip's end of the transport.
struct Connection {
  /// Nodes between chips, as calls that enqueue on the chip's stream.
  std::function<DeviceCall(const BoundNode&)> prepare = {};
  /// Until the stream is idle; ends also where another chip has failed.
  std::function<void()> wait = {};
};

class CudaDevice final : public ChipDevice, public DeviceQueue {
 public:
  struct Options {
    int64_t chip = 0;
    int64_t arena_bytes = 0;
    int64_t host_bytes = 0;  // of pinned memory; 0: none
    /// With the other chips of this process; none: there is no other.
    std::shared_ptr<StepGraph> steps = {};
    std::function<Connection(Stream* stream)> connect = {};
  };
  /// `gpu` is shared by its chips. memory::OutOfMemory, E2003, when the GPU refuses the arena; E2005 when the host
  /// refuses pinned memory.
  CudaDevice(std::shared_ptr<Gpu> gpu, const Options& options);
  ~CudaDevice() override;

  std::byte* at(int64_t offset) const override;
  int64_t arena_bytes() const override { return arena_bytes_; }
  std::byte* at_tier(ir::Tier tier, int64_t offset) const override;
  int64_t alignment() const override { return kAlignment; }
  DeviceQueue* queue() override { return this; }
  std::byte* reserve(size_t bytes) override;
  /// What its kernels need was made for all programs at once (needs.h).
  void begin_program(const ir::Graph&) override {}
  DeviceCall prepare(const BoundNode& bound) override;
  /// Elementwise clusters that do not depend on one another are one launch (tile_batch.h).
  std::vector<std::function<void()>> finish_program() override { return launches_.take(gpu_->toolbox(), stream_); }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override;
  void upload(std::byte* to, std::span<const std::byte> from) override;
  void download(std::span<std::byte> to, const std::byte* from) const override;
  void fill(std::byte* to, size_t bytes, const FillPiece& fill) override;
  bool all_finite(const std::byte* data, const ir::TensorType& type) const override;

  void attach() override { gpu_->attach(); }
  void wait() override { wait_until_idle(); }
  /// The same step of all chips of this process, each on its thread (step_graph.h).
  void replay(const std::function<void()>& enqueue) override { steps_->run(number_, enqueue); }
  void reserve_marks(size_t count) override;
  void mark(size_t number) override;
  double seconds_between(size_t from, size_t to) const override;

 private:
  DeviceCall prepare_kernel(const BoundNode& bound);
  DeviceCall prepare_collective(const BoundNode& bound);
  DeviceCall prepare_tier_copy(const BoundNode& bound);
  void wait_until_idle() const;
  bool is_on_host(const std::byte* address) const { return host_ && host_->holds(address); }
  Address allocate(size_t bytes);
  /// Hands the bytes to `use` piece by piece, in pinned memory; what is there already as one.
  void read_pieces(const std::byte* from, size_t bytes,
                   const std::function<bool(size_t offset, std::span<const std::byte> piece)>& use) const;
  void release();

  std::shared_ptr<Gpu> gpu_;
  const Driver& driver_;
  int64_t arena_bytes_;
  std::shared_ptr<StepGraph> steps_;  // shared by the chips of this process
  size_t number_ = 0;                 // among them
  Stream* stream_ = nullptr;
  std::vector<Address> allocated_;    // the arena first
  std::unique_ptr<HostCopies> host_;  // null: all state is on the device
  std::unique_ptr<UploadRing> uploads_;
  std::byte* downloaded_ = nullptr;  // pinned
  Connection connection_;
  LaunchList launches_;  // of the program that is prepared
  std::vector<Event*> marks_;
};

}  // namespace megacpp::runtime::cuda
