// SPDX-License-Identifier: Apache-2.0
// What the ops between chips refuse, and the gradient of reshard. What they compute: spmd_evaluator_test.
#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/ops/op_def.h"
#include "tests/support/errors.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using List = std::vector<int64_t>;

Types infer(const std::string& op, const Types& operands, ir::Attrs attrs, int64_t parts = 2) {
  attrs.set("axes", std::string("x"));
  attrs.set("parts", parts);
  return op_def(op).infer(operands, attrs);
}

void expect_refused(const std::string& op, const Types& operands, const ir::Attrs& attrs, const std::string& wanted,
                    int64_t parts = 2) {
  const base::Problem problem =
      testing_support::problem_of(base::Code::E1301, [&] { infer(op, operands, attrs, parts); });
  EXPECT_NE(problem.where.find(op), std::string::npos) << problem.where;
  EXPECT_NE(problem.wanted.find(wanted), std::string::npos) << problem.wanted;
}

const Types kOne = {{DType::f32, {6, 5}}};

TEST(CollectivesTest, ABucketChangesEachTensorAlongItsOwnDimension) {
  const Types bucket = {{DType::f32, {6, 5}}, {DType::bf16, {4}}};
  EXPECT_EQ(infer("all_gather", bucket, {{"dims", List{1, 0}}}), (Types{{DType::f32, {6, 10}}, {DType::bf16, {8}}}));
  EXPECT_EQ(infer("reduce_scatter", bucket, {{"dims", List{0, 0}}}), (Types{{DType::f32, {3, 5}}, {DType::bf16, {2}}}));
}

TEST(CollectivesTest, DimsNameOneDimensionOfEachOperand) {
  for (const std::string op : {"all_gather", "reduce_scatter"}) {
    expect_refused(op, kOne, {{"dims", List{0, 1}}}, "one dimension for each");
    expect_refused(op, {}, {{"dims", List{}}}, "one or more operands");
    expect_refused(op, kOne, {{"dims", List{2}}}, "a dimension of [6,5]");
  }
}

TEST(CollectivesTest, WhatIsDividedMustDivide) {
  expect_refused("reduce_scatter", kOne, {{"dims", List{1}}}, "a multiple of 2");
  expect_refused("all_to_all", kOne, {{"split", int64_t{1}}, {"concat", int64_t{0}}}, "a multiple of 2");
  EXPECT_EQ(infer("shard_slice", kOne, {{"dim", int64_t{1}}}), (Types{{DType::f32, {6, 3}}}));
}

TEST(CollectivesTest, AttributesAreChecked) {
  expect_refused("all_to_all", kOne, {{"split", int64_t{0}}, {"concat", int64_t{0}}}, "two different dimensions");
  expect_refused("all_reduce", kOne, {{"kind", std::string("mean")}}, "sum or max");
  expect_refused("all_reduce", kOne, {{"kind", std::string("sum")}}, "1 or more", 0);
  expect_refused("all_reduce", {{DType::pred, {2}}}, {{"kind", std::string("max")}}, "numbers");
  expect_refused("permute", {}, {{"shift", int64_t{1}}}, "one or more");
  EXPECT_THROW(op_def("all_reduce").infer(kOne, {{"kind", std::string("sum")}, {"parts", int64_t{2}}}), base::Error);
}

TEST(CollectivesTest, WhatIsStartedIsACollective) {
  EXPECT_EQ(infer("collective_start", kOne, {{"dims", List{1}}, {"op", std::string("all_gather")}}),
            (Types{{DType::f32, {6, 10}}}));
  expect_refused("collective_start", kOne, {{"op", std::string("exp")}}, "a collective");
  expect_refused("collective_start", kOne, {{"op", std::string("collective_start")}}, "a collective");
  expect_refused("collective_done", {}, {}, "one or more");
}

// 60 bytes of operands on each of 4 chips.
TEST(CollectivesTest, EveryOneSaysWhatItSendsAndToWhom) {
  using enum Transfer::Route;
  struct Row {
    const char* op;
    int64_t bytes;
    Transfer::Route route;
  };
  for (const Row& row : {Row{"all_gather", 180, ring}, Row{"reduce_scatter", 45, ring}, Row{"all_reduce", 90, ring},
                         Row{"all_to_all", 45, all_pairs}, Row{"permute", 60, one_peer}, Row{"send", 60, one_peer},
                         Row{"recv", 0, one_peer}, Row{"exchange_sum", 60, one_peer}}) {
    EXPECT_EQ(op_def(row.op).transfer->sent_bytes(60, 4), row.bytes) << row.op;
    EXPECT_EQ(op_def(row.op).transfer->route, row.route) << row.op;
  }
}

TEST(CollectivesTest, OneChipCannotRunThem) {
  EXPECT_THROW(evaluate_op("shard_index", {}, {{"axes", std::string("x")}, {"parts", int64_t{2}}}), base::Error);
}

TEST(ReshardTest, TheGradientGoesBackTheSameWay) {
  ir::Graph graph("g");
  Builder b(graph);
  const ValueId x = b.input("x", {DType::f32, {4}}, ir::Role::activation);
  const ir::Attrs attrs = {{"from", std::string("data")}, {"to", std::string("-")}};
  const ValueId y = b.one("reshard", {x}, attrs);
  op_def("reshard").grad({b, {x}, {y}, attrs, {y}});
  EXPECT_EQ(ir::print(graph), R"(graph "g" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #activation
  %1 = reshard(%0) {from="data", to="-"} : f32[4]
  %2 = reshard(%1) {from="-", to="data"} : f32[4]
}
)");
}

}  // namespace
}  // namespace megacpp::ops
