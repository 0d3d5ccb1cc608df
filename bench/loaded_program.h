// SPDX-License-Identifier: Apache-2.0
// Programs of one op on the GPU of this machine, with memory of their own for every value: what benchmarks of kernels
// time. Inputs are random numbers, and counts of rows uneven, as routers leave them.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/machine/cuda/gpu.h"
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::runtime::cuda {

inline constexpr int64_t kChunkRows = 8192;  // in use of each chunk of experts' rows, by all experts together

struct OpCase {
  std::string name;
  std::string op;
  ops::Types operands;
  ir::Attrs attrs;

  double flops() const;
};

inline ir::TensorType bf16_type(ir::Shape shape) { return {ir::DType::bf16, std::move(shape)}; }

/// The op as the compiler hands it to the backend that `target` is of.
ir::Graph program_of(const OpCase& one, const schedule::Target& target);

class LoadedProgram {
 public:
  /// std::runtime_error where the GPU has no room for it.
  LoadedProgram(ir::Graph graph, const Gpu& gpu);

  void fill_inputs() const;
  /// Of one run, of so many one behind the other.
  double seconds(int repeats) const;

 private:
  struct Step {
    Prepared prepared;
    std::vector<Address> operands, results;
    Address workspace;
  };

  int64_t workspace_bytes(const ir::Node& node) const;
  void prepare(const ir::Node& node);
  void fill(ir::ValueId value, std::mt19937& random) const;
  void run(Stream* stream) const;

  const ir::Graph graph_;
  const Gpu& gpu_;
  std::unique_ptr<Borrowed> memory_;
  std::vector<Address> values_, workspaces_;
  std::vector<Step> steps_;
};

}  // namespace megacpp::runtime::cuda
