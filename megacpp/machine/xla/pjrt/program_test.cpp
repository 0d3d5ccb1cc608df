// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/program.h"

#include <gtest/gtest.h>

#include "tests/support/cpu_plugin.h"
#include "tests/support/errors.h"

namespace megacpp::runtime::pjrt {
namespace {

using base::Code;
using testing_support::cpu_client;
using testing_support::download;
using testing_support::kAdd;
using testing_support::problem_of;
using testing_support::upload;

class ProgramTest : public testing_support::CpuPluginTest {};

/// state + grad, in the bytes of state; and the sum of grad.
constexpr const char* kUpdate = R"(
module @update {
  func.func public @main(%state: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %grad: tensor<4xf32>)
      -> (tensor<4xf32>, tensor<f32>) {
    %next = stablehlo.add %state, %grad : tensor<4xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%grad init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    return %next, %sum : tensor<4xf32>, tensor<f32>
  }
}
)";

/// x[8,4] * w[4,2], rows of x over 8 devices, and the sum of all of it on every device.
constexpr const char* kSharded = R"(
module @sharded {
  sdy.mesh @mesh = <["data"=8]>
  func.func public @main(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
                         %w: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})
      -> (tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
          tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>}) {
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0, 1]
        : (tensor<8x2xf32>, tensor<f32>) -> tensor<f32>
    return %y, %sum : tensor<8x2xf32>, tensor<f32>
  }
}
)";

std::vector<std::vector<const Buffer*>> on_one_device(std::initializer_list<const Buffer*> arguments) {
  return {std::vector<const Buffer*>(arguments)};
}

TEST_F(ProgramTest, RunsOnOneDevice) {
  const Client client = cpu_client(1);
  const LoadedProgram program = compile(client, kAdd, {}, "first use");
  EXPECT_EQ(program.devices(), std::vector<size_t>{0});
  const Buffer x = upload(client, 0, {2, 3}, {1, 2, 3, 4, 5, 6});
  const Buffer y = upload(client, 0, {2, 3}, {10, 20, 30, 40, 50, 60});
  const Execution execution = program.execute(on_one_device({&x, &y}));
  EXPECT_EQ(client.counters().host_syncs, 0);
  execution.await();
  ASSERT_EQ(execution.outputs.size(), 1u);
  ASSERT_EQ(execution.outputs[0].size(), 1u);
  EXPECT_EQ(download(execution.outputs[0][0]), (std::vector<float>{11, 22, 33, 44, 55, 66}));
  EXPECT_FALSE(x.is_deleted());
  const Counters counters = client.counters();
  EXPECT_EQ(counters.executions, 1);
  EXPECT_EQ(counters.compiles, (std::map<std::string, int64_t>{{"first use", 1}}));
  EXPECT_GT(counters.compile_seconds, 0);
}

TEST_F(ProgramTest, DonatedArgumentsBecomeOutputsStepAfterStep) {
  const Client client = cpu_client(1);
  const LoadedProgram program = compile(client, kUpdate, {});
  const Buffer grad = upload(client, 0, {4}, {1, 2, 3, 4});
  const Buffer first = upload(client, 0, {4}, {0, 0, 0, 0});
  Execution execution = program.execute(on_one_device({&first, &grad}));
  EXPECT_TRUE(first.is_deleted());
  for (int step = 1; step < 5; ++step) {
    const Buffer state = std::move(execution.outputs[0][0]);
    execution = program.execute(on_one_device({&state, &grad}));
    EXPECT_TRUE(state.is_deleted());
  }
  EXPECT_FALSE(grad.is_deleted());
  EXPECT_EQ(client.counters().host_syncs, 0);
  EXPECT_EQ(client.counters().executions, 5);
  EXPECT_EQ(download(execution.outputs[0][0]), (std::vector<float>{5, 10, 15, 20}));
  EXPECT_EQ(download(execution.outputs[0][1]), std::vector<float>{10});
  problem_of(Code::E3201, [&] { program.execute(on_one_device({&first, &grad})); });
}

TEST_F(ProgramTest, ADonorsBytesAreUsedWhereTheCompilerLikes) {
  const Client client = cpu_client(1);
  std::string text = kUpdate;
  const std::string aliased = "tf.aliasing_output = 0 : i32";
  text.replace(text.find(aliased), aliased.size(), "jax.buffer_donor = true");
  const LoadedProgram program = compile(client, text, {});
  EXPECT_EQ(program.compiled().memory()->alias, 16);
  const Buffer grad = upload(client, 0, {4}, {1, 2, 3, 4});
  const Buffer state = upload(client, 0, {4}, {1, 1, 1, 1});
  const Execution execution = program.execute(on_one_device({&state, &grad}));
  EXPECT_TRUE(state.is_deleted());
  EXPECT_EQ(download(execution.outputs[0][0]), (std::vector<float>{2, 3, 4, 5}));
}

TEST_F(ProgramTest, XlaDividesAShardedProgramOverEightDevices) {
  const Client client = cpu_client(8);
  const CompileOptions options{
      .partitions = 8, .spmd_partitioning = true, .shardy = true, .device_ids = {0, 1, 2, 3, 4, 5, 6, 7}};
  const LoadedProgram program = compile(client, kSharded, options);
  EXPECT_EQ(program.devices(), (std::vector<size_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(program.compiled().output_types(),
            (std::vector<ir::TensorType>{{ir::DType::f32, {1, 2}}, {ir::DType::f32, {}}}));
  std::vector<Buffer> buffers;
  for (size_t d = 0; d < 8; ++d) {
    const auto row = static_cast<float>(d);
    buffers.push_back(upload(client, d, {1, 4}, {row, 1, 0, 0}));
    buffers.push_back(upload(client, d, {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  }
  std::vector<std::vector<const Buffer*>> arguments;
  for (size_t d = 0; d < 8; ++d) arguments.push_back({&buffers[2 * d], &buffers[2 * d + 1]});
  const Execution execution = program.execute(arguments);
  execution.await();
  for (size_t d = 0; d < 8; ++d) {
    const auto row = static_cast<float>(d);
    EXPECT_EQ(download(execution.outputs[d][0]), (std::vector<float>{row + 3, 2 * row + 4}));
    EXPECT_EQ(download(execution.outputs[d][1]), std::vector<float>{3 * 28 + 8 * 7});
  }
  EXPECT_EQ(client.counters().executions, 1);
}

TEST_F(ProgramTest, ADeviceAssignmentMovesTheProgram) {
  const Client client = cpu_client(3);
  const LoadedProgram program = compile(client, kAdd, {.device_ids = {2}});
  EXPECT_EQ(program.devices(), std::vector<size_t>{2});
  const Buffer x = upload(client, 2, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(download(program.execute(on_one_device({&x, &x})).outputs[0][0]), (std::vector<float>{2, 4, 6, 8, 10, 12}));
}

TEST_F(ProgramTest, TellsWhatItNeedsAndCosts) {
  const Client client = cpu_client(1);
  const LoadedProgram program = compile(client, kUpdate, {});
  const CompiledProgram& compiled = program.compiled();
  EXPECT_NE(compiled.name().find("update"), std::string::npos) << compiled.name();
  EXPECT_EQ(compiled.num_outputs(), 2);
  EXPECT_EQ(compiled.output_types(), (std::vector<ir::TensorType>{{ir::DType::f32, {4}}, {ir::DType::f32, {}}}));
  const std::optional<CompiledMemory> memory = compiled.memory();
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->argument, 32);
  EXPECT_EQ(memory->alias, 16);
  EXPECT_GE(memory->output, 20);
  const std::map<std::string, double> cost = compiled.cost();
  ASSERT_TRUE(cost.contains("flops"));
  EXPECT_GE(cost.at("flops"), 7);
  EXPECT_GT(cost.at("bytes accessed"), 0);
  const OptimizedProgram optimized = compiled.optimized();
  EXPECT_FALSE(optimized.format.empty());
  EXPECT_NE(optimized.code.find("update"), std::string::npos);
}

TEST_F(ProgramTest, WhatWasSerializedRunsInAnotherClient) {
  std::string bytes;
  {
    const Client client = cpu_client(1);
    bytes = compile(client, kAdd, {}).compiled().serialize();
  }
  const Client client = cpu_client(1);
  const LoadedProgram program = load_serialized(client, bytes);
  const Buffer x = upload(client, 0, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(download(program.execute(on_one_device({&x, &x})).outputs[0][0]), (std::vector<float>{2, 4, 6, 8, 10, 12}));
  EXPECT_TRUE(client.counters().compiles.empty());
}

TEST_F(ProgramTest, ResultsOutliveProgramAndClient) {
  std::optional<Execution> execution;
  {
    const Client client = cpu_client(1);
    const LoadedProgram program = compile(client, kAdd, {});
    const Buffer x = upload(client, 0, {2, 3}, {1, 2, 3, 4, 5, 6});
    execution.emplace(program.execute(on_one_device({&x, &x})));
  }
  EXPECT_EQ(download(execution->outputs[0][0]), (std::vector<float>{2, 4, 6, 8, 10, 12}));
}

TEST_F(ProgramTest, WhatThePluginCannotRunIsNamed) {
  const Client client = cpu_client(1);
  const base::Problem problem = problem_of(Code::E1505, [&] {
    compile(client, R"(
      func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %y = stablehlo.custom_call @no_such_call(%x) : (tensor<2xf32>) -> tensor<2xf32>
        return %y : tensor<2xf32>
      })",
            {});
  });
  EXPECT_NE(problem.got.find("no_such_call"), std::string::npos) << problem.got;
}

TEST_F(ProgramTest, TextThatIsNoProgramKeepsTheCompilersWords) {
  const Client client = cpu_client(1);
  const base::Problem problem = problem_of(Code::E3201, [&] { compile(client, "module { what }", {}); });
  EXPECT_FALSE(problem.got.empty());
  EXPECT_TRUE(client.counters().compiles.empty());
}

TEST_F(ProgramTest, FlagsReachTheCompiler) {
  const Client client = cpu_client(1);
  EXPECT_NO_THROW(compile(client, kAdd, {.flags = {{"xla_cpu_enable_fast_math", false}}}));
  EXPECT_NO_THROW(compile(client, kAdd, {.flags = {{"xla_backend_optimization_level", int64_t{1}}}}));
  EXPECT_NO_THROW(compile(client, kAdd, {.optimization = Effort::o1, .memory_fitting = Effort::o0}));
  const base::Problem problem = problem_of(Code::E3201, [&] {
    compile(client, kAdd, {.flags = {{"xla_no_such_flag", true}}});
  });
  EXPECT_NE(problem.got.find("xla_no_such_flag"), std::string::npos) << problem.got;
}

TEST_F(ProgramTest, ElementTypesOfOtherWidthsAreRefusedByName) {
  const Client client = cpu_client(1);
  const LoadedProgram program = compile(client, R"(
    func.func public @main(%x: tensor<2xf32>) -> tensor<2xi64> {
      %y = stablehlo.convert %x : (tensor<2xf32>) -> tensor<2xi64>
      return %y : tensor<2xi64>
    })",
                                        {});
  problem_of(Code::E1505, [&] { program.compiled().output_types(); });
}

}  // namespace
}  // namespace megacpp::runtime::pjrt
