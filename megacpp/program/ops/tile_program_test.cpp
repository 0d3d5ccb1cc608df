// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/tile_program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/errors.h"

namespace megacpp::ops {
namespace {

TEST(TileProgramTest, TextRoundTrips) {
  for (const char* text : {"in(0,1) in(1) const(0.5) mul(%0,%1) add(%3,%2) out(%4) sum(%3;1)", "in() out(%0)",
                           "in(0) max(%0,%0) max(%1;1)",
                           "in(0,2) in(0) in(1,2) lt(%0,%1) select(%3,%1,%2) out(%4) out(%3)", "const(-0) out(%0)"})
    EXPECT_EQ(to_string(parse_tile_program(text)), text);
}

TEST(TileProgramTest, PartsAreWhatTheTextSays) {
  const TileProgram program = parse_tile_program("in(0,2) const(2.5) mul(%0,%1) out(%2) max(%0;2)");
  ASSERT_EQ(program.instructions.size(), 3u);
  EXPECT_EQ(program.instructions[0].kind, TileInstruction::Kind::input);
  EXPECT_EQ(program.instructions[0].dims, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(program.instructions[1].kind, TileInstruction::Kind::constant);
  EXPECT_EQ(program.instructions[1].value, 2.5);
  EXPECT_EQ(program.instructions[2].op, find_scalar_op("mul"));
  EXPECT_EQ(program.instructions[2].args, (std::vector<int>{0, 1}));
  ASSERT_EQ(program.outputs.size(), 2u);
  EXPECT_EQ(program.outputs[0].kind, TileOutput::Kind::store);
  EXPECT_EQ(program.outputs[0].reg, 2);
  EXPECT_EQ(program.outputs[1].kind, TileOutput::Kind::max);
  EXPECT_EQ(program.outputs[1].reduced_dims, 2);
}

TEST(TileProgramTest, ConstantsComeBackBitForBit) {
  for (const double value : {0.1, 1e-300, -1e300, 1.0 / 3.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    const TileProgram program{.instructions = {{.kind = TileInstruction::Kind::constant, .value = value}},
                              .outputs = {}};
    const double back = parse_tile_program(to_string(program)).instructions.at(0).value;
    EXPECT_TRUE(back == value || (std::isnan(back) && std::isnan(value))) << value;
  }
}

TEST(TileProgramTest, EveryScalarOpMayStandInAProgram) {
  for (const ScalarOp& op : scalar_ops()) {
    std::string text = "in(0) " + std::string(op.name) + "(%0";
    for (int a = 1; a < op.arity; ++a) text += ",%0";
    text += ") out(%1)";
    EXPECT_EQ(to_string(parse_tile_program(text)), text);
  }
}

TEST(TileProgramTest, BadTextIsRefused) {
  for (const char* text :
       {"in(0", "in", "in(x)", "in(0) frob(%0)", "in(0) mul(%0)", "in(0) mul(%0,%1)", "out(%0)", "in(0) out(0)",
        "in(0) out(%1)", "in(0) out(%-1)", "in(0) sum(%0)", "in(0) sum(%0;x)", "const(1.2.3)", "const()",
        "in(0) exp(%0,%0)", "in(0.5)", "in(0) out(%0.5)", "in(-1)", "in(0) sum(%0;-1)"}) {
    SCOPED_TRACE(text);
    testing_support::problem_of(base::Code::E1301, [&] { parse_tile_program(text); });
  }
}

}  // namespace
}  // namespace megacpp::ops
