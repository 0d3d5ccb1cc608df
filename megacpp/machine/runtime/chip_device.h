// SPDX-License-Identifier: Apache-2.0
// What a backend with kernels of its own brings for one chip: an arena, a way to turn a node into a call, copies, and
// where its calls only enqueue, a queue. All the rest of running a compiled program (native_chip.h) is the same for
// all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/graph.h"
#include "megacpp/core/ir/memory_tier.h"
#include "megacpp/machine/runtime/fill_piece.h"

namespace megacpp::runtime {

/// A node ready to run: shapes, attributes and addresses are resolved.
struct DeviceCall {
  std::function<void()> run;
  /// What is still in flight when run() returns: a send, until something overwrites its operand or the step ends. May
  /// be empty.
  std::function<void()> drain = {};
  int64_t workspace_bytes = 0;  // that run() uses
};

/// A node with the addresses its plan gives it, which stay as long as the call. `workspace` is null where the plan has
/// none for it.
struct BoundNode {
  const ir::Graph& graph;
  const ir::Node& node;
  std::span<std::byte* const> operands;
  std::span<std::byte* const> results;
  std::byte* workspace = nullptr;
};

/// Of a device whose calls only enqueue: it runs them in their order while its host goes on.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  /// On the thread that enqueues, before anything of a step.
  virtual void attach() = 0;
  /// Returns when all that was enqueued is done. What the device failed with since is raised here, or by any call.
  virtual void wait() = 0;

  /// Enqueues a step: what `enqueue` puts there. Every call must mean the same, so that the device may keep what an
  /// earlier one enqueued and put that there at once. All chips of a process replay a step, each on its thread, or none
  /// does.
  virtual void replay(const std::function<void()>& enqueue) = 0;

  /// Moments on the device's own clock, by numbers from 0. Asked for at load.
  virtual void reserve_marks(size_t count) = 0;
  /// When all that was enqueued before is done.
  virtual void mark(size_t number) = 0;
  /// Between two marks that have passed.
  virtual double seconds_between(size_t from, size_t to) const = 0;
};

class ChipDevice {
 public:
  virtual ~ChipDevice() = default;

  /// An address in the arena, which is as long as the plan and begins as zeros.
  virtual std::byte* at(int64_t offset) const = 0;
  virtual int64_t arena_bytes() const = 0;
  /// The same in another tier, of a device whose target has that (schedule::Target::tiers). All that takes an address
  /// below takes one of these too, but copy().
  virtual std::byte* at_tier(ir::Tier tier, int64_t offset) const {
    MEGACPP_CHECK(false) << "byte " << offset << " in " << ir::record(tier).what << " on a device that has none";
    return nullptr;
  }
  virtual int64_t alignment() const = 0;  // of every tensor, as the target said
  /// Null where calls are done when they return.
  virtual DeviceQueue* queue() { return nullptr; }
  /// Memory beside the arena, for staged batches and fetched outputs, as long as the device lives. Asked for at load.
  virtual std::byte* reserve(size_t bytes) = 0;

  /// Called once for each program before its nodes are prepared, in their order: a done finds what was started for it.
  virtual void begin_program(const ir::Graph& graph) = 0;
  /// Nodes between chips become calls to the transport. Nothing is allocated when a call runs.
  virtual DeviceCall prepare(const BoundNode& bound) = 0;
  /// Called once for each program behind its nodes: the work of all of them, with the same bits, for steps that nothing
  /// looks into. Several nodes may be one entry, and ones that do not depend on one another change places. Empty: their
  /// calls one by one.
  virtual std::vector<std::function<void()>> finish_program() { return {}; }

  /// Between addresses of the device, in the order of the calls around it.
  virtual void copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
  /// Between the host and the device, in the order of the calls around them. `from` is free when upload() returns, and
  /// what is downloaded is there.
  virtual void upload(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to, const std::byte* from) const = 0;
  /// As upload(), of bytes that `fill` makes in memory that the device takes them from.
  virtual void fill(std::byte* to, size_t bytes, const FillPiece& fill) = 0;
  /// Whether all numbers of a tensor of floats are finite.
  virtual bool all_finite(const std::byte* data, const ir::TensorType& type) const = 0;
};

}  // namespace megacpp::runtime
