// SPDX-License-Identifier: Apache-2.0
// A cluster of elementwise ops with their broadcasts and trailing reductions, run in one pass. Made by schedule/fuse.
#include <limits>
#include <sstream>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"
#include "megacpp/program/ops/tile_program.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::Shape;

Types fused_infer(const Types& operands, const ir::Attrs& attrs) {
  const TileProgram program = parse_tile_program(attrs.text("program"));
  const Shape& shape = attrs.list("shape");
  size_t inputs = 0;
  for (const TileInstruction& instruction : program.instructions) {
    if (instruction.kind != TileInstruction::Kind::input) continue;
    MEGACPP_REQUIRE(
        inputs < operands.size() && instruction.dims.size() == operands[inputs].shape.size(), E1301,
        {.where = "fused", .got = "input " + std::to_string(inputs), .wanted = "one dimension map per operand"});
    for (size_t i = 0; i < instruction.dims.size(); ++i) {
      require_dim("fused", instruction.dims[i], shape);
      MEGACPP_REQUIRE(
          operands[inputs].shape[i] == shape[static_cast<size_t>(instruction.dims[i])], E1301,
          {.where = "fused", .got = to_string(operands[inputs]), .wanted = "sizes of " + ir::to_string(shape)});
    }
    ++inputs;
  }
  require_operand_count("fused", operands, inputs);
  std::istringstream dtypes(attrs.text("dtypes"));  // one name per output, separated by spaces
  Types types;
  for (const TileOutput& output : program.outputs) {
    MEGACPP_REQUIRE(output.reduced_dims <= static_cast<int64_t>(shape.size()), E1301,
                    {.where = "fused",
                     .got = "a reduction of " + std::to_string(output.reduced_dims) + " dimensions",
                     .wanted = "at most those of " + ir::to_string(shape)});
    std::string dtype;
    dtypes >> dtype;
    types.push_back({require_dtype("fused", dtype), Shape(shape.begin(), shape.end() - output.reduced_dims)});
  }
  return types;
}

Factors fused_factors(const NodeView& view) {
  const TileProgram program = parse_tile_program(view.attrs.text("program"));
  const Shape& shape = view.attrs.list("shape");
  Factors factors;
  int64_t whole_from = static_cast<int64_t>(shape.size());  // dims that a max folds must stay whole
  for (const TileOutput& output : program.outputs)
    if (output.kind == TileOutput::Kind::max)
      whole_from = std::min(whole_from, static_cast<int64_t>(shape.size()) - output.reduced_dims);
  for (size_t d = 0; d < shape.size(); ++d)
    factors.factors.push_back({"d" + std::to_string(d), shape[d],
                               static_cast<int64_t>(d) < whole_from ? FactorKind::parallel : FactorKind::replicated});
  for (const TileInstruction& instruction : program.instructions) {
    if (instruction.kind != TileInstruction::Kind::input) continue;
    factors.operands.emplace_back();
    for (const int64_t dim : instruction.dims) factors.operands.back().push_back({static_cast<int>(dim)});
  }
  for (const ir::TensorType& type : view.results) {
    factors.results.emplace_back();
    for (int d = 0; d < type.rank(); ++d) factors.results.back().push_back({d});
  }
  return factors;
}

void fused_reference(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const TileProgram program = parse_tile_program(attrs.text("program"));
  const Shape& shape = attrs.list("shape");
  for (size_t o = 0; o < results.size(); ++o)
    if (program.outputs[o].kind == TileOutput::Kind::max)
      for (double& element : results[o].data) element = -std::numeric_limits<double>::infinity();
  std::vector<double> registers(program.instructions.size());
  for_each_index(shape, [&](const Shape& index) {
    size_t operand = 0;
    for (size_t r = 0; r < registers.size(); ++r) {
      const TileInstruction& instruction = program.instructions[r];
      if (instruction.kind == TileInstruction::Kind::constant) {
        registers[r] = instruction.value;
      } else if (instruction.kind == TileInstruction::Kind::input) {
        Shape at;
        for (const int64_t dim : instruction.dims) at.push_back(index[static_cast<size_t>(dim)]);
        registers[r] = operands[operand][flat_index(at, operands[operand].type.shape)];
        ++operand;
      } else {
        double args[3] = {0, 0, 0};
        for (size_t a = 0; a < instruction.args.size(); ++a)
          args[a] = registers[static_cast<size_t>(instruction.args[a])];
        registers[r] = instruction.op->apply(args[0], args[1], args[2]);
      }
    }
    for (size_t o = 0; o < results.size(); ++o) {
      const Shape at(index.begin(), index.end() - program.outputs[o].reduced_dims);
      double& element = results[o][flat_index(at, results[o].type.shape)];
      const double value = registers[static_cast<size_t>(program.outputs[o].reg)];
      switch (program.outputs[o].kind) {
        case TileOutput::Kind::store:
          element = value;
          break;
        case TileOutput::Kind::sum:
          element += value;
          break;
        case TileOutput::Kind::max:
          element = std::max(element, value);
          break;
      }
    }
  });
}

Sample fused_sample(std::string name, Types operands, Shape shape, std::string program, std::string dtypes = "f32") {
  return {.name = std::move(name),
          .operands = std::move(operands),
          .attrs = {{"shape", std::move(shape)}, {"program", std::move(program)}, {"dtypes", std::move(dtypes)}}};
}

}  // namespace

OpDef fused_def() {
  OpDef def;
  def.name = "fused";
  def.doc = "a scalar program over every element: elementwise ops, broadcasts and trailing reductions in one pass";
  def.infer = fused_infer;
  def.factors = fused_factors;
  def.no_grad = "made by the scheduler, after gradients are taken";
  def.cost = [](const NodeView& view) {
    const TileProgram program = parse_tile_program(view.attrs.text("program"));
    double flops = 0;
    for (const TileInstruction& instruction : program.instructions)
      if (instruction.kind == TileInstruction::Kind::scalar) flops += 1;
    for (const TileOutput& output : program.outputs)
      if (output.kind != TileOutput::Kind::store) flops += 1;
    return Cost{flops * static_cast<double>(ir::num_elements(view.attrs.list("shape")))};
  };
  def.work = Work::elementwise;
  def.reference = fused_reference;
  def.samples = [] {
    const auto f32 = [](Shape shape) { return ir::TensorType{DType::f32, std::move(shape)}; };
    return std::vector<Sample>{
        fused_sample("silu", {f32({4, 6})}, {4, 6}, "in(0,1) logistic(%0) mul(%0,%1) out(%2)"),
        fused_sample("row_and_column", {f32({4, 6}), f32({6}), f32({4})}, {4, 6},
                     "in(0,1) in(1) in(0) mul(%0,%1) add(%3,%2) out(%4)"),
        fused_sample("square_sum", {f32({4, 6})}, {4, 6}, "in(0,1) mul(%0,%0) sum(%1;1)"),
        fused_sample("sum_all_and_store", {f32({2, 4, 6}), f32({2, 6})}, {2, 4, 6},
                     "in(0,1,2) in(0,2) mul(%0,%1) out(%2) sum(%2;3)", "f32 f32"),
        fused_sample("max_rows", {f32({4, 6})}, {4, 6}, "in(0,1) exp(%0) max(%1;1)"),
        fused_sample("head_broadcast", {f32({2, 4, 2, 3}), f32({2})}, {2, 4, 2, 3},
                     "in(0,1,2,3) in(2) const(0.5) mul(%0,%1) add(%3,%2) tanh(%4) out(%5)"),
        fused_sample("bf16_store", {{DType::bf16, {4, 6}}, f32({6})}, {4, 6},
                     "in(0,1) in(1) add(%0,%1) out(%2) out(%0)", "bf16 f32"),
        fused_sample("predicate", {{DType::i32, {4, 6}}, {DType::i32, {4}}}, {4, 6}, "in(0,1) in(0) lt(%0,%1) out(%2)",
                     "pred"),
        fused_sample("gradients_of_a_gate", {f32({4, 16}), f32({4, 16}), f32({16}), f32({4, 16})}, {4, 16},
                     "in(0,1) in(0,1) in(1) add(%1,%2) logistic(%3) mul(%3,%4) mul(%0,%5) "
                     "in(0,1) mul(%0,%7) mul(%8,%4) mul(%8,%3) mul(%10,%4) mul(%11,%4) "
                     "sub(%11,%12) add(%9,%13) out(%6) out(%14)",
                     "f32 f32"),
        fused_sample("scalar", {f32({})}, {}, "in() const(2) mul(%0,%1) out(%2)")};
  };
  return def;
}

}  // namespace megacpp::ops
