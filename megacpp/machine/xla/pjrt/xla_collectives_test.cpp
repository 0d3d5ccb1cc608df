// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/xla_collectives.h"

#include <gtest/gtest.h>

#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/machine/xla/pjrt/program.h"
#include "tests/support/cpu_plugin.h"
#include "tests/support/errors.h"

namespace megacpp::runtime::pjrt {
namespace {

using base::Code;
using testing_support::cpu_client;
using testing_support::problem_of;

const ir::Mesh kMesh({{"data", 2}, {"expert", 1}, {"model", 4}});

constexpr const char* kData = "dense<[[0,4],[1,5],[2,6],[3,7]]> : tensor<4x2xi64>";
constexpr const char* kModel = "dense<[[0,1,2,3],[4,5,6,7]]> : tensor<2x4xi64>";
constexpr const char* kAll = "dense<[[0,1,2,3,4,5,6,7]]> : tensor<1x8xi64>";
constexpr const char* kHalfOfModel = "dense<[[0,1],[2,3],[4,5],[6,7]]> : tensor<4x2xi64>";
constexpr const char* kTensor = "tensor<8x16xf32>";  // what each chip has: 512 bytes

std::string channel() {
  static int next = 1;
  return fmt::format("channel_handle = #stablehlo.channel_handle<handle = {}, type = 0>", next++);
}

constexpr const char* kSum = R"(({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }))";

std::string all_reduce(const std::string& from, const char* groups) {
  return fmt::format(
      R"("stablehlo.all_reduce"({}) <{{{}, replica_groups = {}, use_global_device_ids}}> {} : ({}) -> {})", from,
      channel(), groups, kSum, kTensor, kTensor);
}

std::string reduce_scatter(const char* groups, int rows) {
  return fmt::format(
      R"("stablehlo.reduce_scatter"(%x) <{{{}, scatter_dimension = 0 : i64, replica_groups = {}, use_global_device_ids}}> {} : ({}) -> tensor<{}x16xf32>)",
      channel(), groups, kSum, kTensor, rows);
}

std::string all_gather(const char* groups, int rows) {
  return fmt::format(
      R"("stablehlo.all_gather"(%x) <{{{}, all_gather_dim = 0 : i64, replica_groups = {}, use_global_device_ids}}> : ({}) -> tensor<{}x16xf32>)",
      channel(), groups, kTensor, rows);
}

std::string all_to_all(const char* groups, int parts) {
  return fmt::format(
      R"("stablehlo.all_to_all"(%x) <{{{}, split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = {} : i64, replica_groups = {}}}> : ({}) -> {})",
      channel(), parts, groups, kTensor, kTensor);
}

std::string permute(const char* pairs) {
  return fmt::format(R"("stablehlo.collective_permute"(%x) <{{{}, source_target_pairs = {}}}> : ({}) -> {})", channel(),
                     pairs, kTensor, kTensor);
}

/// A program of eight chips; `body` makes %y, a tensor of `rows` rows, of %x.
std::string program(const std::string& body, int rows = 8) {
  return fmt::format(R"(
module @program attributes {{mhlo.num_partitions = 8 : i32}} {{
  sdy.mesh @mesh = <["data"=2, "expert"=1, "model"=4]>
  func.func public @main(%whole: tensor<64x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"data", "model"}}, {{}}]>}})
      -> (tensor<{0}x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"data", "model"}}, {{}}]>}}) {{
    %all = sdy.manual_computation(%whole) in_shardings=[<@mesh, [{{"data", "model"}}, {{}}]>]
        out_shardings=[<@mesh, [{{"data", "model"}}, {{}}]>] manual_axes={{"data", "expert", "model"}} (%x: {1}) {{
{2}
      sdy.return %y : tensor<{3}x16xf32>
    }} : (tensor<64x16xf32>) -> tensor<{0}x16xf32>
    return %all : tensor<{0}x16xf32>
  }}
}}
)",
                     8 * rows, kTensor, body, rows);
}

OptimizedProgram optimized(const std::string& text) {
  return compile(cpu_client(8), text, {.partitions = 8, .spmd_partitioning = true, .shardy = true})
      .compiled()
      .optimized();
}

std::vector<XlaCollective> collectives(const std::string& text) {
  return collectives_of(read_hlo_program(optimized(text)), kMesh);
}

class XlaCollectivesTest : public testing_support::CpuPluginTest {};

TEST_F(XlaCollectivesTest, EveryKindIsFoundWithItsAxesAndBytes) {
  struct Row {
    std::string body;
    int rows;  // of the result
    const char* kind;
    const char* axes;
    int64_t parts;
    int64_t bytes;
  };
  const int64_t own = 8 * 16 * 4;
  const std::vector<Row> rows = {
      {all_reduce("%x", kData), 8, "all_reduce", "data", 2, own},
      {all_reduce("%x", kModel), 8, "all_reduce", "model", 4, 2 * own * 3 / 4},
      {all_reduce("%x", kAll), 8, "all_reduce", "data+model", 8, 2 * own * 7 / 8},
      {all_reduce("%x", kHalfOfModel), 8, "all_reduce", "model", 2, own},
      {reduce_scatter(kModel, 2), 2, "reduce_scatter", "model", 4, own * 3 / 4},
      {all_gather(kModel, 32), 32, "all_gather", "model", 4, own * 3},
      {all_gather(kData, 16), 16, "all_gather", "data", 2, own},
      {all_to_all(kModel, 4), 8, "all_to_all", "model", 4, own * 3 / 4},
      {permute("dense<[[0,1],[1,2],[2,3],[3,0],[4,5],[5,6],[6,7],[7,4]]> : tensor<8x2xi64>"), 8, "permute", "model", 2,
       own},
      {permute("dense<[[0,4],[4,0]]> : tensor<2x2xi64>"), 8, "permute", "data", 2, own},
      {permute("dense<[[0,5],[5,0]]> : tensor<2x2xi64>"), 8, "permute", "data+model", 2, own},
  };
  for (const Row& row : rows) {
    const std::vector<XlaCollective> found = collectives(program("      %y = " + row.body, row.rows));
    ASSERT_EQ(found.size(), 1u) << row.body;
    EXPECT_EQ(found[0].kind, row.kind) << row.body;
    EXPECT_EQ(found[0].axes, row.axes) << row.body;
    EXPECT_EQ(found[0].parts, row.parts) << row.body;
    EXPECT_EQ(found[0].bytes, row.bytes) << row.body;
    EXPECT_EQ(found[0].calls, 1) << row.body;
    EXPECT_FALSE(found[0].at_least) << row.body;
  }
}

std::string loop(int trips, const std::string& body) {
  return fmt::format(R"(
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %trips = stablehlo.constant dense<{}> : tensor<i32>
      %last, %y = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, {}
        cond {{
          %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %more : tensor<i1>
        }} do {{
          %next = stablehlo.add %i, %one : tensor<i32>
          {}
          stablehlo.return %next, %w : tensor<i32>, {}
        }})",
                     trips, kTensor, body, kTensor);
}

TEST_F(XlaCollectivesTest, InsideALoopItRunsAsOftenAsTheLoop) {
  const std::string body = "%r = " + all_reduce("%v", kModel) + "\n %w = stablehlo.sine %r : " + kTensor;
  const std::vector<XlaCollective> found = collectives(program(loop(23, body)));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].axes, "model");
  EXPECT_EQ(found[0].calls, 23);
  EXPECT_FALSE(found[0].at_least);
}

TEST_F(XlaCollectivesTest, WhatXlaPlacesItselfIsReadTheSame) {
  const std::vector<XlaCollective> found = collectives(R"(
module @placed {
  sdy.mesh @mesh = <["data"=2, "expert"=1, "model"=4]>
  func.func public @main(%x: tensor<8x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>},
                         %w: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>})
      -> (tensor<8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
    return %y : tensor<8x32xf32>
  }
}
)");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, "all_reduce");
  EXPECT_EQ(found[0].axes, "model");
  EXPECT_EQ(found[0].bytes, 2 * 4 * 32 * 4 * 3 / 4);
}

TEST_F(XlaCollectivesTest, DamagedBytesAreAnErrorOfOurs) {
  const std::string body = "%r = " + all_reduce("%v", kModel) + "\n %w = stablehlo.sine %r : " + kTensor;
  const OptimizedProgram whole = optimized(program(loop(3, body)));
  int refused = 0;
  const auto read = [&refused](const OptimizedProgram& damaged) {
    try {
      collectives_of(read_hlo_program(damaged), kMesh);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), Code::E3201) << error.what();
      ++refused;
    }
  };
  for (size_t size = 0; size < whole.code.size(); size += 7) read({whole.format, whole.code.substr(0, size)});
  EXPECT_GT(refused, 100);
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    OptimizedProgram damaged = whole;
    for (int i = 0; i < 1 + round % 4; ++i)
      damaged.code[random() % damaged.code.size()] = static_cast<char>(random() & 255u);
    read(damaged);
  }
  problem_of(Code::E1505, [&] { read_hlo_program({"mlir", whole.code}); });
}

// ---- Programs as no CPU compiler writes them, put together by hand ----

HloShape f32(std::vector<int64_t> dims) { return {32, std::move(dims), {}}; }

HloInstruction instruction(std::string opcode, HloShape shape, std::vector<int64_t> called = {}) {
  return {.name = opcode + ".1",
          .opcode = std::move(opcode),
          .shape = std::move(shape),
          .op_name = {},
          .called = std::move(called),
          .groups = {},
          .pairs = {},
          .trip_count = {},
          .constant = {}};
}

HloInstruction over_model(HloInstruction it) {
  it.groups = {{3, 2, 1, 0}, {4, 5, 6, 7}};
  return it;
}

TEST(XlaCollectivesByHandTest, StartAndDoneAreOne) {
  const HloShape both{0, {}, {f32({2, 8}), f32({8, 8})}};
  const HloProgram started{
      "p",
      1,
      {{1,
        "main",
        {over_model(instruction("all-gather-start", both)), over_model(instruction("all-gather-done", f32({8, 8})))}}}};
  const std::vector<XlaCollective> found = collectives_of(started, kMesh);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, "all_gather");
  EXPECT_EQ(found[0].axes, "model");
  EXPECT_EQ(found[0].bytes, 3 * 2 * 8 * 4);

  const HloProgram wrapped{"p",
                           2,
                           {{1, "wrapped", {over_model(instruction("reduce-scatter", f32({2, 8})))}},
                            {2,
                             "main",
                             {instruction("async-start", both, {1}), instruction("async-update", both, {1}),
                              instruction("async-done", f32({2, 8}), {1})}}}};
  const std::vector<XlaCollective> inside = collectives_of(wrapped, kMesh);
  ASSERT_EQ(inside.size(), 1u);
  EXPECT_EQ(inside[0].kind, "reduce_scatter");
  EXPECT_EQ(inside[0].calls, 1);
  EXPECT_EQ(inside[0].bytes, 3 * 2 * 8 * 4);
}

// The TPU compiler may make a fusion of each end.
TEST(XlaCollectivesByHandTest, TheFusionThatWaitsIsNoOtherCollective) {
  HloInstruction start = instruction("fusion", f32({2, 8}), {1}), done = instruction("fusion", f32({8, 8}), {2});
  start.name = "async-collective-start.1";
  done.name = "async-collective-done.1";
  const HloInstruction gather = over_model(instruction("all-gather", f32({8, 8})));
  const HloProgram program{"p", 3, {{1, "start", {gather}}, {2, "done", {gather}}, {3, "main", {start, done}}}};
  EXPECT_EQ(collectives_of(program, kMesh).size(), 1u);
}

TEST(XlaCollectivesByHandTest, LoopsWithinLoopsMultiply) {
  HloInstruction inner = instruction("while", f32({}), {1, 2}), outer = instruction("while", f32({}), {3, 2});
  inner.trip_count = 5;
  outer.trip_count = 4;
  HloProgram program{"p",
                     4,
                     {{1, "inner", {over_model(instruction("all-reduce", f32({8})))}},
                      {2, "condition", {}},
                      {3, "outer", {inner, over_model(instruction("all-to-all", f32({8})))}},
                      {4, "main", {outer}}}};
  std::vector<XlaCollective> found = collectives_of(program, kMesh);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].calls, 20);
  EXPECT_EQ(found[1].calls, 4);
  program.computations[2].instructions[0].trip_count.reset();
  found = collectives_of(program, kMesh);
  EXPECT_EQ(found[0].calls, 4);
  EXPECT_TRUE(found[0].at_least);
  EXPECT_FALSE(found[1].at_least);
}

// On TPUs a reduce-scatter is a fusion of an all-reduce and a slice.
TEST(XlaCollectivesByHandTest, AnAllReduceThatIsCutInItsFusionIsAReduceScatter) {
  const HloProgram program{
      "p",
      2,
      {{1,
        "all-reduce-scatter.3",
        {over_model(instruction("all-reduce", f32({16}))), instruction("dynamic-slice", f32({4}))}},
       {2, "main", {instruction("fusion", f32({4}), {1})}}}};
  const std::vector<XlaCollective> found = collectives_of(program, kMesh);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, "reduce_scatter");
  EXPECT_EQ(found[0].bytes, 16 * 4 * 3 / 4);
}

TEST(XlaCollectivesByHandTest, GroupsOfOneMoveNothingAndNoGroupsAreAllChips) {
  HloInstruction alone = instruction("all-reduce", f32({8}));
  for (int64_t chip = 0; chip < 8; ++chip) alone.groups.push_back({chip});
  const HloProgram program{"p", 1, {{1, "main", {alone, instruction("all-reduce", f32({8}))}}}};
  const std::vector<XlaCollective> found = collectives_of(program, kMesh);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].axes, "data+model");
}

TEST(XlaCollectivesByHandTest, CallsThatLeadNowhereAreRefused) {
  const HloProgram itself{"p", 1, {{1, "main", {instruction("call", f32({}), {1})}}}};
  problem_of(Code::E3201, [&] { collectives_of(itself, kMesh); });
  const HloProgram nowhere{"p", 1, {{1, "main", {instruction("call", f32({}), {7})}}}};
  problem_of(Code::E3201, [&] { collectives_of(nowhere, kMesh); });
}

}  // namespace
}  // namespace megacpp::runtime::pjrt
