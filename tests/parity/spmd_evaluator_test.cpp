// SPDX-License-Identifier: Apache-2.0
// What the ops between chips mean: by hand on small numbers, and as what they are for: the same tensor lying otherwise
// on the mesh.
#include "tests/support/spmd_evaluator.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/sample_values.h"
#include "tests/support/tensors.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::Mesh;
using ir::Shape;
using testing_support::evaluate_spmd;
using testing_support::is_close;
using testing_support::random_tensor;
using testing_support::shard;
using testing_support::unshard;
using List = std::vector<int64_t>;
using PerChip = std::vector<std::vector<Tensor>>;  // by chip: operands or results of one node

const Mesh kTwoAxes({{"a", 2}, {"b", 3}});

Mesh line(int64_t chips) { return Mesh({{"x", chips}}); }

Tensor f32_tensor(Shape shape, std::vector<double> data) { return {{DType::f32, std::move(shape)}, std::move(data)}; }

// A program of one node over the given operands; `axes` and `parts` are added to the attributes.
PerChip run(const std::string& op, const Mesh& mesh, const std::string& axes, ir::Attrs attrs, const PerChip& operands,
            Rounding rounding = Rounding::none) {
  attrs.set("axes", axes);
  attrs.set("parts", mesh.size(ir::parse_axes(axes, mesh)));
  ir::Graph graph(op);
  Builder b(graph);
  std::vector<ValueId> ids;
  for (size_t i = 0; i < operands[0].size(); ++i)
    ids.push_back(b.input(std::to_string(i), operands[0][i].type, ir::Role::activation));
  const std::vector<ValueId> results = b.node(op, ids, attrs);
  for (size_t r = 0; r < results.size(); ++r) graph.add_output({.name = std::to_string(r), .value = results[r]});
  std::vector<std::map<std::string, Tensor>> inputs(operands.size());
  for (size_t chip = 0; chip < operands.size(); ++chip)
    for (size_t i = 0; i < operands[chip].size(); ++i) inputs[chip][std::to_string(i)] = operands[chip][i];
  PerChip got;
  for (const auto& outputs : evaluate_spmd(graph, mesh, inputs, rounding)) {
    got.emplace_back();
    for (size_t r = 0; r < results.size(); ++r) got.back().push_back(outputs.at(std::to_string(r)));
  }
  return got;
}

std::vector<Tensor> nth(const PerChip& tensors, size_t n) {
  std::vector<Tensor> of_chip;
  for (const auto& own : tensors) of_chip.push_back(own[n]);
  return of_chip;
}

std::vector<std::vector<double>> data_of(const PerChip& results) {
  std::vector<std::vector<double>> data;
  for (const Tensor& result : nth(results, 0)) data.push_back(result.data);
  return data;
}

using Data = std::vector<std::vector<double>>;

// ---- by hand ----

TEST(CollectiveMeaningTest, AllGatherJoinsInGroupOrder) {
  const PerChip rows = {{f32_tensor({1, 2}, {1, 2})}, {f32_tensor({1, 2}, {3, 4})}};
  EXPECT_EQ(data_of(run("all_gather", line(2), "x", {{"dims", List{0}}}, rows)), (Data{{1, 2, 3, 4}, {1, 2, 3, 4}}));
  const PerChip columns = {{f32_tensor({2, 1}, {1, 2})}, {f32_tensor({2, 1}, {3, 4})}};
  EXPECT_EQ(data_of(run("all_gather", line(2), "x", {{"dims", List{1}}}, columns)), (Data{{1, 3, 2, 4}, {1, 3, 2, 4}}));
}

TEST(CollectiveMeaningTest, ReduceScatterSumsAndKeepsOwnPart) {
  const PerChip x = {{f32_tensor({4}, {1, 2, 3, 4})}, {f32_tensor({4}, {10, 20, 30, 40})}};
  EXPECT_EQ(data_of(run("reduce_scatter", line(2), "x", {{"dims", List{0}}}, x)), (Data{{11, 22}, {33, 44}}));
}

TEST(CollectiveMeaningTest, AllReduceTakesSumOrMax) {
  const PerChip x = {{f32_tensor({2}, {-1, 5})}, {f32_tensor({2}, {-2, 7})}, {f32_tensor({2}, {-4, 6})}};
  EXPECT_EQ(data_of(run("all_reduce", line(3), "x", {{"kind", std::string("sum")}}, x)), (Data(3, {-7, 18})));
  EXPECT_EQ(data_of(run("all_reduce", line(3), "x", {{"kind", std::string("max")}}, x)), (Data(3, {-1, 7})));
}

TEST(CollectiveMeaningTest, AllToAllSendsPartIToMemberI) {
  const PerChip x = {{f32_tensor({2, 1}, {1, 2})}, {f32_tensor({2, 1}, {3, 4})}};
  EXPECT_EQ(data_of(run("all_to_all", line(2), "x", {{"split", int64_t{0}}, {"concat", int64_t{1}}}, x)),
            (Data{{1, 3}, {2, 4}}));
}

TEST(CollectiveMeaningTest, PermuteReceivesFromShiftPlacesBehind) {
  const PerChip x = {{f32_tensor({1}, {10})}, {f32_tensor({1}, {11})}, {f32_tensor({1}, {12})}};
  const auto shifted = [&](int64_t shift) { return data_of(run("permute", line(3), "x", {{"shift", shift}}, x)); };
  EXPECT_EQ(shifted(0), (Data{{10}, {11}, {12}}));
  EXPECT_EQ(shifted(1), (Data{{12}, {10}, {11}}));
  EXPECT_EQ(shifted(-1), (Data{{11}, {12}, {10}}));
  EXPECT_EQ(shifted(7), shifted(1));
}

TEST(CollectiveMeaningTest, ShardIndexCountsInTheOrderOfTheAxes) {
  const PerChip nothing(6);
  EXPECT_EQ(data_of(run("shard_index", kTwoAxes, "b", {}, nothing)), (Data{{0}, {1}, {2}, {0}, {1}, {2}}));
  EXPECT_EQ(data_of(run("shard_index", kTwoAxes, "a+b", {}, nothing)), (Data{{0}, {1}, {2}, {3}, {4}, {5}}));
  EXPECT_EQ(data_of(run("shard_index", kTwoAxes, "b+a", {}, nothing)), (Data{{0}, {2}, {4}, {1}, {3}, {5}}));
  EXPECT_EQ(data_of(run("shard_index", kTwoAxes, "-", {}, nothing)), (Data(6, {0})));
}

TEST(CollectiveMeaningTest, ShardSliceFillsUpWithZeros) {
  const PerChip x(3, {f32_tensor({4}, {1, 2, 3, 4})});
  EXPECT_EQ(data_of(run("shard_slice", line(3), "x", {{"dim", int64_t{0}}}, x)), (Data{{1, 2}, {3, 4}, {0, 0}}));
}

TEST(CollectiveMeaningTest, ShiftedShardSliceIsThePartOfAnEarlierMember) {
  const PerChip x(3, {f32_tensor({6}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(data_of(run("shard_slice", line(3), "x", {{"dim", int64_t{0}}, {"shift", int64_t{2}}}, x)),
            (Data{{3, 4}, {5, 6}, {1, 2}}));
}

TEST(CollectiveMeaningTest, ResultsAreRoundedOnlyWhenAsked) {
  const Tensor x{{DType::bf16, {1}}, {1.0}}, y{{DType::bf16, {1}}, {1.0 / 512}};
  const ir::Attrs sum = {{"kind", std::string("sum")}};
  EXPECT_EQ(data_of(run("all_reduce", line(2), "x", sum, {{x}, {y}}, Rounding::none)), (Data(2, {1.0 + 1.0 / 512})));
  EXPECT_EQ(data_of(run("all_reduce", line(2), "x", sum, {{x}, {y}}, Rounding::to_dtype)), (Data(2, {1.0})));
}

// ---- as changes of sharding ----

struct Change {
  std::string op, axes, before, after;
  ir::Attrs attrs;
};

// Random parts, equal where `sharding` says that chips hold the same.
PerChip random_parts(const Shape& whole, const ir::Sharding& sharding, const Mesh& mesh, const std::string& name) {
  ir::Axes told_apart = sharding.unreduced;
  for (const ir::Axes& axes : sharding.dims) told_apart.insert(told_apart.end(), axes.begin(), axes.end());
  PerChip parts;
  for (int64_t chip = 0; chip < mesh.chips(); ++chip)
    parts.push_back({random_tensor({DType::f32, ir::local_shape(whole, sharding, mesh)},
                                   name + std::to_string(mesh.index_in_group(chip, told_apart)))});
  return parts;
}

void expect_same_tensor(const Change& change, const Mesh& mesh, const Shape& whole) {
  SCOPED_TRACE(change.op + " along " + change.axes + " on " + to_string(mesh) + ": " + change.before + " to " +
               change.after);
  const ir::Sharding before = ir::parse_sharding(change.before, mesh), after = ir::parse_sharding(change.after, mesh);
  const PerChip given = random_parts(whole, before, mesh, change.op + change.before);
  const PerChip got = run(change.op, mesh, change.axes, change.attrs, given);
  EXPECT_TRUE(is_close(unshard(nth(got, 0), whole, after, mesh), unshard(nth(given, 0), whole, before, mesh), 1e-12));
}

ir::Attrs dims(int64_t dim) { return {{"dims", List{dim}}}; }
const ir::Attrs kSum = {{"kind", std::string("sum")}};
ir::Attrs split_concat(int64_t split, int64_t concat) { return {{"split", split}, {"concat", concat}}; }

TEST(CollectiveShardingTest, OneAxisOfOneToSixChips) {
  for (int64_t chips = 1; chips <= 6; ++chips)
    for (const Change& change : std::vector<Change>{
             {"all_gather", "x", "x,-", "-,-", dims(0)},
             {"all_gather", "x", "-,x", "-,-", dims(1)},
             {"reduce_scatter", "x", "-,- ~ x", "x,-", dims(0)},
             {"reduce_scatter", "x", "-,- ~ x", "-,x", dims(1)},
             {"all_reduce", "x", "-,- ~ x", "-,-", kSum},
             {"all_to_all", "x", "x,-", "-,x", split_concat(1, 0)},
             {"all_to_all", "x", "-,x", "x,-", split_concat(0, 1)},
             {"shard_slice", "x", "-,-", "x,-", {{"dim", int64_t{0}}}},
             {"shard_slice", "x", "-,-", "-,x", {{"dim", int64_t{1}}}},
         })
      expect_same_tensor(change, line(chips), {2 * chips, 3 * chips});
}

TEST(CollectiveShardingTest, GroupsAlongSomeAxesAndSeveral) {
  for (const Mesh& mesh : {kTwoAxes, Mesh({{"b", 2}, {"a", 3}}), Mesh({{"a", 2}, {"c", 2}, {"b", 2}})})
    for (const Change& change : std::vector<Change>{
             {"all_gather", "a", "a,-", "-,-", dims(0)},
             {"all_gather", "b", "a+b,-", "a,-", dims(0)},
             {"all_gather", "a+b", "a+b,-", "-,-", dims(0)},
             {"all_gather", "b+a", "-,b+a", "-,-", dims(1)},
             {"all_gather", "b", "a,b", "a,-", dims(1)},
             {"all_gather", "b", "-,b ~ a", "-,- ~ a", dims(1)},
             {"reduce_scatter", "b", "a,- ~ b", "a,b", dims(1)},
             {"reduce_scatter", "b", "a,- ~ b", "a+b,-", dims(0)},
             {"reduce_scatter", "b+a", "-,- ~ a+b", "-,b+a", dims(1)},
             {"reduce_scatter", "a", "-,- ~ a+b", "-,a ~ b", dims(1)},
             {"all_reduce", "b", "a,- ~ b", "a,-", kSum},
             {"all_reduce", "b", "-,- ~ a+b", "-,- ~ a", kSum},
             {"all_reduce", "a+b", "-,- ~ a+b", "-,-", kSum},
             {"all_to_all", "b", "a+b,-", "a,b", split_concat(1, 0)},
             {"all_to_all", "b", "a,b", "a+b,-", split_concat(0, 1)},
             {"all_to_all", "a+b", "a+b,-", "-,a+b", split_concat(1, 0)},
             {"shard_slice", "b", "a,-", "a,b", {{"dim", int64_t{1}}}},
             {"shard_slice", "b", "a,-", "a+b,-", {{"dim", int64_t{0}}}},
             {"shard_slice", "b+a", "-,-", "-,b+a", {{"dim", int64_t{1}}}},
         })
      expect_same_tensor(change, mesh, {12, 24});
}

TEST(CollectiveShardingTest, ABucketEqualsItsTensorsOneByOne) {
  const std::vector<Shape> shapes = {{6, 5}, {12}, {2, 3, 6}};
  const std::vector<List> along = {{0}, {0}, {2}};
  PerChip given(6);
  for (size_t chip = 0; chip < 6; ++chip)
    for (const Shape& shape : shapes)
      given[chip].push_back(random_tensor({DType::f32, shape}, ir::to_string(shape) + std::to_string(chip)));
  for (const std::string op : {"all_gather", "reduce_scatter", "all_reduce", "permute"}) {
    const auto attrs = [](const List& dims) {
      return ir::Attrs{{"dims", dims}, {"kind", std::string("max")}, {"shift", int64_t{2}}};
    };
    const PerChip together = run(op, kTwoAxes, "b", attrs({0, 0, 2}), given);
    for (size_t i = 0; i < shapes.size(); ++i) {
      PerChip alone;
      for (const Tensor& own : nth(given, i)) alone.push_back({own});
      const PerChip wanted = run(op, kTwoAxes, "b", attrs(along[i]), alone);
      for (size_t chip = 0; chip < 6; ++chip) EXPECT_TRUE(is_close(together[chip][i], wanted[chip][0], 0.0)) << op;
    }
  }
}

TEST(CollectiveShardingTest, EveryCollectiveOfTheTableRunsItsSamples) {
  for (const OpDef& op : all_ops()) {
    if (!op.is_collective || op.name == "send" || op.name == "recv" || op.name == "exchange_sum") continue;
    for (const Sample& sample : op.samples()) {
      const Mesh mesh = line(sample.attrs.integer("parts"));
      const PerChip given(static_cast<size_t>(mesh.chips()), sample_operands(op, sample));
      const Types wanted = op.infer(sample.operands, sample.attrs);
      for (const std::vector<Tensor>& results : run(op.name, mesh, "x", sample.attrs, given)) {
        ASSERT_EQ(results.size(), wanted.size()) << op.name;
        for (size_t r = 0; r < wanted.size(); ++r) EXPECT_EQ(results[r].type, wanted[r]) << op.name;
      }
    }
  }
}

// ---- sizes that do not divide ----

Tensor counted(const Shape& shape) {
  Tensor f32_tensor = Tensor::zeros({DType::f32, shape});
  for (int64_t i = 0; i < f32_tensor.elements(); ++i) f32_tensor[i] = static_cast<double>(i + 1);
  return f32_tensor;
}

PerChip sharded(const Tensor& whole, const std::string& sharding, const Mesh& mesh) {
  PerChip parts;
  for (int64_t chip = 0; chip < mesh.chips(); ++chip)
    parts.push_back({shard(whole, ir::parse_sharding(sharding, mesh), mesh, chip)});
  return parts;
}

PerChip cut_to(PerChip tensors, int64_t dim, int64_t size) {
  for (auto& own : tensors)
    own[0] = evaluate_op("slice", {own[0]}, {{"dim", dim}, {"start", int64_t{0}}, {"size", size}})[0];
  return tensors;
}

TEST(UnevenShardingTest, ShardSliceAndShardCutAlike) {
  for (int64_t chips = 1; chips <= 6; ++chips)
    for (int64_t size = 0; size <= 9; ++size) {
      const Tensor whole = counted({2, size});
      const PerChip got =
          run("shard_slice", line(chips), "x", {{"dim", int64_t{1}}}, sharded(whole, "-,-", line(chips)));
      EXPECT_EQ(data_of(got), data_of(sharded(whole, "-,x", line(chips)))) << size << " over " << chips;
    }
}

// A dimension split by several axes is cut axis by axis, so with padding in between: one op for each axis.
TEST(UnevenShardingTest, SeveralAxesAreCutMajorFirstAndGatheredMinorFirst) {
  for (int64_t size = 1; size <= 13; ++size) {
    SCOPED_TRACE(size);
    const Tensor whole = counted({size, 2});
    const PerChip by_a = run("shard_slice", kTwoAxes, "a", {{"dim", int64_t{0}}}, sharded(whole, "-,-", kTwoAxes));
    const PerChip by_ab = run("shard_slice", kTwoAxes, "b", {{"dim", int64_t{0}}}, by_a);
    EXPECT_EQ(data_of(by_ab), data_of(sharded(whole, "a+b,-", kTwoAxes)));
    const int64_t rows_by_a = by_a[0][0].type.dim(0);
    const PerChip back_to_a = cut_to(run("all_gather", kTwoAxes, "b", dims(0), by_ab), 0, rows_by_a);
    EXPECT_EQ(data_of(back_to_a), data_of(by_a));
    EXPECT_EQ(data_of(cut_to(run("all_gather", kTwoAxes, "a", dims(0), back_to_a), 0, size)), Data(6, whole.data));
  }
}

// ---- shard and unshard ----

TEST(ShardTest, LaysOutPartsPaddingAndPartialSums) {
  const Tensor whole = counted({3, 2});
  EXPECT_EQ(data_of(sharded(whole, "x,-", line(2))), (Data{{1, 2, 3, 4}, {5, 6, 0, 0}}));
  EXPECT_EQ(data_of(sharded(whole, "-,x", line(2))), (Data{{1, 3, 5}, {2, 4, 6}}));
  EXPECT_EQ(data_of(sharded(whole, "-,- ~ x", line(2))), (Data{whole.data, std::vector<double>(6, 0.0)}));
}

TEST(ShardTest, UnshardPutsTogetherWhatShardTookApart) {
  for (const std::string sharding :
       {"-,-", "a,-", "-,b", "a,b", "b,a", "a+b,-", "b+a,-", "-,- ~ a", "b,- ~ a", "-,a+b", "-,- ~ a+b"})
    for (const Shape& shape : {Shape{6, 12}, Shape{5, 7}, Shape{1, 1}, Shape{4, 0}}) {
      SCOPED_TRACE(sharding + " of " + ir::to_string(shape));
      const Tensor whole = counted(shape);
      const PerChip parts = sharded(whole, sharding, kTwoAxes);
      const Tensor back = unshard(nth(parts, 0), shape, ir::parse_sharding(sharding, kTwoAxes), kTwoAxes);
      EXPECT_EQ(back.type, whole.type);
      EXPECT_EQ(back.data, whole.data);
    }
}

TEST(ShardTest, UnshardIgnoresPaddingAndDemandsEqualCopies) {
  const Mesh mesh = kTwoAxes;
  const ir::Sharding by_a = ir::parse_sharding("a", mesh);
  std::vector<Tensor> parts = nth(sharded(counted({3}), "a", mesh), 0);
  parts[5][1] = 99;  // padding of the last chip
  EXPECT_EQ(unshard(parts, {3}, by_a, mesh).data, (std::vector<double>{1, 2, 3}));
  parts[5][0] += 1e-12;
  EXPECT_NO_THROW(unshard(parts, {3}, by_a, mesh));
  parts[5][0] += 1e-6;
  EXPECT_THROW(unshard(parts, {3}, by_a, mesh), base::Error);
}

TEST(ShardTest, UnshardDemandsAPartOfEveryChip) {
  const ir::Sharding by_a = ir::parse_sharding("a", kTwoAxes);
  EXPECT_THROW(unshard(std::vector<Tensor>(5, counted({2})), {3}, by_a, kTwoAxes), base::Error);
  EXPECT_THROW(unshard(std::vector<Tensor>(6, counted({3})), {3}, by_a, kTwoAxes), base::Error);
}

// ---- whole programs ----

TEST(SpmdEvaluatorTest, AProductSplitAlongWhatItSumsNeedsOneReduction) {
  const Tensor x = random_tensor({DType::f32, {4, 6}}, "x"), w = random_tensor({DType::f32, {6, 3}}, "w");
  for (const int64_t chips : {1, 2, 3, 6}) {
    const Mesh mesh = line(chips);
    ir::Graph graph("g");
    Builder b(graph);
    const ValueId local_x = b.input("x", {DType::f32, {4, 6 / chips}}, ir::Role::batch);
    const ValueId local_w = b.input("w", {DType::f32, {6 / chips, 3}}, ir::Role::weight);
    const ValueId partial = b.matmul(local_x, local_w);
    const ValueId y =
        b.one("all_reduce", {partial}, {{"axes", std::string("x")}, {"parts", chips}, {"kind", std::string("sum")}});
    graph.add_output({.name = "y", .value = b.exp(y)});
    std::vector<std::map<std::string, Tensor>> inputs;
    for (int64_t chip = 0; chip < chips; ++chip)
      inputs.push_back({{"x", shard(x, ir::parse_sharding("-,x", mesh), mesh, chip)},
                        {"w", shard(w, ir::parse_sharding("x,-", mesh), mesh, chip)}});
    const auto got = evaluate_spmd(graph, mesh, inputs, Rounding::none);
    std::vector<Tensor> ys;
    for (const auto& outputs : got) ys.push_back(outputs.at("y"));
    const Tensor product = evaluate_op(
        "dot", {x, w},
        {{"lhs_contract", List{1}}, {"rhs_contract", List{0}}, {"lhs_batch", List{}}, {"rhs_batch", List{}}},
        Rounding::none)[0];
    const Tensor wanted = evaluate_op("exp", {product}, {}, Rounding::none)[0];
    EXPECT_TRUE(is_close(unshard(ys, {4, 3}, ir::parse_sharding("-,-", mesh), mesh), wanted, 1e-12)) << chips;
  }
}

TEST(SpmdEvaluatorTest, RefusesWhatDoesNotFitTheMesh) {
  ir::Graph graph("g");
  Builder b(graph);
  const ValueId input = b.input("x", {DType::f32, {2}}, ir::Role::batch);
  b.node("all_reduce", {input}, {{"axes", std::string("x")}, {"parts", int64_t{3}}, {"kind", std::string("sum")}});
  const std::vector<std::map<std::string, Tensor>> inputs(2, {{"x", f32_tensor({2}, {1, 2})}});
  EXPECT_THROW(evaluate_spmd(graph, line(2), inputs), base::Error) << "parts";
  EXPECT_THROW(evaluate_spmd(graph, line(3), inputs), base::Error) << "inputs of two chips";
  EXPECT_THROW(evaluate_spmd(graph, line(3), {{}, {}, {}}), base::Error) << "no inputs";
  const std::vector<std::map<std::string, Tensor>> longer(3, {{"x", f32_tensor({3}, {1, 2, 3})}});
  EXPECT_THROW(evaluate_spmd(graph, line(3), longer), base::Error) << "type of the input";
}

TEST(SpmdEvaluatorTest, RefusesSendAndReceive) {
  const ir::Attrs attrs = {
      {"peer", int64_t{1}}, {"tag", int64_t{0}}, {"dtype", std::string("f32")}, {"shape", Shape{2}}};
  EXPECT_THROW(run("send", line(2), "x", attrs, PerChip(2, {counted({2})})), base::Error);
  EXPECT_THROW(run("recv", line(2), "x", attrs, PerChip(2)), base::Error);
}

}  // namespace
}  // namespace megacpp::ops
