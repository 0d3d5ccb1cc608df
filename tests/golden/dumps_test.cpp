// SPDX-License-Identifier: Apache-2.0
// What the compiler leaves of the tiny recipes, cut down to a few blocks, against the files in tests/golden/dumps: its
// dumps on one chip, and on meshes the collectives of the finished programs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "megacpp/core/base/file.h"
#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/program/compile/collective_report.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/ops/collective_start.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/golden/golden_file.h"

namespace megacpp {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string recipe;
  std::vector<std::string> overrides;
  std::vector<std::string> dumps;  // those kept: the larger program's middle passes would be half a megabyte
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.recipe; }

std::vector<Case> all_cases() {
  return {{"nam52-tiny",
           {"model.depth=2"},
           {"01-model.ir", "04-update.ir", "11-fold.ir", "16-lower_elementwise.ir", "19-order.ir", "23-memory.txt"}},
          {"nam56r-tiny", {"model.pattern=AEMR", "model.depth=4"}, {"01-model.ir", "19-order.ir", "23-memory.txt"}}};
}

const fs::path kGolden = kSourceRoot / "tests" / "golden" / "dumps";

class DumpsTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Recipes, DumpsTest, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<Case>& info) {
                           std::string name = info.param.recipe;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(DumpsTest, EqualTheGoldenFiles) {
  const Case& c = GetParam();
  const fs::path dumped = fs::temp_directory_path() / ("megacpp_golden_" + c.recipe + "_" + std::to_string(getpid()));
  fs::create_directories(dumped);
  const recipe::Recipe recipe = recipe::load(kSourceRoot / "recipes" / (c.recipe + ".yaml"), c.overrides);
  compile::compile_training(plan::make_plan(recipe), runtime::cpu::cpu_target(2), {.dump_dir = dumped});
  for (const std::string& dump : c.dumps) expect_golden(kGolden / c.recipe / dump, base::read_file(dumped / dump));
  fs::remove_all(dumped);
}

// A line of the table for each pass, in order, optional ones marked.
TEST(PassTableTest, ArchitecturePageListsEveryDump) {
  const std::string page = base::read_file(kSourceRoot / "docs" / "architecture.md");
  size_t at = 0, number = 0;
  for (const compile::PassInfo& pass : compile::list_passes()) {
    const std::string index = std::to_string(++number), extension = pass.name == "memory" ? ".txt" : ".ir";
    const std::string line = "\n| `" + std::string(number < 10 ? "0" : "") + index + "-" + std::string(pass.name) +
                             extension + "`" + (pass.is_optional() ? " *" : "") + " | ";
    const size_t found = page.find(line, at);
    ASSERT_NE(found, std::string::npos) << line;
    at = found + 1;
  }
}

// ---- Collectives on meshes ----

struct MeshCase {
  std::string name;
  std::string recipe;
  std::vector<std::string> overrides;
};

void PrintTo(const MeshCase& c, std::ostream* out) { *out << c.name; }

std::vector<MeshCase> mesh_cases() {
  const auto hybrid = [](std::string name, std::vector<std::string> layout) {
    layout.insert(layout.end(), {"model.pattern=AEMR", "model.depth=4"});
    return MeshCase{std::move(name), "nam56r-tiny", std::move(layout)};
  };
  return {hybrid("tensor_parallel", {"layout.tensor_parallel=2", "layout.sequence_parallel=false"}),
          hybrid("sequence_parallel", {"layout.tensor_parallel=2"}),
          hybrid("context_parallel", {"layout.context_parallel=4"}),
          {"expert_parallel", "nam56r-tiny", {"model.pattern=AE", "model.depth=2", "layout.expert_parallel=2"}},
          {"fsdp", "nam52-tiny", {"model.depth=2", "layout.policy=fsdp", "layout.data_parallel=2"}},
          {"pipeline_parallel",
           "nam52-tiny",
           {"model.depth=4", "layout.pipeline_parallel=2", "train.micro_steps=2", "train.batch=2"}}};
}

std::string types_of(const ir::Graph& graph, const std::vector<ir::ValueId>& values) {
  constexpr size_t kNamed = 3;  // more are counted
  std::string text;
  int64_t bytes = 0;
  for (const ir::ValueId value : values) {
    text += " " + to_string(graph.type(value));
    bytes += graph.type(value).bytes();
  }
  if (values.size() <= kNamed) return text;
  return " " + std::to_string(values.size()) + " tensors of " + std::to_string(bytes) + " bytes";
}

// "start all_gather over model f32[8,128,128] -> f32[8,256,128] @block00.A"
std::string collective_line(const ir::Graph& graph, const ir::Node& node) {
  const bool is_done = node.op == ops::kDoneOp;
  const std::string half = is_done ? "done " : node.op == ops::kStartOp ? "start " : "";
  const std::string op(is_done ? node.attrs.text("op") : ops::started_op(node));
  std::string line = "  " + half + op + " over " + node.attrs.text("axes");
  if (!is_done) line += types_of(graph, node.operands);
  if (!is_done && !node.results.empty()) line += " ->" + types_of(graph, node.results);
  return line + (node.scope.empty() ? "" : " @" + node.scope) + "\n";
}

std::string collectives_of(const compile::Compiled& compiled) {
  std::string text;
  for (size_t stage = 0; stage < compiled.stages.size(); ++stage)
    for (const compile::Program& program : compiled.stages[stage].programs) {
      const ir::Graph& graph = program.graph;
      text += "stage " + std::to_string(stage) + " " + graph.name() + "\n";
      for (const ir::Node& node : graph.nodes())
        if (compile::sent_bytes(graph, node) || node.op == ops::kDoneOp) text += collective_line(graph, node);
    }
  return text;
}

class MeshCollectivesTest : public testing::TestWithParam<MeshCase> {};
INSTANTIATE_TEST_SUITE_P(Layouts, MeshCollectivesTest, testing::ValuesIn(mesh_cases()),
                         [](const testing::TestParamInfo<MeshCase>& info) { return info.param.name; });

TEST_P(MeshCollectivesTest, EqualTheGoldenFiles) {
  const MeshCase& c = GetParam();
  const recipe::Recipe recipe = recipe::load(kSourceRoot / "recipes" / (c.recipe + ".yaml"), c.overrides);
  const compile::Compiled compiled = compile::compile_training(plan::make_plan(recipe), runtime::cpu::cpu_target(2));
  expect_golden(kGolden / "collectives" / (c.name + ".txt"), collectives_of(compiled));
}

}  // namespace
}  // namespace megacpp
