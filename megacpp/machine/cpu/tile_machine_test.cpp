// SPDX-License-Identifier: Apache-2.0
// Programs over shapes around the tile size, against the reference of the `fused` op.
#include "megacpp/machine/cpu/tile_machine.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/thread_pool.h"
#include "tests/support/tensors.h"

namespace megacpp::runtime::cpu {
namespace {

using ops::Tensor;
using testing_support::decode;
using testing_support::encode;
using testing_support::is_close;

constexpr ir::DType kF32 = ir::DType::f32, kBf16 = ir::DType::bf16, kI32 = ir::DType::i32, kPred = ir::DType::pred;

struct Program {
  ir::Shape shape;
  std::string text;
  std::string dtypes;
  ops::Types operands;

  ir::Attrs attrs() const { return {{"shape", shape}, {"program", text}, {"dtypes", dtypes}}; }
};

std::vector<Tensor> operands_of(const Program& program) {
  std::vector<Tensor> operands;
  for (size_t i = 0; i < program.operands.size(); ++i)
    operands.push_back(testing_support::random_tensor(program.operands[i], "tile" + std::to_string(i), -2, 3));
  return operands;
}

// `in_place`: the operand that result 0 overwrites; -1: none.
std::vector<Tensor> run_tiles(const Program& program, const std::vector<Tensor>& operands, int threads,
                              int in_place = -1) {
  const ops::Types results = ops::op_def("fused").infer(program.operands, program.attrs());
  const ir::Attrs attrs = program.attrs();
  const TileMachine machine({program.operands, results, attrs}, threads);
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> in, out;
  const auto allocate = [&memory](int64_t bytes) {
    memory.emplace_back(static_cast<size_t>(bytes) + 64, std::byte{0xFF});
    return memory.back().data();
  };
  for (const Tensor& operand : operands) encode(operand, in.emplace_back(allocate(operand.type.bytes())));
  for (const ir::TensorType& type : results) out.push_back(allocate(type.bytes()));
  if (in_place >= 0) out[0] = in[static_cast<size_t>(in_place)];
  base::ThreadPool pool(threads);
  std::byte* workspace = allocate(machine.workspace_bytes());
  machine.run({.operands = in, .results = out, .workspace = workspace, .pool = pool});
  std::vector<Tensor> tensors;
  for (size_t r = 0; r < results.size(); ++r) tensors.push_back(decode(results[r], out[r]));
  return tensors;
}

void expect_reference(const Program& program, double tolerance = 1e-5, int in_place = -1) {
  SCOPED_TRACE(program.text + " over " + ir::to_string(program.shape));
  const std::vector<Tensor> operands = operands_of(program);
  const std::vector<Tensor> wanted = ops::evaluate_op("fused", operands, program.attrs());
  const std::vector<Tensor> one = run_tiles(program, operands, 1, in_place);
  for (size_t r = 0; r < wanted.size(); ++r) EXPECT_TRUE(is_close(one[r], wanted[r], tolerance)) << "result " << r;
  for (const int threads : {2, 3}) {
    const std::vector<Tensor> more = run_tiles(program, operands, threads, in_place);
    for (size_t r = 0; r < wanted.size(); ++r)
      EXPECT_TRUE(is_close(more[r], one[r], 0.0)) << "bits change with threads";
  }
}

TEST(TileMachineTest, ElementwiseOverSizesAroundTheTile) {
  for (const int64_t n : {1, 5, 511, 512, 513, 1025, 5000, 20000})
    expect_reference({{n},
                      "in(0) in(0) const(0.5) mul(%0,%2) add(%3,%1) tanh(%4) out(%5) out(%3)",
                      "f32 f32",
                      {{kF32, {n}}, {kF32, {n}}}});
}

TEST(TileMachineTest, BroadcastsAlongEveryDimension) {
  // Rows that fill tiles, and rows of which many share one.
  for (const ir::Shape& shape :
       {ir::Shape{3, 5, 70}, ir::Shape{3, 5, 700}, ir::Shape{30, 90, 2}, ir::Shape{7, 130, 3}, ir::Shape{101, 93, 2}}) {
    const int64_t a = shape[0], b = shape[1], c = shape[2];
    const std::vector<std::pair<std::string, ir::Shape>> maps = {
        {"in()", {}},        {"in(0)", {a}},      {"in(1)", {b}},      {"in(2)", {c}},
        {"in(0,1)", {a, b}}, {"in(0,2)", {a, c}}, {"in(1,2)", {b, c}}, {"in(0,1,2)", {a, b, c}}};
    for (const auto& [map, operand] : maps)
      for (const ir::DType dtype : {kF32, kBf16, kI32, kPred}) {
        const std::string program = "in(0,1,2) " + map + " add(%0,%1) out(%2)";
        const ops::Types operands = {{kF32, shape}, {dtype, operand}};
        expect_reference({shape, program, "f32", operands});
        expect_reference({shape, program + " sum(%2;1) max(%2;1)", "f32 f32 f32", operands});
        expect_reference({shape, program + " sum(%2;2)", "f32 f32", operands}, 2e-5);
      }
  }
}

TEST(TileMachineTest, FoldsOneAndAllDimensions) {
  for (const int64_t n : {1, 3, 600, 2000}) {
    expect_reference({{4, n}, "in(0,1) exp(%0) sum(%1;1) max(%0;1)", "f32 f32", {{kF32, {4, n}}}});
    expect_reference({{4, n}, "in(0,1) mul(%0,%0) sum(%1;2)", "f32", {{kF32, {4, n}}}}, 2e-5);
    expect_reference(
        {{3, 1, n}, "in(0,1,2) in(1) mul(%0,%1) sum(%2;2) out(%2)", "f32 f32", {{kF32, {3, 1, n}}, {kF32, {1}}}}, 2e-5);
  }
}

TEST(TileMachineTest, ResultsOfEveryDtype) {
  const ir::Shape shape = {7, 90};
  const ops::Types operands = {{kBf16, shape}, {kI32, shape}, {kPred, shape}};
  expect_reference({shape, "in(0,1) in(0,1) in(0,1) select(%2,%0,%1) out(%3)", "bf16", operands}, 1e-2);
  expect_reference({shape, "in(0,1) in(0,1) in(0,1) add(%1,%2) out(%3) lt(%0,%1) out(%4)", "i32 pred", operands});
  expect_reference({shape, "in(0,1) in(0,1) in(0,1) add(%0,%1) sum(%3;1) max(%1;1)", "bf16 i32", operands}, 1e-2);
  expect_reference({shape, "in(0,1) in(0,1) in(0,1) sum(%1;2) max(%2;2)", "i32 pred", operands});
}

TEST(TileMachineTest, ResultMayLieOnAnOperandThatIsStillFoldedOrStored) {
  // Of the last, several blocks with several rows to a tile.
  for (const ir::Shape& shape : {ir::Shape{5, 700}, ir::Shape{700, 5}, ir::Shape{9001, 5}})
    for (const int operand : {0, 1}) {
      const ops::Types operands = {{kF32, shape}, {kF32, shape}};
      expect_reference({shape, "in(0,1) in(0,1) mul(%0,%1) add(%2,%0) out(%3)", "f32", operands}, 1e-5, operand);
      expect_reference({shape, "in(0,1) in(0,1) add(%0,%1) out(%2) sum(%0;1) max(%1;1)", "f32 f32 f32", operands}, 1e-5,
                       operand);
      expect_reference({shape, "in(0,1) in(0,1) add(%0,%1) mul(%0,%1) out(%2) out(%3)", "f32 f32", operands}, 1e-5,
                       operand);
      expect_reference({shape, "in(0,1) in(0,1) mul(%0,%1) neg(%2) out(%3) out(%2) sum(%3;1)", "f32 f32 f32", operands},
                       1e-5, operand);
    }
}

TEST(TileMachineTest, SumsOfRowsMayLieOnWhatEveryRowIsGiven) {
  for (const ir::Shape& shape : {ir::Shape{5, 700}, ir::Shape{700, 5}, ir::Shape{9001, 5}})
    expect_reference({shape, "in(0,1) in(0) mul(%0,%1) sum(%2;1)", "f32", {{kF32, shape}, {kF32, {shape[0]}}}}, 2e-5,
                     1);
}

TEST(TileMachineTest, ConstantsAloneFillTheResult) {
  expect_reference({{3, 200}, "const(0.25) out(%0)", "f32", {}});
  expect_reference({{}, "const(7) out(%0)", "i32", {}});
}

}  // namespace
}  // namespace megacpp::runtime::cpu
