// SPDX-License-Identifier: Apache-2.0
// What the compiler must know of the backend it compiles for, as data: which ops it runs, how much workspace each
// needs, how buffers are aligned. The command that compiles hands it in; no compiler stage includes a backend.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/decision.h"
#include "megacpp/core/ir/memory_tier.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::schedule {

/// Target::ops_per_byte of GPUs, whoever makes their kernels. An H200 issues 30e12 instructions a second, a dozen of
/// them for an exponential and one for a product, and moves 4.8e12 bytes: for the mix of a gate's gradient that is
/// about two ops for a byte.
inline constexpr double kGpuOpsPerByte = 2;

struct Target {
  std::string name;
  /// Whether the backend has a kernel for this node. A composite without one is decomposed: a counted fallback.
  std::function<base::Decision(std::string_view op, const ops::NodeView&)> runs;
  /// Scratch bytes the kernel needs while it runs; booked in the memory plan. A function of what it is told alone:
  /// nodes that are alike are asked about once.
  std::function<int64_t(std::string_view op, const ops::NodeView&)> workspace_bytes;
  /// Seconds that the kernel of this node takes however fast the chip multiplies and moves bytes, as nodes that are too
  /// small for these rates do. A function of what it is told alone. Empty: not known.
  std::function<double(std::string_view op, const ops::NodeView&)> least_seconds = {};
  /// Composites that are a fallback when they are taken apart; empty: all are that do not become loops. A compiler that
  /// takes most apart as a matter of course names those that it was to run as one call.
  std::function<bool(std::string_view op)> wants_whole = {};
  /// It compiles loops: a composite that it does not run becomes its looped form where it has one (OpDef::looped),
  /// before it is taken apart.
  bool compiles_loops = false;
  int64_t alignment = 64;  // bytes
  /// Scalar ops of elementwise work that take no longer than moving one byte between memory and chip: as many may be
  /// run again instead. 0: nothing is computed twice.
  double ops_per_byte = 0;
  /// Rows from which on a product runs at its full rate: one with more may be cut into parts of as many and takes no
  /// longer. 0: nothing is cut.
  int64_t full_rate_rows = 0;
  /// What a tensor takes in the backend's memory, padding of its tiles included; empty: its elements and no more. A
  /// plan with padding is for hardware that is not here: our own kernels read tensors without.
  std::function<int64_t(const ir::TensorType&)> state_storage = {};  // between steps
  std::function<int64_t(const ir::TensorType&)> value_storage = {};  // inside a step
  /// The backend orders, fuses and allocates by itself: it gets programs as decomposition leaves them, and no memory
  /// plan.
  bool schedules_itself = false;
  /// Its kernels add a tensor to their result and round it to what is asked for as they store it, at the price of
  /// reading the tensor, and widen bf16 as they load it: sums and conversions are folded into them.
  bool has_epilogues = false;
  /// Its devices copy between their own memory and these, both ways, while they compute: what is offloaded stands in
  /// the first.
  std::vector<ir::Tier> tiers = {};
  /// Buffers up to so many bytes that the nodes of a run of `fused` nodes write have bytes of their own: for a backend
  /// that runs neighbouring ones at once where the bytes that they touch allow, so that nodes that do not depend on one
  /// another do not come to by their memory. 0: none.
  int64_t separate_bytes = 0;
  /// It places buffers by itself: a memory plan counts what is alive at once, without gaps, and has no offsets.
  bool places_itself = false;
  /// It divides programs among the chips too: it gets them over global shapes, with their shardings on them.
  bool partitions_itself = false;

  int64_t bytes_of_state(const ir::TensorType& type) const {
    return state_storage ? state_storage(type) : type.bytes();
  }
  int64_t bytes_of_value(const ir::TensorType& type) const {
    return value_storage ? value_storage(type) : type.bytes();
  }
};

}  // namespace megacpp::schedule
