// SPDX-License-Identifier: Apache-2.0
// Every op of the table, partitioned: each sample with each operand dimension split over one axis or two, evenly or
// not, or with partial sums, runs on all chips of a mesh and must give what the whole op gives. Where results could be
// split in ways no operand asks for, they are asked for.
#include <gtest/gtest.h>

#include <cmath>

#include "megacpp/core/base/philox.h"
#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/partition/partition.h"
#include "tests/support/spmd_evaluator.h"

namespace megacpp::partition {
namespace {

using ops::Tensor;

const ir::Mesh kMesh({{"a", 2}, {"b", 3}});

struct Case {
  const ops::OpDef* op;
  ops::Sample sample;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.op->name << "/" << c.sample.name; }

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const ops::OpDef& op : ops::all_ops())
    if (!op.is_collective && op.name != "fused" && op.name != "input" && op.name != "reshard")
      for (const ops::Sample& sample : op.samples()) cases.push_back({&op, sample});
  return cases;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.op->name + "_" + info.param.sample.name;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name + "_" + std::to_string(info.index);
}

std::vector<Tensor> draw(const ops::Sample& sample) {
  std::vector<Tensor> operands;
  for (size_t i = 0; i < sample.operands.size(); ++i) {
    const base::Philox random(7, "operand" + std::to_string(i));
    Tensor tensor = Tensor::zeros(sample.operands[i]);
    for (int64_t e = 0; e < tensor.elements(); ++e) {
      const double drawn = sample.low + (sample.high - sample.low) * random.uniform(static_cast<uint64_t>(e));
      tensor[e] = ir::is_float(tensor.type.dtype) ? drawn : std::floor(drawn);
    }
    operands.push_back(std::move(tensor));
  }
  if (sample.fill) sample.fill(operands);
  return operands;
}

// The op alone between inputs sharded as `inputs` says and outputs pinned to `outputs` where given.
ir::Graph sample_program(const Case& c, const std::vector<ir::Sharding>& inputs,
                         const std::vector<ir::Sharding>& outputs) {
  ir::Graph graph("sample");
  ops::Builder b(graph);
  std::vector<ir::ValueId> operands;
  for (size_t i = 0; i < inputs.size(); ++i) {
    operands.push_back(
        b.input("x" + std::to_string(i), c.sample.operands[i], ir::Role::batch, to_string(inputs[i], kMesh)));
  }
  const std::vector<ir::ValueId> results = b.node(c.op->name, operands, c.sample.attrs);
  for (size_t r = 0; r < results.size(); ++r) {
    ir::ValueId result = results[r];
    if (r < outputs.size())
      result = b.one("reshard", {result}, {{"from", std::string()}, {"to", to_string(outputs[r], kMesh)}});
    graph.add_output({.name = "y" + std::to_string(r), .value = result});
  }
  return graph;
}

void expect_same(const Case& c, const std::vector<ir::Sharding>& inputs, const std::vector<ir::Sharding>& outputs) {
  const ir::Graph whole = sample_program(c, inputs, outputs);
  const Partitioned parts = partition(whole, kMesh);
  const std::vector<Tensor> operands = draw(c.sample);
  std::map<std::string, Tensor> whole_inputs;
  std::vector<std::map<std::string, Tensor>> chip_inputs(static_cast<size_t>(kMesh.chips()));
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    whole_inputs.emplace(name, operands[i]);
    for (int64_t chip = 0; chip < kMesh.chips(); ++chip)
      chip_inputs[static_cast<size_t>(chip)].emplace(name, testing_support::shard(operands[i], inputs[i], kMesh, chip));
  }
  const auto wanted = ops::evaluate(whole, whole_inputs, ops::Rounding::none);
  const auto got = testing_support::evaluate_spmd(parts.graph, kMesh, chip_inputs, ops::Rounding::none);
  for (const auto& [name, tensor] : wanted) {
    std::vector<Tensor> per_chip;
    for (const auto& chip : got) per_chip.push_back(chip.at(name));
    const Placement& placement = parts.outputs.at(name);
    const Tensor joined = testing_support::unshard(per_chip, tensor.type.shape, placement.sharding, kMesh);
    for (int64_t e = 0; e < tensor.elements(); ++e)
      ASSERT_NEAR(joined[e], tensor[e], 1e-9 * (1.0 + std::fabs(tensor[e])))
          << name << "[" << e << "]\n"
          << ir::print(whole) << ir::print(parts.graph);
  }
}

std::vector<ir::Sharding> all_whole(const ops::Types& types) {
  std::vector<ir::Sharding> shardings;
  for (const ir::TensorType& type : types) shardings.push_back(ir::Sharding::replicated(type.shape.size()));
  return shardings;
}

class PartitionOpsTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Ops, PartitionOpsTest, testing::ValuesIn(all_cases()), case_name);

const std::vector<ir::Axes>& some_axes() {
  static const std::vector<ir::Axes> axes = {{0}, {1}, {1, 0}};
  return axes;
}

TEST_P(PartitionOpsTest, AnySplitOperandGivesTheWholeResult) {
  const Case& c = GetParam();
  const std::vector<ir::Sharding> whole = all_whole(c.sample.operands);
  for (size_t i = 0; i < whole.size(); ++i)
    for (size_t d = 0; d < whole[i].dims.size(); ++d)
      for (const ir::Axes& axes : some_axes()) {
        std::vector<ir::Sharding> inputs = whole;
        inputs[i].dims[d] = axes;
        expect_same(c, inputs, {});
      }
}

TEST_P(PartitionOpsTest, OperandsSplitAgainstEachOtherGiveTheWholeResult) {
  const Case& c = GetParam();
  const std::vector<ir::Sharding> whole = all_whole(c.sample.operands);
  for (size_t i = 0; i < whole.size(); ++i)
    for (size_t j = 0; j < whole.size(); ++j) {
      if (i == j || whole[i].dims.empty() || whole[j].dims.empty()) continue;
      std::vector<ir::Sharding> inputs = whole;
      inputs[i].dims.front() = {0};
      inputs[j].dims.back() = {0, 1};
      expect_same(c, inputs, {});
    }
}

TEST_P(PartitionOpsTest, PartialSumsGiveTheWholeResult) {
  const Case& c = GetParam();
  const std::vector<ir::Sharding> whole = all_whole(c.sample.operands);
  for (size_t i = 0; i < whole.size(); ++i) {
    if (!ir::is_float(c.sample.operands[i].dtype)) continue;
    std::vector<ir::Sharding> inputs = whole;
    inputs[i].unreduced = {0};
    expect_same(c, inputs, {});
    if (inputs[i].dims.empty()) continue;
    inputs[i].dims.back() = {1};
    expect_same(c, inputs, {});
  }
}

TEST_P(PartitionOpsTest, ResultsLieAsAskedFor) {
  const Case& c = GetParam();
  const std::vector<ir::Sharding> inputs = all_whole(c.sample.operands);
  const std::vector<ir::Sharding> whole = all_whole(c.op->infer(c.sample.operands, c.sample.attrs));
  for (size_t d = 0; d < whole[0].dims.size(); ++d)
    for (const ir::Axes& axes : some_axes()) {
      std::vector<ir::Sharding> outputs = {whole[0]};
      outputs[0].dims[d] = axes;
      expect_same(c, inputs, outputs);
    }
}

}  // namespace
}  // namespace megacpp::partition
