// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/text.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <limits>

#include "tests/support/errors.h"
#include "tests/support/make_node.h"

namespace megacpp::ir {
namespace {

using testing_support::make_node;

constexpr std::string_view kTiny = R"(graph "nam56r-tiny" {
  %0 = input() {dtype="f32", name="embed.weight", shape=[256,128]} : f32[256,128] @embed #weight
  %1 = exp(%0) : f32[256,128]
  %2, %3 = attention(%1, %1, %0) {causal=1, scale=0.125} : f32[2,8,4,16], f32[2,4,8] @block00.A.core #activation
  %4 = reduce(%3) {dims=[], kind="sum"} : f32[]
  output "loss" = %4
  output "w" = %1 donates "embed.weight"
}
)";

base::Problem problem_of(std::string_view text) {
  SCOPED_TRACE(text);
  return testing_support::problem_of(base::Code::E1301, [&] { parse(text); });
}

Graph with_attr(Attr attr) {
  Graph graph("attrs");
  graph.append(make_node("constant", {}, {{"value", std::move(attr)}}), {{DType::f32, {}}});
  return graph;
}

TEST(TextTest, PrintsWhatItParsed) { EXPECT_EQ(print(parse(kTiny)), kTiny); }

TEST(TextTest, ParsedGraphHasEveryPart) {
  const Graph graph = parse(kTiny);
  EXPECT_EQ(graph.name(), "nam56r-tiny");
  ASSERT_EQ(graph.nodes().size(), 4u);
  const Node& attention = graph.nodes()[2];
  EXPECT_EQ(attention.op, "attention");
  EXPECT_EQ(attention.operands, (std::vector<ValueId>{{1}, {1}, {0}}));
  EXPECT_EQ(attention.attrs.integer("causal"), 1);
  EXPECT_EQ(attention.attrs.real("scale"), 0.125);
  EXPECT_EQ(attention.scope, "block00.A.core");
  EXPECT_EQ(attention.role, Role::activation);
  EXPECT_EQ(graph.type({3}), (TensorType{DType::f32, {2, 4, 8}}));
  EXPECT_EQ(graph.nodes()[1].role, Role::temporary);
  EXPECT_TRUE(graph.nodes()[3].attrs.list("dims").empty());
  ASSERT_EQ(graph.outputs().size(), 2u);
  EXPECT_EQ(graph.outputs()[1].donated, "embed.weight");
}

TEST(TextTest, RealsComeBackBitForBitAndStayReals) {
  for (const double real : {0.0, -0.0, 1.0, -3.0, 0.1, 1.0 / 3.0, 1e300, 1e-300, 5e-324, 1e22, 123456789012345680.0,
                            std::numeric_limits<double>::max(), std::numeric_limits<double>::infinity(),
                            -std::numeric_limits<double>::infinity(), std::nan(""), -std::nan("")}) {
    const std::string text = print(with_attr(real));
    const Graph back = parse(text);
    EXPECT_EQ(std::bit_cast<uint64_t>(back.nodes()[0].attrs.real("value")), std::bit_cast<uint64_t>(real)) << text;
    EXPECT_EQ(print(back), text);
  }
}

TEST(TextTest, IntegersStayIntegers) {
  for (const int64_t integer :
       {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()})
    EXPECT_EQ(parse(print(with_attr(integer))).nodes()[0].attrs.integer("value"), integer);
}

TEST(TextTest, StringsWithAnyByteComeBack) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  for (const std::string& string : {std::string(), std::string("} \"\\ %0"), std::string("a\nb\tc"), all}) {
    const std::string text = print(with_attr(string));
    EXPECT_EQ(parse(text).nodes()[0].attrs.text("value"), string);
    EXPECT_EQ(print(parse(text)), text);
  }
}

TEST(TextTest, OddNamesAreQuoted) {
  Graph graph("a \"quoted\" name");
  graph.node(graph.append(make_node("an op", {}, {{"a key", int64_t{1}}}), {})).scope = "scope #1";
  graph.append(make_node("output"), {{DType::pred, {0, 3}}});
  graph.add_output({.name = "out\n", .value = {0}});
  const std::string text = print(graph);
  const Graph back = parse(text);
  EXPECT_EQ(print(back), text);
  EXPECT_EQ(back.nodes()[0].scope, "scope #1");
  EXPECT_TRUE(back.nodes()[0].results.empty());
  EXPECT_EQ(back.nodes()[1].op, "output");
}

TEST(TextTest, HandWrittenNumbersAndSpacingAreMadeCanonical) {
  EXPECT_EQ(print(parse("graph \"g\"{\n\n%7=iota( ):i32[ 3 ]\t output \"y\"=%7 %2=neg(%7):i32[3] }")),
            "graph \"g\" {\n  %0 = iota() : i32[3]\n  %1 = neg(%0) : i32[3]\n  output \"y\" = %0\n}\n");
}

TEST(TextTest, EmptyGraphIsLegal) { EXPECT_EQ(print(parse("graph \"\" {}")), "graph \"\" {\n}\n"); }

TEST(TextTest, ErrorsNameLineGotAndWanted) {
  const base::Problem undefined = problem_of("graph \"g\" {\n  %0 = iota() : i32[3]\n  %1 = neg(%5) : i32[3]\n}\n");
  EXPECT_EQ(undefined.where, "program text, line 3");
  EXPECT_EQ(undefined.got, "'%5) : i32[3]'");
  EXPECT_EQ(undefined.wanted, "a value defined above");
  const base::Problem dtype = problem_of("graph \"g\" {\n  %0 = iota() : f64[3]\n}\n");
  EXPECT_EQ(dtype.where, "program text, line 2");
  EXPECT_EQ(dtype.wanted, "f32, bf16, i32 or pred");
}

TEST(TextTest, BrokenTextIsRefusedEverywhere) {
  for (size_t length = 0; length + 2 < kTiny.size(); ++length) problem_of(kTiny.substr(0, length));
  const auto node = [](std::string_view line) { return "graph \"g\" {\n" + std::string(line) + "\n}\n"; };
  for (const char* line : {"%0 = a() : f32",
                           "%0 = a()",
                           "%0 a() : f32[]",
                           "a() : f32[]",
                           "%0, %0 = a() : f32[], f32[]",
                           "%0 = a() : f32[]\n%0 = a() : f32[]",
                           "%0 = a(%0) : f32[]",
                           "%0 = a() {x=1, x=2} : f32[]",
                           "%0 = a() {x=} : f32[]",
                           "%0 = a() {x=1x} : f32[]",
                           "%0 = a() {x=nano} : f32[]",
                           "%0 = a() {x=99999999999999999999} : f32[]",
                           "%0 = a() {x=[1.5]} : f32[]",
                           "%0 = a() {x=\"\\q\"} : f32[]",
                           "%0 = a() {x=\"\\xg0\"} : f32[]",
                           "%0 = a() {x=\"\n\"} : f32[]",
                           "%0 = a() : f32[-1]",
                           "%0 = a() : f32[] #hero",
                           "%0 = a() : f32[] @",
                           "output \"x\" = %0",
                           "%0 = a() : f32[] output \"x\" = %0 dunno \"y\"",
                           "%-1 = a() : f32[]",
                           "\\"})
    EXPECT_FALSE(problem_of(node(line)).wanted.empty());
  problem_of(std::string(kTiny) + "graph");
}

// Ten times the nodes must not cost a hundred times the work; the bound is loose so that a busy machine passes.
TEST(TextTest, TimeIsLinearInTheGraph) {
  const auto seconds = [](int nodes) {
    Graph graph("chain");
    ValueId value = graph.node(graph.append(make_node("iota"), {{DType::i32, {3}}})).results[0];
    for (int i = 1; i < nodes; ++i)
      value = graph.node(graph.append(make_node("neg", {value}), {{DType::i32, {3}}})).results[0];
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(parse(print(graph)).nodes().size(), graph.nodes().size());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  seconds(1000);
  EXPECT_LT(seconds(50000), 50 * 10 * seconds(1000) + 1.0);
}

}  // namespace
}  // namespace megacpp::ir
