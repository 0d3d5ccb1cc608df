// SPDX-License-Identifier: Apache-2.0
// One virtual chip of the CPU backend: its arena, its threads, its kernels, and its end of the transport.
#pragma once

#include <memory>
#include <vector>

#include "megacpp/core/base/thread_pool.h"
#include "megacpp/machine/collectives/transport.h"
#include "megacpp/machine/cpu/arena.h"
#include "megacpp/machine/cpu/host_work.h"
#include "megacpp/machine/cpu/packing_buffers.h"
#include "megacpp/machine/runtime/chip_device.h"
#include "megacpp/machine/runtime/linked_program.h"

namespace megacpp::runtime::cpu {

class CpuDevice : public ChipDevice {
 public:
  struct Options {
    int64_t arena_bytes = 0;
    int threads = 1;
    collectives::Transport transport;  // asked how much workspace its calls want
  };
  /// What `link` refers to must outlive the device. E2005 when the machine refuses the arena or the
  /// buffers of products.
  CpuDevice(const Link& link, Options options);

  std::byte* at(int64_t offset) const override { return arena_.at(offset); }
  int64_t arena_bytes() const override { return arena_.bytes(); }
  int64_t alignment() const override { return kAlignment; }
  std::byte* reserve(size_t bytes) override;
  void begin_program(const ir::Graph& graph) override;
  DeviceCall prepare(const BoundNode& bound) override;
  void copy(std::byte* to, const std::byte* from, size_t bytes) override;
  void upload(std::byte* to, std::span<const std::byte> from) override;
  void download(std::span<std::byte> to, const std::byte* from) const override;
  void fill(std::byte* to, size_t bytes, const FillPiece& fill) override { fill(0, {to, bytes}); }
  bool all_finite(const std::byte* data, const ir::TensorType& type) const override;

 private:
  collectives::Transport transport_;
  Arena arena_;
  PackingBuffers packing_;
  base::ThreadPool pool_;
  Link link_;
  HostWork work_;
  std::vector<std::vector<std::byte>> reserved_;
  std::vector<std::unique_ptr<LinkedProgram>> linked_;  // the last is of the program being prepared
};

}  // namespace megacpp::runtime::cpu
