// SPDX-License-Identifier: Apache-2.0
// Every sample of every op that one chip runs, with f32 and with bf16 tensors, for tests that hold a backend's kernels
// against the ops' references.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/sample_values.h"
#include "megacpp/program/ops/verify.h"
#include "megacpp/program/schedule/decompose.h"
#include "megacpp/program/schedule/fuse.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::testing_support {

struct ConformanceCase {
  const ops::OpDef* op;
  ops::Sample sample;
  double tolerance;
};

inline void PrintTo(const ConformanceCase& c, std::ostream* out) { *out << c.op->name << "/" << c.sample.name; }

/// The sample with every f32 operand stored as bf16, when the op takes it.
inline std::optional<ops::Sample> as_bf16(const ops::OpDef& op, ops::Sample sample) {
  bool changed = false;
  for (ir::TensorType& type : sample.operands) {
    if (type.dtype != ir::DType::f32) continue;
    type.dtype = ir::DType::bf16;
    changed = true;
  }
  if (!changed) return std::nullopt;
  try {
    op.infer(sample.operands, sample.attrs);
  } catch (const base::Error&) {
    return std::nullopt;
  }
  sample.name += "_bf16";
  return sample;
}

inline bool runs_on_one_chip(const ops::OpDef& op) {
  if (op.name == ir::kInputOp || op.name == "reshape") return false;  // views of memory: nothing runs
  if (op.is_tier_copy) return false;                                  // no kernel of a backend
  return op.name != "reshard" && !op.is_collective;                   // gone after partitioning; needs other chips
}

/// Relative, of tensors in f32; those in bf16 round to 2e-2.
inline std::vector<ConformanceCase> conformance_cases(double tolerance) {
  std::vector<ConformanceCase> cases;
  for (const ops::OpDef& op : ops::all_ops()) {
    if (!runs_on_one_chip(op)) continue;
    for (const ops::Sample& sample : op.samples()) {
      cases.push_back({&op, sample, tolerance});
      if (auto narrow = as_bf16(op, sample)) cases.push_back({&op, *narrow, 2e-2});
    }
  }
  return cases;
}

/// As their dtypes store them.
inline std::vector<ops::Tensor> operands_of(const ConformanceCase& c) {
  std::vector<ops::Tensor> operands = ops::sample_operands(*c.op, c.sample);
  for (ops::Tensor& operand : operands)
    for (double& element : operand.data) element = ir::rounded(operand.type.dtype, element);
  return operands;
}

/// The op alone in a program, as the compiler hands it to the backend.
inline ir::Graph lowered_for(const schedule::Target& target, const ConformanceCase& c) {
  ir::Graph graph(c.op->name);
  ops::Builder builder(graph);
  std::vector<ir::ValueId> ids;
  for (size_t i = 0; i < c.sample.operands.size(); ++i)
    ids.push_back(builder.input("x" + std::to_string(i), c.sample.operands[i], ir::Role::batch));
  const std::vector<ir::ValueId> results = builder.node(c.op->name, ids, c.sample.attrs);
  for (size_t r = 0; r < results.size(); ++r) graph.add_output({.name = std::to_string(r), .value = results[r]});
  ir::Graph fused = schedule::lower_elementwise(schedule::fuse(schedule::decompose(graph, target).graph));
  ops::verify(fused, ops::Form::fused);
  return fused;
}

/// Operands whose memory result 0 of the node may take over, as memory/ decides it.
inline std::vector<int> replaceable_operands(const ir::Graph& graph, const ir::Node& node) {
  std::vector<int> operands;
  const ir::TensorType& result = graph.type(node.results[0]);
  const ops::OpDef& op = ops::op_def(node.op);
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const ir::TensorType& operand = graph.type(node.operands[i]);
    const bool allowed =
        node.op == "fused" ? operand.shape == node.attrs.list("shape") : op.may_alias == static_cast<int>(i);
    if (allowed && operand.dtype == result.dtype && operand.bytes() == result.bytes())
      operands.push_back(static_cast<int>(i));
  }
  return operands;
}

}  // namespace megacpp::testing_support
