// SPDX-License-Identifier: Apache-2.0
// A CUDA kernel: one op on one chip. To add one: machine/cuda/kernels/<op>.cpp with a Kernel, one line in
// kernel_list.inc; device code in kernels/<op>.cu with one line in cubin_list.inc, its parameter struct in
// kernels/<op>_params.h. tests/cuda compares it with the op's reference on every sample.
// Kernels see dense row-major buffers of f32, bf16, i32 and pred (one byte), each aligned to kAlignment.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "megacpp/core/base/decision.h"
#include "megacpp/machine/cuda/function.h"
#include "megacpp/machine/cuda/tile_plan.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cuda {

class Toolbox;
struct RequiredKernels;  // required_kernels.h

inline constexpr int64_t kAlignment = 256;  // of every tensor and workspace

struct Launch {
  std::span<const Address> operands;
  std::span<const Address> results;
  Address workspace;  // 0 where the kernel asked for none
  Stream* stream;
};

/// Ready to run: shapes and attributes are already read. run() only enqueues on launch.stream: no allocation, no
/// synchronisation, no host callback, so that a step can be captured as a graph. Its launches are all on that stream.
struct Prepared {
  std::function<void(const Launch&)> run;
  /// Of a `fused` node that may share a launch with others; the same bits.
  std::optional<TableTile> table = {};
};

struct Kernel {
  std::string_view op;
  /// Asked on machines without a GPU too (plans for an H200 are made anywhere): a function of the node alone. Empty:
  /// none.
  std::function<int64_t(const ops::NodeView&)> workspace_bytes = {};
  /// Seconds that it takes on the GPUs that it is compiled for, however fast they multiply and move: what small nodes
  /// took, and nodes whose parts follow one another. Measured (bench/small_kernels). Empty: a launch and no more.
  std::function<double(const ops::NodeView&)> least_seconds = {};
  /// Empty: runs every legal node.
  std::function<base::Decision(const ops::NodeView&)> supports = {};
  /// Adds what preparing the node will ask the toolbox for and takes long to make, so that it is made for all nodes of
  /// a program together. Empty: nothing.
  std::function<void(const ops::NodeView&, RequiredKernels&)> add_required = {};
  /// At load, with a device. The view does not outlive the call: copy what you need. The toolbox outlives what is
  /// prepared.
  std::function<Prepared(const ops::NodeView&, Toolbox&)> prepare;
};

/// Kernel::least_seconds of a kernel that takes as long for every small node.
inline std::function<double(const ops::NodeView&)> at_least(double seconds) {
  return [seconds](const ops::NodeView&) { return seconds; };
}

const std::vector<Kernel>& all_kernels();
const Kernel* find_kernel(std::string_view op);

}  // namespace megacpp::runtime::cuda
