// SPDX-License-Identifier: Apache-2.0
// Passes, text in and text out: every file in tests/golden/passes/<pass> is one case. It says in comments what it shows
// and the pass's settings, then has the program before the pass, a line "----", and the program after it. Both programs
// are verified and must compute the same, on all chips of the mesh where they exchange something. golden_test --refresh
// rewrites what stands after the line.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/verify.h"
#include "megacpp/program/partition/partition.h"
#include "megacpp/program/schedule/bucket_collectives.h"
#include "megacpp/program/schedule/decompose.h"
#include "megacpp/program/schedule/fuse.h"
#include "megacpp/program/schedule/merge_siblings.h"
#include "megacpp/program/schedule/narrow_gathers.h"
#include "megacpp/program/schedule/offload_activations.h"
#include "megacpp/program/schedule/offload_state.h"
#include "megacpp/program/schedule/overlap_collectives.h"
#include "megacpp/program/schedule/recompute_cheap.h"
#include "megacpp/program/schedule/split_loss.h"
#include "tests/golden/golden_file.h"
#include "tests/support/spmd_evaluator.h"
#include "tests/support/tensors.h"
#include "tests/support/two_chips.h"

namespace megacpp {
namespace {

namespace fs = std::filesystem;
using ops::Tensor;

constexpr std::string_view kSeparator = "----\n";

struct PassCase {
  std::string comments;                         // as they stand in the file
  std::map<std::string, std::string> settings;  // "# mesh: data=2" as mesh -> data=2
  std::string before;
};

PassCase read_case(const fs::path& file) {
  const std::string text = base::read_file(file);
  PassCase result;
  size_t at = 0;
  while (text.substr(at).starts_with("#")) {
    const size_t end = text.find('\n', at) + 1;
    const std::string line = text.substr(at + 2, end - at - 3);
    if (const size_t colon = line.find(": "); colon != std::string::npos && line.find(' ') == colon + 1)
      result.settings[line.substr(0, colon)] = line.substr(colon + 2);
    at = end;
  }
  result.comments = text.substr(0, at);
  result.before = text.substr(at, std::min(text.find(kSeparator, at), text.size()) - at);
  return result;
}

// "data=2,model=4"
ir::Mesh mesh_of(const std::string& text) {
  std::vector<ir::MeshAxis> axes;
  for (size_t at = 0; at < text.size();) {
    const size_t equals = text.find('=', at), end = std::min(text.find(',', at), text.size());
    axes.push_back({text.substr(at, equals - at), std::stoll(text.substr(equals + 1, end - equals - 1))});
    at = end + 1;
  }
  return ir::Mesh(axes);
}

std::string setting(const PassCase& one, const std::string& key, const std::string& otherwise) {
  const auto at = one.settings.find(key);
  return at == one.settings.end() ? otherwise : at->second;
}

// ---- The passes ----

void expect_same_as_whole(const ir::Graph& whole, const partition::Partitioned& parts, const ir::Mesh& mesh) {
  const auto chips = static_cast<size_t>(mesh.chips());
  const std::map<std::string, Tensor> inputs = testing_support::random_inputs(whole, "partition");
  std::vector<std::map<std::string, Tensor>> chip_inputs(chips);
  for (const auto& [name, tensor] : inputs)
    for (size_t chip = 0; chip < chips; ++chip)
      chip_inputs[chip].emplace(
          name, testing_support::shard(tensor, parts.inputs.at(name).sharding, mesh, static_cast<int64_t>(chip)));
  const auto wanted = ops::evaluate(whole, inputs, ops::Rounding::none);
  const auto got = testing_support::evaluate_spmd(parts.graph, mesh, chip_inputs, ops::Rounding::none);
  for (const auto& [name, tensor] : wanted) {
    std::vector<Tensor> per_chip;
    for (const auto& chip : got) per_chip.push_back(chip.at(name));
    const Tensor joined = testing_support::unshard(per_chip, tensor.type.shape, parts.outputs.at(name).sharding, mesh);
    EXPECT_TRUE(testing_support::is_close(joined, tensor, 1e-9)) << name << "\n" << ir::print(parts.graph);
  }
}

ir::Graph run_partition(const PassCase& one, const ir::Graph& before) {
  const ir::Mesh mesh = mesh_of(setting(one, "mesh", ""));
  partition::Partitioned parts = partition::partition(before, mesh);
  expect_same_as_whole(before, parts, mesh);
  return std::move(parts.graph);
}

ir::Graph run_bucket(const PassCase& one, const ir::Graph& before) {
  using Policy = schedule::BucketPolicy;
  const std::map<std::string, Policy::Unit> units = {
      {"none", Policy::Unit::none}, {"block", Policy::Unit::block}, {"bytes", Policy::Unit::bytes}};
  const std::map<std::string, Policy::Order> orders = {{"as_written", Policy::Order::as_written},
                                                       {"reversed", Policy::Order::reversed}};
  ir::Graph after = schedule::bucket_collectives(before, {.unit = units.at(setting(one, "unit", "none")),
                                                          .bytes = std::stoll(setting(one, "bytes", "0")),
                                                          .order = orders.at(setting(one, "order", "as_written"))});
  testing_support::expect_same_on_two_chips(before, after);
  return after;
}

ir::Graph run_overlap(const PassCase& one, const ir::Graph& before) {
  ir::Graph after = schedule::overlap_collectives(before, {.prefetch = std::stoll(setting(one, "prefetch", "1"))});
  testing_support::expect_same_on_two_chips(before, after);
  return after;
}

// Without rounding a sum may still be added up in another order.
ir::Graph computing_the_same(const ir::Graph& before, ir::Graph after) {
  const std::map<std::string, Tensor> inputs = testing_support::random_inputs(before, "pass");
  const auto got = ops::evaluate(after, inputs, ops::Rounding::none);
  for (const auto& [name, tensor] : ops::evaluate(before, inputs, ops::Rounding::none))
    EXPECT_TRUE(testing_support::is_close(got.at(name), tensor, 1e-12)) << name << "\n" << ir::print(after);
  return after;
}

ir::Graph run_fuse(const PassCase&, const ir::Graph& before) {
  return computing_the_same(before, schedule::fuse(before));
}

ir::Graph run_lower_elementwise(const PassCase&, const ir::Graph& before) {
  return computing_the_same(before, schedule::lower_elementwise(before));
}

// Of programs as clusters, which are easier to read before they are.
ir::Graph run_recompute_cheap(const PassCase& one, const ir::Graph& before) {
  const double ops_per_byte = std::stod(setting(one, "ops_per_byte", "1000"));
  return computing_the_same(
      before, schedule::recompute_cheap(schedule::lower_elementwise(schedule::fuse(before)), ops_per_byte));
}

ir::Graph run_merge_siblings(const PassCase&, const ir::Graph& before) {
  return computing_the_same(before, schedule::merge_siblings(schedule::lower_elementwise(schedule::fuse(before))));
}

ir::Graph run_narrow_gathers(const PassCase&, const ir::Graph& before) {
  return computing_the_same(before, schedule::narrow_gathers(before).graph);
}

ir::Graph run_offload(const PassCase&, const ir::Graph& before) {
  return computing_the_same(before, schedule::offload_state(before, ir::Tier::host));
}

// "# letters: AE": of these blocks alone. Tensors of cases are small.
ir::Graph run_offload_activations(const PassCase& one, const ir::Graph& before) {
  schedule::OffloadedBlocks blocks{.least_bytes = std::stoll(setting(one, "least_bytes", "1"))};
  for (const char letter : setting(one, "letters", "")) blocks.letters.emplace_back(1, letter);
  return computing_the_same(before, schedule::offload_activations(before, blocks));
}

ir::Graph run_split_loss(const PassCase& one, const ir::Graph& before) {
  return computing_the_same(before, schedule::split_loss(before, std::stoll(setting(one, "full_rate_rows", "1"))));
}

// "# composites: rms_norm" names the one the backend has a kernel for.
ir::Graph run_decompose(const PassCase& one, const ir::Graph& before) {
  const auto runs = [kernel = setting(one, "composites", "none")](std::string_view op, const ops::NodeView&) {
    return op == kernel ? base::Decision::yes() : base::Decision::no("there is no kernel");
  };
  return computing_the_same(before,
                            schedule::decompose(before, {.name = "case", .runs = runs, .workspace_bytes = {}}).graph);
}

struct PassCaseFile {
  std::string pass;
  fs::path file;
};
void PrintTo(const PassCaseFile& one, std::ostream* out) { *out << one.file.filename(); }

struct PassUnderTest {
  ir::Graph (*run)(const PassCase&, const ir::Graph&);
  ops::Form leaves = ops::Form::built;
};
const std::map<std::string, PassUnderTest> kPasses = {
    {"bucket", {run_bucket}},
    {"decompose", {run_decompose}},
    {"fuse", {run_fuse, ops::Form::clustered}},
    {"lower_elementwise", {run_lower_elementwise, ops::Form::fused}},
    {"merge_siblings", {run_merge_siblings, ops::Form::fused}},
    {"narrow_gathers", {run_narrow_gathers}},
    {"offload", {run_offload}},
    {"offload_activations", {run_offload_activations}},
    {"overlap", {run_overlap}},
    {"partition", {run_partition}},
    {"recompute_cheap", {run_recompute_cheap, ops::Form::fused}},
    {"split_loss", {run_split_loss}},
};

std::vector<PassCaseFile> all_pass_cases() {
  std::vector<PassCaseFile> cases;
  for (const auto& [pass, tested] : kPasses)
    for (const auto& entry : fs::directory_iterator(kSourceRoot / "tests" / "golden" / "passes" / pass))
      cases.push_back({pass, entry.path()});
  std::ranges::sort(cases, {}, &PassCaseFile::file);
  return cases;
}

class PassCasesTest : public testing::TestWithParam<PassCaseFile> {};
INSTANTIATE_TEST_SUITE_P(Files, PassCasesTest, testing::ValuesIn(all_pass_cases()),
                         [](const testing::TestParamInfo<PassCaseFile>& info) {
                           return info.param.pass + "_" + info.param.file.stem().string();
                         });

TEST_P(PassCasesTest, LeavesTheProgramInTheFile) {
  const PassCase one = read_case(GetParam().file);
  const ir::Graph before = ir::parse(one.before);
  ops::verify(before, ops::Form::built);
  const PassUnderTest& pass = kPasses.at(GetParam().pass);
  const ir::Graph after = pass.run(one, before);
  ops::verify(after, pass.leaves);
  expect_golden(GetParam().file, one.comments + ir::print(before) + std::string(kSeparator) + ir::print(after));
}

TEST(PassCaseFilesTest, EveryPassHasSeveral) {
  std::map<std::string, int> count;
  for (const PassCaseFile& one : all_pass_cases()) ++count[one.pass];
  for (const auto& [pass, tested] : kPasses) EXPECT_GE(count[pass], 4) << pass;
}

}  // namespace
}  // namespace megacpp
