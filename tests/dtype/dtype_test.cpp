// SPDX-License-Identifier: Apache-2.0
// A fifth element type is one file (f8e4m3.cpp) and one line (dtype_list.inc): graphs, plans, checkpoints, StableHLO,
// reductions and the kernels of the CPU backend take it from there.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "megacpp/core/ir/text.h"
#include "megacpp/hardware/fit/node_time.h"
#include "megacpp/hardware/hw/chip_library.h"
#include "megacpp/hardware/hw/tiled_layout.h"
#include "megacpp/machine/collectives/reduce.h"
#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/storage.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/emit/module.h"
#include "megacpp/program/memory/memory_plan.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/schema.h"
#include "megacpp/run/checkpoint/safetensors.h"
#include "megacpp/run/data/batches.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/train/run_state.h"
#include "megacpp/run/train/train.h"
#include "tests/support/dtype_contract.h"
#include "tests/support/plain_target.h"
#include "tests/support/tensors.h"

namespace megacpp::testing_support {
namespace {

using ir::DType;
using ops::Tensor;

DType eight() { return ir::dtype_named("f8e4m3"); }

/// y = narrow(x) narrow(w), summed in f32.
ir::Graph product_graph() {
  ir::Graph graph("product");
  ops::Builder b(graph);
  const ir::ValueId x = b.convert(b.input("x", {DType::f32, {6, 16}}, ir::Role::batch), eight());
  const ir::ValueId w = b.input("w", {eight(), {16, 4}}, ir::Role::weight);
  graph.add_output(
      {.name = "y", .value = b.convert(b.dot(x, w, {.lhs_contract = {1}, .rhs_contract = {0}}), DType::f32)});
  return graph;
}

TEST(DtypeTest, ItsRecordIsWholeAndItsCastsAreExact) {
  expect_whole(eight());
  expect_range(eight());
  expect_exact_casts(eight());
  EXPECT_EQ(ir::rounded(eight(), 17.0), 16.0) << "in the middle of 16 and 18: to the even one";
}

TEST(DtypeTest, GraphsAreWrittenReadEvaluatedAndPlanned) {
  const ir::Graph graph = product_graph();
  EXPECT_NE(ir::print(graph).find("f8e4m3[16,4]"), std::string::npos) << ir::print(graph);
  EXPECT_EQ(ir::print(ir::parse(ir::print(graph))), ir::print(graph));
  const std::map<std::string, Tensor> outputs = ops::evaluate(graph, random_inputs(graph, "dtype"));
  for (const double y : outputs.at("y").data) EXPECT_EQ(y, ir::rounded(eight(), y));
  const memory::MemoryPlan plan = memory::plan_memory({&graph}, plain_target());
  int64_t weight = 0;
  for (const memory::StateSlot& slot : plan.state)
    if (slot.role == ir::Role::weight) weight += slot.type.bytes();
  EXPECT_EQ(weight, 16 * 4);
}

TEST(DtypeTest, StableHloNamesIt) {
  const std::string text = emit::write_program(product_graph(), {}, {}, {}, emit::Placement::xla).text;
  EXPECT_NE(text.find("tensor<16x4xf8E4M3FN>"), std::string::npos) << text;
}

TEST(DtypeTest, CheckpointsHoldIt) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "megacpp_dtype.safetensors";
  const std::vector<float> numbers = {1.0F, -448.0F, 0.015625F, 17.0F};
  const std::vector<std::byte> bytes = checkpoint::to_bytes(numbers, eight());
  checkpoint::write_safetensors(path, std::vector<checkpoint::StoredTensor>{{"w", eight(), {2, 2}, bytes}}, {});
  const checkpoint::SafetensorsFile file(path);
  EXPECT_EQ(file.at("w").type->name, "f8e4m3");
  EXPECT_EQ(checkpoint::to_floats(file.at("w")), (std::vector<float>{1.0F, -448.0F, 0.015625F, 16.0F}));
}

TEST(DtypeTest, ReductionsAddInF32AndRoundOnce) {
  const std::vector<uint8_t> sixteen(3, static_cast<uint8_t>(ir::bits_of(eight(), 16))),
      one(3, static_cast<uint8_t>(ir::bits_of(eight(), 1)));
  const std::vector<const void*> operands = {sixteen.data(), one.data(), one.data(), one.data()};
  std::vector<uint8_t> sum(3);
  collectives::reduce({.dtype = eight(), .operands = operands, .count = 3, .out = sum.data()});
  EXPECT_EQ(ir::number_of(eight(), sum[0]), 20.0) << "19, and not 16 with one lost three times";
}

TEST(DtypeTest, TilingsAndRatesKnowIt) {
  const hw::Chip v6e = hw::find_chip("v6e"), h100 = hw::find_chip("h100");
  EXPECT_EQ(hw::element_type("f8e4m3").bits, 8);
  EXPECT_EQ(hw::argument_layout(v6e, "f8e4m3", std::vector<int64_t>{256, 256}).bytes, 256 * 256);
  EXPECT_GT(fit::matrix_rate(h100, ir::record(eight()).rate).flops_per_second,
            fit::matrix_rate(h100, "bf16").flops_per_second);
}

Tensor run_on_cpu(const std::string& op, const std::vector<Tensor>& operands, const ir::Attrs& attrs) {
  ops::Types types;
  for (const Tensor& operand : operands) types.push_back(operand.type);
  const ops::Types results = ops::op_def(op).infer(types, attrs);
  base::ThreadPool pool(2);
  const runtime::cpu::Prepared prepared =
      runtime::cpu::prepare_any_storage(*runtime::cpu::find_kernel(op), {types, results, attrs}, 2);
  std::vector<std::vector<std::byte>> memory;
  for (const Tensor& operand : operands) memory.push_back(encoded(operand));
  std::vector<std::byte> result(static_cast<size_t>(results[0].bytes())),
      workspace(static_cast<size_t>(prepared.workspace_bytes));
  std::vector<std::byte*> in, out = {result.data()};
  for (std::vector<std::byte>& bytes : memory) in.push_back(bytes.data());
  prepared.run({.operands = in, .results = out, .workspace = workspace.data(), .pool = pool});
  return decode(results[0], result.data());
}

TEST(DtypeTest, KernelsOfTheCpuWidenAndRoundIt) {
  const ir::Attrs product = {{"lhs_contract", std::vector<int64_t>{1}},
                             {"rhs_contract", std::vector<int64_t>{0}},
                             {"lhs_batch", std::vector<int64_t>{}},
                             {"rhs_batch", std::vector<int64_t>{}}};
  const std::vector<Tensor> sides = {random_tensor({eight(), {5, 33}}, "x"), random_tensor({eight(), {33, 7}}, "w")};
  EXPECT_TRUE(is_close(run_on_cpu("dot", sides, product), ops::evaluate_op("dot", sides, product)[0], 0.07));
  const ir::Attrs program = {{"shape", std::vector<int64_t>{5, 33}},
                             {"program", std::string("in(0,1) exp(%0) out(%1)")},
                             {"dtypes", std::string("f8e4m3")}};
  EXPECT_TRUE(
      is_close(run_on_cpu("fused", {sides[0]}, program), ops::evaluate_op("fused", {sides[0]}, program)[0], 0.07));
}

std::vector<double> losses_of(const std::string& precision) {
  const recipe::Recipe recipe = recipe::parse(
      "model: {pattern: AE, depth: 2, hidden: 32, vocab: 256, attention: {heads: 4, kv_heads: 2, head_dim: 8},"
      " feed_forward: {intermediate: 48}}\n"
      "train: {batch: 4, sequence: 16, steps: 12, micro_steps: 2, log_every: 1, precision: " +
          precision +
          "}\n"
          "optimizer: {warmup_steps: 2, lr: 0.01}\nlayout: {data_parallel: 2, zero: 3}\n",
      "fifth.yaml");
  const compile::Compiled compiled = compile::compile_training(plan::make_plan(recipe), runtime::cpu::cpu_target(1));
  const std::unique_ptr<runtime::Executable> executable = runtime::cpu::load(compiled, {.threads = 1});
  train::RunState(compiled, *executable).initialise_weights(7);
  data::TextCorpus corpus;
  corpus.document_begins = {0};
  for (size_t i = 0; i < 4096; ++i) corpus.bytes.push_back(static_cast<uint8_t>('a' + i % 3));
  const data::Batches batches(corpus, train::batch_options(recipe));
  std::vector<double> losses;
  for (const train::StepReport& report : train::train({recipe, compiled, batches, *executable}, {}))
    losses.push_back(report.loss.value_or(std::nan("")));
  return losses;
}

TEST(DtypeTest, ARecipeMayComputeInIt) {
  EXPECT_NE(recipe::key_table().find("f32, bf16 or f8e4m3"), std::string::npos);
  const std::vector<double> wide = losses_of("f32"), narrow = losses_of("f8e4m3");
  EXPECT_NEAR(narrow.front(), wide.front(), 0.1);
  EXPECT_LT(narrow.back(), narrow.front() - 1) << "it learns three letters";
}

}  // namespace
}  // namespace megacpp::testing_support
