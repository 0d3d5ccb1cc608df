// SPDX-License-Identifier: Apache-2.0
// State of the XLA lane, on the devices of the CPU plugin: a run that goes on is the uninterrupted one to the bit, and
// one that changes its layout and its backend after every step ends as one chip that never stopped.
#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "megacpp/program/recipe/block_loops.h"
#include "megacpp/run/checkpoint/reader.h"
#include "megacpp/run/checkpoint/store.h"
#include "tests/checkpoint/layout_run.h"
#include "tests/support/command_line.h"
#include "tests/support/cpu_plugin.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/xla_backend.h"

namespace megacpp {
namespace {

using emit::Placement;
using testing_support::CommandResult;
using testing_support::files_of;
using testing_support::LayoutRun;
using testing_support::recipe_in;
using testing_support::run_command;
using testing_support::TemporaryFolder;
using testing_support::xla_backend;

// Every family twice: the passes are loops over stacked state.
constexpr const char* kFamiliesInLoops = "model.pattern=AEMR model.depth=8";

struct XlaResumeRow {
  std::string name;
  std::string words;  // of recipe_in
  Placement placement = Placement::megacpp;
};
void PrintTo(const XlaResumeRow& row, std::ostream* out) { *out << row.name; }

class XlaResumeTest : public testing_support::CpuPluginTest {};
class XlaResumeLayoutTest : public XlaResumeTest, public testing::WithParamInterface<XlaResumeRow> {};

TEST_P(XlaResumeLayoutTest, AResumedRunIsTheUninterruptedOneToTheBit) {
  const TemporaryFolder folder;
  const recipe::Recipe recipe = recipe_in(GetParam().words, 4, kFamiliesInLoops);
  const runtime::Backend backend = xla_backend(GetParam().placement, folder / "programs");
  const checkpoint::Store whole(folder / "whole"), parts(folder / "parts");
  LayoutRun first(recipe, backend);
  first.draw_weights();
  first.train(0, 2);
  first.save(whole.folder(), 2);
  const std::vector<double> wanted = first.train(2, 2);
  first.save(whole.folder(), 4);

  LayoutRun second(recipe, backend);
  second.load(checkpoint::Reader(whole.path_of(2)));
  second.save(parts.folder(), 2);
  EXPECT_TRUE(files_of(parts.path_of(2)) == files_of(whole.path_of(2))) << "nothing was computed";
  EXPECT_EQ(second.train(2, 2), wanted);
  second.save(parts.folder(), 4);
  EXPECT_TRUE(files_of(parts.path_of(4)) == files_of(whole.path_of(4)));
}

INSTANTIATE_TEST_SUITE_P(Rows, XlaResumeLayoutTest,
                         testing::Values(XlaResumeRow{"OneChip", ""},
                                         XlaResumeRow{"OurCollectives", "data_parallel=2 tensor_parallel=2 zero=3"},
                                         XlaResumeRow{"CollectivesOfXla",
                                                      "data_parallel=2 expert_parallel=2 zero=1 optimizer.name=muon",
                                                      Placement::xla}),
                         [](const auto& info) { return info.param.name; });

TEST_F(XlaResumeTest, ARunGoesOnInOtherLayoutsAndOnTheOtherBackend) {
  testing_support::train_through({{"data_parallel=2 zero=3", xla_backend(Placement::megacpp)},
                                  {"pipeline_parallel=2"},
                                  {"tensor_parallel=2", xla_backend(Placement::xla)},
                                  {"data_parallel=3 zero=1"},
                                  {"", xla_backend(Placement::megacpp)}},
                                 kFamiliesInLoops);
}

// Loops hold the state of like blocks in stacks, unrolled programs each block's by itself; checkpoints hold neither.
TEST_F(XlaResumeTest, ARunInLoopsGoesOnUnrolledAndBack) {
  ASSERT_TRUE(recipe::has_block_loops(recipe_in("xla.loops=on", 1, kFamiliesInLoops)));
  const TemporaryFolder folder;
  const runtime::Backend xla = xla_backend(Placement::megacpp, folder / "programs");
  testing_support::train_through({{"xla.loops=on", xla}, {"xla.loops=off", xla}, {"xla.loops=on", xla}},
                                 kFamiliesInLoops);
}

std::vector<std::string> xla_training(const std::filesystem::path& run) {
  return testing_support::on_recipe(
      "train", "nam52-tiny.yaml",
      {"model.pattern=E", "model.depth=1", "model.vocab=256", "train.batch=4", "train.sequence=16", "train.steps=4",
       "checkpoint.every=2", "checkpoint.keep=0", "xla.flags=[xla_backend_optimization_level=0]", "xla.cache=off",
       std::string("xla.plugin=") + MEGACPP_PJRT_CPU_PLUGIN,
       "data.text=[" + std::string(MEGACPP_SOURCE_DIR) + "/docs]"},
      {"--backend", "xla", "--run-dir", run.string()});
}

TEST_F(XlaResumeTest, TheCommandGoesOnWhereItStoppedAndOnTheOtherBackend) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_command(xla_training(folder / "whole")).status, 0);
  ASSERT_EQ(run_command(xla_training(folder / "parts")).status, 0);
  const checkpoint::Store whole(folder / "whole" / "checkpoints"), parts(folder / "parts" / "checkpoints");
  std::filesystem::remove_all(parts.path_of(4));
  const CommandResult resumed = run_command({"train", "--resume", parts.path_of(2).string()});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_TRUE(files_of(parts.path_of(4)) == files_of(whole.path_of(4)));
  const CommandResult on_cpu = run_command({"train", "--resume", (folder / "parts").string(), "--set", "backend=cpu",
                                            "--set", "layout.data_parallel=2", "--set", "train.steps=6"});
  ASSERT_EQ(on_cpu.status, 0) << on_cpu.err;
  EXPECT_EQ(parts.steps(), (std::vector<int64_t>{2, 4, 6}));
}

}  // namespace
}  // namespace megacpp
