// SPDX-License-Identifier: Apache-2.0
// What every op means to XLA: each sample, written as StableHLO and run by the CPU plugin, equals the reference;
// collectives on as many devices as their group has members.
#include <gtest/gtest.h>

#include "megacpp/machine/plugins/flags.h"
#include "megacpp/machine/xla/pjrt/pjrt_backend.h"
#include "megacpp/machine/xla/pjrt/program.h"
#include "megacpp/machine/xla/pjrt/step_module.h"
#include "megacpp/program/emit/module.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/schedule/decompose.h"
#include "tests/support/cpu_plugin.h"
#include "tests/support/sample_cases.h"
#include "tests/support/spmd_evaluator.h"
#include "tests/support/tensors.h"

namespace megacpp::runtime::pjrt {
namespace {

using ops::Tensor;

struct Case {
  const ops::OpDef* op;
  ops::Sample sample;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.op->name << " " << c.sample.name; }

// What never reaches XLA.
bool is_left_out(const ops::OpDef& op) { return !op.stablehlo && !op.is_composite(); }

// Loops over blocks round between their products: operands in bf16 beside statistics in f32.
ops::Sample in_bf16(ops::Sample sample) {
  for (ir::TensorType& type : sample.operands)
    if (type.dtype == ir::DType::f32 && type.rank() == 4) type.dtype = ir::DType::bf16;
  sample.name += "_bf16";
  return sample;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const ops::OpDef& op : ops::all_ops())
    for (ops::Sample& sample : op.samples()) {
      if (is_left_out(op)) continue;
      if (op.stablehlo && op.is_composite()) cases.push_back({&op, in_bf16(sample)});
      cases.push_back({&op, std::move(sample)});
    }
  return cases;
}

ir::Mesh mesh_of(const Case& c) {
  return c.op->is_collective ? ir::Mesh({{"x", c.sample.attrs.integer("parts")}}) : ir::Mesh();
}

// A program of the op alone.
ir::Graph graph_of(const Case& c) {
  ir::Graph graph(c.op->name);
  ops::Builder builder(graph);
  std::vector<ir::ValueId> operands;
  for (size_t i = 0; i < c.sample.operands.size(); ++i)
    operands.push_back(builder.input("x" + std::to_string(i), c.sample.operands[i], ir::Role::batch));
  const std::vector<ir::ValueId> results = builder.node(c.op->name, operands, c.sample.attrs);
  for (size_t r = 0; r < results.size(); ++r) graph.add_output({.name = "y" + std::to_string(r), .value = results[r]});
  return schedule::decompose(graph, xla_target(emit::Placement::megacpp)).graph;
}

std::map<std::string, Tensor> inputs_of(const Case& c, int64_t chip) {
  std::vector<Tensor> operands;
  for (size_t i = 0; i < c.sample.operands.size(); ++i)
    operands.push_back(testing_support::random_tensor(
        c.sample.operands[i], std::to_string(chip) + c.op->name + std::to_string(i), c.sample.low, c.sample.high));
  if (c.sample.fill) c.sample.fill(operands);
  std::map<std::string, Tensor> inputs;
  for (size_t i = 0; i < operands.size(); ++i) inputs["x" + std::to_string(i)] = std::move(operands[i]);
  return inputs;
}

// Every chip has tensors of its own: whole ones, one after the other.
partition::Placements apart(const ir::Mesh& mesh, const std::vector<std::pair<std::string, ir::TensorType>>& tensors) {
  partition::Placements placements;
  if (mesh.chips() == 1) return placements;
  for (const auto& [name, type] : tensors)
    placements[name] = {type, {.dims = std::vector<ir::Axes>(type.shape.size()), .unreduced = {0}}};
  return placements;
}

void expect_equals_reference(const Case& c, const ops::CompilerTraits& compiler = {}) {
  const ir::Mesh mesh = mesh_of(c);
  const ir::Graph graph = graph_of(c);
  std::vector<std::map<std::string, Tensor>> inputs;
  for (int64_t chip = 0; chip < mesh.chips(); ++chip) inputs.push_back(inputs_of(c, chip));
  const auto wanted = testing_support::evaluate_spmd(graph, mesh, inputs, ops::Rounding::none);

  std::vector<std::pair<std::string, ir::TensorType>> in, out;
  for (const ir::NodeId id : graph.inputs())
    in.emplace_back(graph.node(id).attrs.text("name"), graph.type(graph.node(id).results[0]));
  for (const ir::Output& output : graph.outputs()) out.emplace_back(output.name, graph.type(output.value));
  const emit::Module module = emit::write_program(graph, mesh, apart(mesh, in), apart(mesh, out),
                                                  emit::Placement::megacpp, {.compiler = compiler});

  const Client client = testing_support::cpu_client(mesh.chips());
  const auto flags = plugins::resolve_flags({}, plugins::flag_target_here(plugins::PluginKind::cpu));
  const LoadedProgram program =
      compile(client, module.text, options_for(client.devices(), mesh.chips(), plugins::override_form(flags)), "test");
  std::vector<Buffer> buffers;
  std::vector<std::vector<const Buffer*>> arguments(static_cast<size_t>(mesh.chips()));
  buffers.reserve(arguments.size() * module.arguments.size());
  for (size_t chip = 0; chip < arguments.size(); ++chip)
    for (const emit::Port& port : module.arguments) {
      std::vector<std::byte> bytes(static_cast<size_t>(port.local.bytes()));
      testing_support::encode(inputs[chip].at(port.name), bytes.data());
      buffers.emplace_back(client, chip, port.local, bytes);
      arguments[chip].push_back(&buffers.back());
    }
  const Execution execution = program.execute(arguments);
  for (size_t chip = 0; chip < arguments.size(); ++chip)
    for (size_t r = 0; r < module.results.size(); ++r) {
      const emit::Port& port = module.results[r];
      std::vector<std::byte> bytes(static_cast<size_t>(port.local.bytes()));
      execution.outputs[chip][r].to_host(bytes);
      const Tensor& expected = wanted[chip].at(port.name);
      const double tolerance = expected.type.dtype == ir::DType::bf16 ? 1e-2 : 2e-5;
      EXPECT_TRUE(testing_support::is_close(testing_support::decode(expected.type, bytes.data()), expected, tolerance))
          << port.name << " of chip " << chip << "\n"
          << module.text;
    }
}

class OpSamplesTest : public testing_support::CpuPluginTest, public testing::WithParamInterface<Case> {};
INSTANTIATE_TEST_SUITE_P(Samples, OpSamplesTest, testing::ValuesIn(all_cases()),
                         testing_support::sample_case_name<Case>);

TEST_P(OpSamplesTest, EqualsTheReference) { expect_equals_reference(GetParam()); }

class SquareSliceTest : public testing_support::CpuPluginTest {};

TEST_F(SquareSliceTest, AReduceScatterOverColumnsAndRowsEqualsTheReference) {
  const ops::Sample sample{.name = "over_16",
                           .operands = {{ir::DType::f32, {32, 3}}, {ir::DType::f32, {2, 48}}},
                           .attrs = {{"axes", std::string("x")}, {"parts", int64_t{16}}, {"dims", ir::Shape{0, 1}}}};
  expect_equals_reference({&ops::op_def("reduce_scatter"), sample}, {.has_square_scatters = false});
}

}  // namespace
}  // namespace megacpp::runtime::pjrt
