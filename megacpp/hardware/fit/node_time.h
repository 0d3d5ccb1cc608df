// SPDX-License-Identifier: Apache-2.0
// How long a chip works on one node of its program: at the rates that its file says work of the kind reaches, and at
// the peak rates, which nothing beats. A node takes as long as its arithmetic or its memory traffic, whichever is
// longer, and where kernels are launched one by one, that.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "megacpp/hardware/hw/chip.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::fit {

/// The rate at which a chip multiplies matrices.
struct MatrixRate {
  std::string dtype;  // whose rate it is: of what is multiplied, or of the chip's own widest way
  double flops_per_second;
};
/// Of a chip without any rate it is one operation a second, and the dtype empty.
MatrixRate matrix_rate(const hw::Chip& chip, std::string_view dtype);

/// Share of its peak that a chip reaches in such work, heads of attention being `head_width` wide: those of the widest
/// known width that is not wider, else of the narrowest known. Work of an unknown share is taken for products; 1 where
/// nothing is known of the chip.
double share_of_peak(const hw::Chip& chip, ops::Work work, int64_t head_width = 0);

/// Who makes the kernels of a program. Ours has one for every node that stays whole; XLA gets products of packed rows
/// with every expert, and state-space products as their parts (OpDef::cost_by_xla).
enum class Compiler : uint8_t { ours, xla };

struct NodeTime {
  double seconds = 0;            // at the rates that are reached
  double limit = 0;              // at peak rates: the roofline. What parts hand to each other is not among it
  double arithmetic = 0;         // of it, the arithmetic alone
  bool arithmetic_bound = true;  // else memory traffic takes longer
};
/// What is known of how a node is run beside what it computes and moves.
struct NodeRun {
  Compiler compiler = Compiler::ours;
  double least_seconds = 0;    // of its kernel (schedule::Target::least_seconds)
  bool shares_launch = false;  // with a node before it, whose launch is counted there
};
/// Of an op that is work. `device` as the mesh sees it (hw::device_of).
NodeTime node_time(const hw::Chip& device, const ops::OpDef& op, const ops::NodeView& view, const NodeRun& run = {});

/// What so many seconds of work take where collectives run beside its first `beside` seconds: their kernels take
/// processors and memory traffic from it.
double slowed_beside(const hw::Chip& device, double seconds, double beside);

}  // namespace megacpp::fit
