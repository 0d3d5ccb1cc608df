// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/emit/module.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/format.h>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/emit/step.h"
#include "tests/support/text.h"

namespace megacpp::emit {
namespace {

using testing_support::count_of;

std::vector<std::string> names_of(const std::vector<Port>& ports) {
  std::vector<std::string> names;
  for (const Port& port : ports) names.push_back(port.name);
  return names;
}

using Names = std::vector<std::string>;

// "argument -> result" for each donation in main's header, in order of arguments.
Names donations_of(const Module& module) {
  const std::string header = module.text.substr(0, module.text.find(") -> ("));
  Names all;
  for (size_t i = 0; i < module.arguments.size(); ++i) {
    const size_t begin = std::min(header.find(fmt::format("%whole{}:", i)), header.find(fmt::format("%local{}:", i)));
    const std::string own = header.substr(begin, header.find(", %", begin) - begin);
    const size_t at = own.find("aliasing_output = ");
    if (at == std::string::npos) continue;
    const size_t result = std::stoul(own.substr(at + std::string("aliasing_output = ").size()));
    all.push_back(module.arguments[i].name + " -> " + module.results[result].name);
    EXPECT_EQ(module.arguments[i].whole, module.results[result].whole);
    EXPECT_EQ(module.arguments[i].sharding, module.results[result].sharding);
  }
  return all;
}

const ir::Mesh kMesh({{"data", 2}, {"model", 3}});

partition::Placement placed(const ir::TensorType& whole, const std::string& sharding, const ir::Mesh& mesh = kMesh) {
  return {whole, ir::parse_sharding(sharding, mesh)};
}

// ---- Programs ----

// Two blocks of a kind; the state is replaced, the sum reported.
constexpr const char* kProgram = R"(graph "p" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] @batch #batch
  %1 = input() {dtype="f32", name="state", shape=[4]} : f32[4] @batch #weight
  %2 = exp(%0) : f32[4] @block00.A
  %3 = exp(%2) : f32[4] @block01.A
  %4 = add(%1, %3) : f32[4] @head
  output "state" = %4 donates "state"
  output "doubled" = %3
}
)";

TEST(ModuleTest, UnrolledAProgramCallsOneFunctionForEachKindOfBlock) {
  const Module module =
      write_program(ir::parse(kProgram), ir::Mesh(), {}, {}, Placement::megacpp, {.has_loops = false});
  EXPECT_EQ(module.text, R"(module @program attributes {mhlo.num_partitions = 1 : i32} {
func.func public @main(%local0: tensor<4xf32>, %local1: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = func.call @program(%local0, %local1) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}
func.func private @program(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = func.call @program_piece0(%arg0) : (tensor<4xf32>) -> (tensor<4xf32>) loc("block00.A")
  %1 = func.call @program_piece0(%0) : (tensor<4xf32>) -> (tensor<4xf32>) loc("block01.A")
  %2 = "stablehlo.add"(%arg1, %1) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>) loc("head")
  return %2, %1 : tensor<4xf32>, tensor<4xf32>
}
func.func private @program_piece0(%arg0: tensor<4xf32>) -> (tensor<4xf32>) {
  %0 = "stablehlo.exponential"(%arg0) : (tensor<4xf32>) -> (tensor<4xf32>) loc("block00.A")
  return %0 : tensor<4xf32>
}
}
)");
}

// The program of one chip, over local shapes; the module is over whole ones.
TEST(ModuleTest, OurPlacementIsAManualComputationOverTheMesh) {
  const ir::Mesh mesh({{"data", 2}});
  const partition::Placements placed_as = {{"x", placed({ir::DType::f32, {8}}, "data", mesh)},
                                           {"doubled", placed({ir::DType::f32, {8}}, "data", mesh)}};
  const Module module = write_program(ir::parse(kProgram), mesh, placed_as, placed_as, Placement::megacpp);
  const std::string main = module.text.substr(0, module.text.find("func.func private"));
  EXPECT_EQ(main, R"(module @program attributes {mhlo.num_partitions = 2 : i32} {
sdy.mesh @mesh = <["data"=2]>
func.func public @main(%whole0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>}, %whole1: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>, tf.aliasing_output = 0 : i32}) -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>}) {
  %all:2 = sdy.manual_computation(%whole0, %whole1) in_shardings=[<@mesh, [{"data"}]>, <@mesh, [{}]>] out_shardings=[<@mesh, [{}]>, <@mesh, [{"data"}]>] manual_axes={"data"} (%local0: tensor<4xf32>, %local1: tensor<4xf32>) {
  %0:2 = func.call @program(%local0, %local1) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  sdy.return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
  } : (tensor<8xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<8xf32>)
  return %all#0, %all#1 : tensor<4xf32>, tensor<8xf32>
}
)");
}

TEST(ModuleTest, PartsOfASumAreOneTensorSplitOverTheirChips) {
  const ir::Mesh mesh({{"data", 2}});
  const partition::Placements placed_as = {{"state", placed({ir::DType::f32, {4}}, "- ~ data", mesh)}};
  const Module module = write_program(ir::parse(kProgram), mesh, placed_as, {}, Placement::megacpp);
  const Port& state = module.arguments[1];
  EXPECT_EQ(state.whole.shape, (ir::Shape{2, 4}));
  EXPECT_EQ(state.local.shape, (ir::Shape{1, 4}));
  EXPECT_EQ(ir::to_string(state.sharding, mesh), "data,-");
  EXPECT_EQ(donations_of(module), (Names{"state -> state"}));
}

// ---- Padding, where XLA places ----

TEST(ModuleTest, WithXlasPlacementEveryChipHoldsAsMuch) {
  const partition::Placements placed_as = {{"state", placed({ir::DType::f32, {4}}, "model")}};
  const Module module = write_program(ir::parse(kProgram), kMesh, placed_as, {}, Placement::xla);
  EXPECT_EQ(module.arguments[1].whole.shape, (ir::Shape{6}));
  EXPECT_EQ(module.arguments[1].local.shape, (ir::Shape{2}));
  EXPECT_EQ(module.arguments[0].local.shape, (ir::Shape{4}));
  EXPECT_EQ(donations_of(module), (Names{"state -> state"}));
  const std::string body = module.text.substr(module.text.find(") {\n"));
  EXPECT_EQ(body.substr(0, body.find("}\n")), R"() {
  %0 = "stablehlo.slice"(%local1) {start_indices = array<i64: 0>, limit_indices = array<i64: 4>, strides = array<i64: 1>} : (tensor<6xf32>) -> (tensor<4xf32>)
  %1:2 = func.call @program(%local0, %0) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %2 = "stablehlo.constant"() {value = dense<0.00000000000000000e+00> : tensor<f32>} : () -> (tensor<f32>)
  %3 = "stablehlo.pad"(%1#0, %2) {edge_padding_low = array<i64: 0>, edge_padding_high = array<i64: 2>, interior_padding = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> (tensor<6xf32>)
  return %3, %1#1 : tensor<6xf32>, tensor<4xf32>
)");
}

TEST(ModuleTest, SizesThatDivideAreNotPadded) {
  const partition::Placements placed_as = {{"state", placed({ir::DType::f32, {4}}, "data")}};
  const Module module = write_program(ir::parse(kProgram), kMesh, placed_as, {}, Placement::xla);
  EXPECT_EQ(count_of(module.text, "stablehlo.slice") + count_of(module.text, "stablehlo.pad"), 0u);
  EXPECT_EQ(module.arguments[1].local.shape, (ir::Shape{2}));
}

// ---- Steps ----

constexpr const char* kMicroStep = R"(graph "micro_step" {
  %0 = input() {dtype="i32", name="batch.ids", shape=[2,4]} : i32[2,4] @batch #batch
  %1 = input() {dtype="f32", name="w", shape=[4]} : f32[4] @embed #weight
  %2 = input() {dtype="f32", name="grad.w", shape=[4]} : f32[4] @embed #gradient
  %3 = convert(%0) {dtype="f32"} : f32[2,4] @loss
  %4 = reduce(%3) {dims=[0], kind="sum"} : f32[4] @loss
  %5 = mul(%4, %1) : f32[4] @loss
  %6 = reduce(%5) {dims=[0], kind="sum"} : f32[] @loss
  %7 = add(%2, %4) : f32[4] @loss
  output "loss" = %6
  output "counts" = %4
  output "grad.w" = %7 donates "grad.w"
}
)";

constexpr const char* kUpdate = R"(graph "update" {
  %0 = input() {dtype="f32", name="lr", shape=[]} : f32[] @update #batch
  %1 = input() {dtype="f32", name="w", shape=[4]} : f32[4] @embed #weight
  %2 = input() {dtype="f32", name="grad.w", shape=[4]} : f32[4] @embed #gradient
  %3 = broadcast(%0) {dims=[], shape=[4]} : f32[4] @embed
  %4 = mul(%2, %3) : f32[4] @embed
  %5 = sub(%1, %4) : f32[4] @embed
  %6 = constant() {dtype="f32", shape=[4], value=0.0} : f32[4] @embed
  output "norm" = %3
  output "w" = %5 donates "w"
  output "grad.w" = %6 donates "grad.w"
}
)";

Module step_of(int64_t micro_steps, const ir::Mesh& mesh, Placement placement, const partition::Placements& inputs,
               const partition::Placements& reports = {}) {
  return write_step({ir::parse(kMicroStep), ir::parse(kUpdate), micro_steps, inputs, reports}, mesh, placement);
}

TEST(ModuleTest, AStepKeepsItsStateAndHidesItsGradients) {
  const Module module = step_of(3, ir::Mesh(), Placement::megacpp, {});
  EXPECT_EQ(names_of(module.arguments), (Names{"batch.ids", "w", "lr"}));
  EXPECT_EQ(names_of(module.results), (Names{"norm", "w", "loss", "counts"}));
  EXPECT_EQ(donations_of(module), (Names{"w -> w"}));
}

// `text` with a line of it replaced.
std::string with_line(std::string text, const std::string& line, const std::string& by) {
  const size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  return text.replace(at, line.size(), by);
}

Module step_from(const std::string& micro_step, const std::string& update) {
  return write_step({ir::parse(micro_step), ir::parse(update), 1, {}, {}}, ir::Mesh(), Placement::megacpp);
}

constexpr const char* kAddedGradient = "  %7 = add(%2, %4) : f32[4] @loss\n";
constexpr const char* kWrittenGradient = "  %7 = exp(%4) : f32[4] @loss\n";
constexpr const char* kZeroed = "  output \"grad.w\" = %6 donates \"grad.w\"\n";

TEST(ModuleTest, AGradientThatIsWrittenBeforeItIsReadNeitherEntersNorLeaves) {
  const Module module =
      step_from(with_line(kMicroStep, kAddedGradient, kWrittenGradient), with_line(kUpdate, kZeroed, ""));
  EXPECT_EQ(names_of(module.arguments), (Names{"batch.ids", "w", "lr"}));
  EXPECT_EQ(names_of(module.results), (Names{"norm", "w", "loss", "counts"}));
  EXPECT_EQ(donations_of(module), (Names{"w -> w"}));
}

TEST(ModuleTest, StateThatAMicroStepReadsOrTheUpdateLeavesStays) {
  const std::string left = "  output \"grad.w\" = %4 donates \"grad.w\"\n";
  for (const char* gradient : {kAddedGradient, kWrittenGradient}) {
    const Module module = step_from(with_line(kMicroStep, kAddedGradient, gradient), with_line(kUpdate, kZeroed, left));
    EXPECT_EQ(names_of(module.arguments), (Names{"batch.ids", "w", "grad.w", "lr"})) << gradient;
    EXPECT_EQ(names_of(module.results), (Names{"norm", "w", "grad.w", "loss", "counts"})) << gradient;
    EXPECT_EQ(donations_of(module), (Names{"w -> w", "grad.w -> grad.w"})) << gradient;
  }
  const Module read = step_from(kMicroStep, with_line(kUpdate, kZeroed, ""));
  EXPECT_EQ(names_of(read.arguments), (Names{"batch.ids", "w", "grad.w", "lr"})) << "it is added to";
}

TEST(ModuleTest, StateThatIsReportedAsItWasEnters) {
  const std::string reported = with_line(with_line(kMicroStep, kAddedGradient, kWrittenGradient),
                                         "  output \"counts\" = %4\n", "  output \"before\" = %2\n");
  const Module module = step_from(reported, with_line(kUpdate, kZeroed, ""));
  EXPECT_EQ(names_of(module.arguments), (Names{"batch.ids", "w", "grad.w", "lr"}));
  EXPECT_EQ(names_of(module.results), (Names{"norm", "w", "loss", "before"}));
}

TEST(ModuleTest, MicroBatchesEnterStackedAndReportsLeaveStacked) {
  for (const int64_t micro_steps : {1, 3}) {
    const Module module = step_of(micro_steps, ir::Mesh(), Placement::megacpp, {});
    EXPECT_EQ(module.arguments[0].whole.shape, (ir::Shape{micro_steps, 2, 4}));
    EXPECT_EQ(module.results[2].whole.shape, (ir::Shape{micro_steps}));
    EXPECT_EQ(module.results[3].whole.shape, (ir::Shape{micro_steps, 4}));
    EXPECT_EQ(count_of(module.text, "stablehlo.while"), micro_steps > 1 ? 1u : 0u);
    EXPECT_EQ(count_of(module.text, "func.call @micro_step("), 1u);
    EXPECT_EQ(count_of(module.text, "func.func"), 3u);
  }
}

TEST(ModuleTest, ReportsLeaveAsTheyAreSharded) {
  const partition::Placements reports = {{"counts", placed({ir::DType::f32, {4}}, "model")}};
  const Module whole = step_of(2, kMesh, Placement::xla, {}, reports);
  EXPECT_EQ(whole.results[3].whole.shape, (ir::Shape{2, 6}));
  EXPECT_EQ(whole.results[3].local.shape, (ir::Shape{2, 2}));
  const Module of_one_chip = step_of(2, kMesh, Placement::megacpp, {}, reports);
  EXPECT_EQ(of_one_chip.results[3].whole.shape, (ir::Shape{2, 12}));
  EXPECT_EQ(of_one_chip.results[3].local.shape, (ir::Shape{2, 4}));
}

// Every block counts something: {blocks} weights of four.
ir::Graph counting_graph(int blocks) {
  std::string text = "graph \"micro_step\" {\n", outputs;
  for (int b = 0; b < blocks; ++b)
    text += fmt::format("  %{} = input() {{dtype=\"f32\", name=\"w{}\", shape=[4]}} : f32[4] @block{:02}.E #weight\n",
                        b, b, b);
  text += fmt::format("  %{} = constant() {{dtype=\"f32\", shape=[4], value=1.0}} : f32[4] @embed\n", blocks);
  for (int b = 0; b < blocks; ++b) {
    const int sum = blocks + 1 + 2 * b, before = b == 0 ? blocks : sum - 2;
    text += fmt::format("  %{} = add(%{}, %{}) : f32[4] @block{:02}.E\n", sum, before, b, b);
    text += fmt::format("  %{} = exp(%{}) : f32[4] @block{:02}.E\n", sum + 1, sum, b);
    outputs += fmt::format("  output \"load{}\" = %{}\n", b, sum + 1);
  }
  text += fmt::format("  %{} = exp(%{}) : f32[4] @head\n  output \"y\" = %{}\n", 3 * blocks + 1, 3 * blocks - 1,
                      3 * blocks + 1);
  return ir::parse(text + outputs + "}\n");
}

// With nothing to update.
Module counting_step(int blocks, bool has_loops) {
  const ir::Graph micro_step = counting_graph(blocks), update = ir::parse("graph \"update\" {\n}\n");
  return write_step({micro_step, update, 3, {}, {}}, ir::Mesh(), Placement::megacpp, {.has_loops = has_loops});
}

TEST(ModuleTest, ReportsOfBlocksInALoopLeaveAsOneStack) {
  const Module looped = counting_step(4, true), unrolled = counting_step(4, false);
  ASSERT_EQ(names_of(looped.results), (Names{"y", "load0"}));
  EXPECT_EQ(looped.results[1].stacked, (Names{"load0", "load1", "load2", "load3"}));
  EXPECT_EQ(looped.results[1].whole.shape, (ir::Shape{3, 4, 4})) << "micro-steps, blocks, elements";
  EXPECT_EQ(count_of(looped.text, "stablehlo.concatenate"), 0u) << "the loop's own stack leaves";
  EXPECT_EQ(names_of(unrolled.results), (Names{"y", "load0", "load1", "load2", "load3"}));
  EXPECT_EQ(unrolled.results[4].whole.shape, (ir::Shape{3, 4}));
  EXPECT_TRUE(unrolled.results[4].stacked.empty());
}

// Every block writes its gradient once, and the update of its weight reads it.
Module written_once_step(int blocks, bool has_loops) {
  std::string micro = "graph \"micro_step\" {\n", update = "graph \"update\" {\n", gradients, weights;
  for (int b = 0; b < blocks; ++b)
    for (std::string* text : {&micro, &update}) {
      *text += fmt::format(
          "  %{} = input() {{dtype=\"f32\", name=\"w{}\", shape=[4]}} : f32[4] @block{:02}.E #weight\n", 2 * b, b, b);
      *text += fmt::format(
          "  %{} = input() {{dtype=\"f32\", name=\"grad.w{}\", shape=[4]}} : f32[4] @block{:02}.E #gradient\n",
          2 * b + 1, b, b);
    }
  micro += fmt::format("  %{} = constant() {{dtype=\"f32\", shape=[4], value=1.0}} : f32[4] @embed\n", 2 * blocks);
  for (int b = 0; b < blocks; ++b) {
    const int sum = 2 * blocks + 1 + 2 * b, before = b == 0 ? 2 * blocks : sum - 2, next = 2 * blocks + b;
    micro += fmt::format("  %{} = add(%{}, %{}) : f32[4] @block{:02}.E\n", sum, before, 2 * b, b);
    micro += fmt::format("  %{} = exp(%{}) : f32[4] @block{:02}.E\n", sum + 1, sum, b);
    gradients += fmt::format("  output \"grad.w{}\" = %{} donates \"grad.w{}\"\n", b, sum + 1, b);
    update += fmt::format("  %{} = sub(%{}, %{}) : f32[4] @block{:02}.E\n", next, 2 * b, 2 * b + 1, b);
    weights += fmt::format("  output \"w{}\" = %{} donates \"w{}\"\n", b, next, b);
  }
  // The last block's sum is read too, so that all blocks are alike.
  micro += fmt::format("  %{} = exp(%{}) : f32[4] @head\n  output \"y\" = %{}\n", 4 * blocks + 1, 4 * blocks - 1,
                       4 * blocks + 1);
  const ir::Graph micro_step = ir::parse(micro + gradients + "}\n"), updates = ir::parse(update + weights + "}\n");
  return write_step({micro_step, updates, 1, {}, {}}, ir::Mesh(), Placement::megacpp, {.has_loops = has_loops});
}

TEST(ModuleTest, GradientsOfBlocksThatAreWrittenOnceNeitherEnterNorLeave) {
  const Module unrolled = written_once_step(4, false), rolled = written_once_step(4, true);
  EXPECT_EQ(names_of(unrolled.arguments), (Names{"w0", "w1", "w2", "w3"}));
  EXPECT_EQ(names_of(unrolled.results), (Names{"w0", "w1", "w2", "w3", "y"}));
  EXPECT_EQ(names_of(rolled.arguments), (Names{"w0"})) << "one stack";
  EXPECT_EQ(names_of(rolled.results), (Names{"w0", "y"}));
  EXPECT_EQ(donations_of(rolled), (Names{"w0 -> w0"}));
}

TEST(ModuleTest, AProgramByItselfLoopsOverStacksToo) {
  const ir::Graph graph = counting_graph(4);
  const Module looped = write_program(graph, ir::Mesh(), {}, {}, Placement::megacpp);
  EXPECT_EQ(count_of(looped.text, "stablehlo.while"), 1u);
  ASSERT_EQ(names_of(looped.arguments), (Names{"w0"}));
  EXPECT_EQ(looped.arguments[0].stacked, (Names{"w0", "w1", "w2", "w3"}));
  ASSERT_EQ(names_of(looped.results), (Names{"y", "load0"}));
  EXPECT_EQ(looped.results[1].stacked, (Names{"load0", "load1", "load2", "load3"}));
  EXPECT_EQ(looped.results[1].whole.shape, (ir::Shape{4, 4})) << "blocks, elements";
  const Module unrolled = write_program(graph, ir::Mesh(), {}, {}, Placement::megacpp, {.has_loops = false});
  EXPECT_EQ(count_of(unrolled.text, "stablehlo.while"), 0u);
  EXPECT_EQ(names_of(unrolled.arguments), (Names{"w0", "w1", "w2", "w3"}));
  EXPECT_EQ(names_of(unrolled.results), (Names{"y", "load0", "load1", "load2", "load3"}));
}

// State of a loop is replaced where it is: each block doubles its weight.
TEST(ModuleTest, StacksThatAProgramReplacesAreDonated) {
  std::string text = "graph \"p\" {\n", outputs;
  for (int b = 0; b < 3; ++b)
    text += fmt::format("  %{} = input() {{dtype=\"f32\", name=\"w{}\", shape=[4]}} : f32[4] @block{:02}.E #weight\n",
                        b, b, b);
  for (int b = 0; b < 3; ++b) {
    text += fmt::format("  %{} = add(%{}, %{}) : f32[4] @block{:02}.E\n", 3 + b, b, b, b);
    outputs += fmt::format("  output \"w{}\" = %{} donates \"w{}\"\n", b, 3 + b, b);
  }
  const Module module = write_program(ir::parse(text + outputs + "}\n"), ir::Mesh(), {}, {}, Placement::megacpp);
  EXPECT_EQ(module.arguments.size(), 1u);
  EXPECT_EQ(donations_of(module), (Names{"w0 -> w0"}));
  EXPECT_EQ(count_of(module.text, "stablehlo.concatenate"), 0u);
}

// Micro-batches are padded where they are split, not where they are stacked.
TEST(ModuleTest, AStepsPlacementsArePaddedToo) {
  const partition::Placements placed_as = {{"batch.ids", placed({ir::DType::i32, {2, 4}}, "-,model")},
                                           {"w", placed({ir::DType::f32, {4}}, "model+data")}};
  const Module module = step_of(2, kMesh, Placement::xla, placed_as);
  EXPECT_EQ(module.arguments[0].whole.shape, (ir::Shape{2, 2, 6}));
  EXPECT_EQ(module.arguments[0].local.shape, (ir::Shape{2, 2, 2}));
  EXPECT_EQ(module.arguments[1].whole.shape, (ir::Shape{6}));
  EXPECT_EQ(module.arguments[1].local.shape, (ir::Shape{1}));
  EXPECT_EQ(donations_of(module), (Names{"w -> w"}));
}

}  // namespace
}  // namespace megacpp::emit
