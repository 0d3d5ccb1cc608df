// SPDX-License-Identifier: Apache-2.0
// Trainings of two processes that a real launcher starts with different words, environments or limits: what must end
// them stands in messages of both, and nobody waits for ever.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/core/base/file.h"
#include "tests/support/child_process.h"
#include "tests/support/command_line.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace megacpp::cli {
namespace {

using testing_support::Ending;
using testing_support::has;
using Words = std::vector<std::string>;

const std::filesystem::path kProgram = MEGACPP_PROGRAM;

/// What each of the two processes is started as.
struct Pair {
  Words first, second;
};

class TrainOverMpirunTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "libraries of MPI leak, and race as a sanitizer sees it";
#endif
    if (!std::filesystem::exists(kProgram.parent_path() / "libmegacpp_mpi.so"))
      GTEST_SKIP() << "this program was built where no MPI was found";
    if (run({"/usr/bin/env", "mpirun", "--version"}).status != 0) GTEST_SKIP() << "there is no mpirun";
  }

  /// `more` follows what both have: two chips, few steps.
  Words train(const Words& more = {}) const {
    Words words = {kProgram.string(), "train", std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml"};
    for (const char* setting :
         {"train.batch=4", "train.sequence=64", "layout.data_parallel=2", "train.steps=3", "train.wait_limit=60"})
      words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), {"--no-catalog", "--run-dir", (folder_ / "run").string()});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// A run directory to start from; trained by one process.
  std::string trained(const std::string& name, const std::string& setting) const {
    const std::string run = (folder_ / name).string();
    const auto result = testing_support::run_command(testing_support::on_recipe(
        "train", "nam56r-tiny.yaml", {"train.batch=4", "train.sequence=64", "train.steps=1", setting},
        {"--no-catalog", "--run-dir", run}));
    EXPECT_EQ(result.status, 0) << result.err;
    return run;
  }

  Ending run(const Words& words) const {
    const std::string out = (folder_ / "out").string(), err = (folder_ / "err").string();
    std::filesystem::remove(err);
    Ending ending =
        testing_support::wait_for_process(testing_support::start_process(words, out, err), std::chrono::seconds(120));
    ending.err = base::read_file(err);
    return ending;
  }

  Ending start(const Pair& pair) const {
    // Of OpenMPI: as root too, more processes than cores, and none of them bound.
    Words words = {"/usr/bin/env",
                   "OMPI_ALLOW_RUN_AS_ROOT=1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                   "mpirun",
                   "--oversubscribe",
                   "--bind-to",
                   "none",
                   "-n",
                   "1"};
    words.insert(words.end(), pair.first.begin(), pair.first.end());
    words.insert(words.end(), {":", "-n", "1"});
    words.insert(words.end(), pair.second.begin(), pair.second.end());
    const Ending ending = run(words);
    EXPECT_FALSE(ending.hung) << ending.err;
    EXPECT_FALSE(has(ending.err, "E9001")) << ending.err;
    return ending;
  }

  /// Both processes refuse to start, and `got` is said of the second one.
  void expect_refused(const Pair& pair, const std::string& got) const {
    const Ending ending = start(pair);
    EXPECT_NE(ending.status, 0);
    EXPECT_TRUE(has(ending.err, "error E3103")) << ending.err;
    EXPECT_TRUE(has(ending.err, got)) << got << "\n" << ending.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run" / "log.jsonl")) << "no step was run";
  }

  testing_support::TemporaryFolder folder_;
};

TEST_F(TrainOverMpirunTest, OtherWeightsOnOneHostAreRefused) {
  const std::string one = trained("one", "train.seed=1"), other = trained("other", "train.seed=2");
  expect_refused({train({"--from", one}), train({"--from", other})}, "weights: manifest.json");
}

TEST_F(TrainOverMpirunTest, AFlagOfOneProcessThatChangesWhatIsCalledIsRefused) {
  expect_refused({train(), train({"--trace", (folder_ / "trace").string()})}, "--trace given");
}

TEST_F(TrainOverMpirunTest, OneThatGoesOnBesideOneThatBeginsIsRefused) {
  const Words other = {kProgram.string(), "train", "--resume", trained("one", "train.seed=1")};
  expect_refused({train(), other}, "--resume given");
  expect_refused({other, train()}, "--resume not given");
}

// Nothing of it reaches a GPU.
TEST_F(TrainOverMpirunTest, AnotherChipFileOnOneHostIsRefused) {
  for (const std::string bytes : {"80GiB", "40GiB"}) {
    std::filesystem::create_directories(folder_ / bytes);
    base::write_file_atomically(folder_ / bytes / "own-card.yaml", "extends: h200\nmemory: {usable: " + bytes + "}\n");
  }
  const auto with_chips = [&](const std::string& bytes) {
    Words words = train({"--backend", "cuda", "--set", "hardware.target=own-card:2"});
    words.insert(words.begin(), {"/usr/bin/env", "MEGACPP_HW_PATH=" + (folder_ / bytes).string()});
    return words;
  };
  expect_refused({with_chips("80GiB"), with_chips("40GiB")}, "chip: memory.usable 40GiB");
}

// The limit holds for one process or for both. With less, MPI fails by itself.
TEST_F(TrainOverMpirunTest, ALimitOnMemoryThatLeavesNoRoomSaysSo) {
  int refused = 0;
  for (const auto& [kibibytes, is_of_both] : {std::pair(250'000, false), {400'000, true}, {460'000, false}}) {
    Words limited = {"/bin/sh", "-c", "ulimit -v " + std::to_string(kibibytes) + "; exec \"$@\"", "sh"};
    const Words words = train();
    limited.insert(limited.end(), words.begin(), words.end());
    const Ending ending = start({is_of_both ? limited : words, limited});
    const bool says_so = has(ending.err, "error E3002") || has(ending.err, "error E2005");
    EXPECT_TRUE(ending.status == 0 || says_so) << kibibytes << "\n" << ending.err;
    EXPECT_FALSE(ending.hung || has(ending.err, "E9") || has(ending.err, "exited on signal")) << ending.err;
    refused += says_so ? 1 : 0;
    std::filesystem::remove_all(folder_ / "run");
  }
  EXPECT_GT(refused, 0);
}

TEST_F(TrainOverMpirunTest, AProcessThatNeverComesIsNamed) {
  const Ending ending = start({train({"--set", "train.wait_limit=1"}), {"true"}});
  EXPECT_NE(ending.status, 0);
  EXPECT_TRUE(has(ending.err, "error E3102")) << ending.err;
  EXPECT_TRUE(has(ending.err, "waited 1 s for process 1, which has not come")) << ending.err;
}

}  // namespace
}  // namespace megacpp::cli
