// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/run_directory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/run/checkpoint/manifest.h"
#include "tests/support/environment.h"
#include "tests/support/errors.h"
#include "tests/support/no_memory.h"
#include "tests/support/plain_user.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::launch {
namespace {

using testing_support::problem_of;

class RunDirectoryTest : public testing::Test {
 protected:
  testing_support::TemporaryFolder folder_;
  testing_support::Variable runs_{"MEGACPP_RUNS", (folder_ / "runs").string()};
};

// A run with a checkpoint, as far as looking for it goes.
void make_run(const RunDirectory& directory) {
  directory.write_recipe("name: a\n");
  base::make_folder(directory.checkpoints().path_of(3));
  base::write_file_atomically(directory.checkpoints().path_of(3) / checkpoint::kManifestFile, "{}");
}

TEST_F(RunDirectoryTest, AStartThatFailsIsNotTheLatestRun) {
  const std::filesystem::path first = [&] {
    const RunDirectory directory = RunDirectory::create({}, "first");
    make_run(directory);
    return directory.path();
  }();
  EXPECT_EQ(find_resume_point("latest").run, std::filesystem::canonical(first));
  { RunDirectory::create({}, "failed"); }  // ends before its recipe is written
  EXPECT_EQ(find_resume_point("latest").run, std::filesystem::canonical(first));
  const RunDirectory second = RunDirectory::create({}, "second");
  make_run(second);
  EXPECT_EQ(find_resume_point("latest").run, std::filesystem::canonical(second.path()));
}

TEST_F(RunDirectoryTest, AFolderThatWasMadeForNothingIsRemoved) {
  { RunDirectory::create(folder_ / "new", ""); }
  EXPECT_FALSE(base::exists(folder_ / "new"));
  base::make_folder(folder_ / "given");
  { RunDirectory::create(folder_ / "given", ""); }
  EXPECT_TRUE(base::exists(folder_ / "given")) << "it was there before";
  {
    const RunDirectory directory = RunDirectory::create(folder_ / "kept", "");
    base::write_file_atomically(directory.path() / "receipt.json", "{}");
  }
  EXPECT_TRUE(base::exists(folder_ / "kept" / "receipt.json"));
}

TEST_F(RunDirectoryTest, AFolderForNothingThatNoMemoryIsLeftToRemoveStays) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need the address space";
#endif
  const auto end_without_memory = [&] {
    {
      const RunDirectory directory = RunDirectory::create(folder_ / "new", "");
      testing_support::leave_no_memory();
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(end_without_memory(), testing::ExitedWithCode(0), "");
}

TEST_F(RunDirectoryTest, ACheckpointIsFoundHoweverItsPathIsWritten) {
  const RunDirectory directory = RunDirectory::create(folder_ / "run", "");
  make_run(directory);
  const std::filesystem::path run = std::filesystem::canonical(folder_ / "run");
  const std::filesystem::path checkpoint = run / "checkpoints" / "step-00000003";
  std::filesystem::create_symlink(checkpoint, folder_ / "best");
  checkpoint::replace_link(run / "checkpoints" / "latest", "step-00000003");
  for (const char* named : {"run", "run/", "run/.", "run/checkpoints/step-00000003", "run/checkpoints/step-00000003/",
                            "run/checkpoints/step-00000003//", "run/checkpoints/step-00000003/.",
                            "run/checkpoints/../checkpoints/latest/", "best", "best/"}) {
    const FoundCheckpoint point = find_resume_point((folder_ / named).string());
    EXPECT_EQ(point.run, run) << named;
    EXPECT_EQ(point.checkpoint, checkpoint) << named;
  }
  problem_of(base::Code::E1206, [&] { find_resume_point((folder_ / "none/").string()); });
}

TEST_F(RunDirectoryTest, ACheckpointInNoRunIsFoundButIsNotResumed) {
  const RunDirectory directory = RunDirectory::create(folder_ / "run", "");
  make_run(directory);
  // Copied out of it, and beside its checkpoints: neither is one that the run has saved.
  for (const char* name : {"alone", "run/converted/half"}) {
    std::filesystem::create_directories(folder_ / name);
    base::write_file_atomically(folder_ / name / checkpoint::kManifestFile, "{}");
    const FoundCheckpoint found = find_checkpoint((folder_ / name).string() + "/");
    EXPECT_EQ(found.checkpoint, std::filesystem::canonical(folder_ / name));
    EXPECT_EQ(found.run, "");
    problem_of(base::Code::E1206, [&] { find_resume_point((folder_ / name).string()); });
  }
  EXPECT_EQ(find_checkpoint((folder_ / "run").string()).run, std::filesystem::canonical(folder_ / "run"));
}

TEST_F(RunDirectoryTest, AFolderThatMayOnlyBeReadIsRefusedAndStaysAsItIs) {
  namespace fs = std::filesystem;
  make_run(RunDirectory::create(folder_ / "run", ""));
  fs::permissions(folder_ / "run" / "lock", fs::perms(0444));
  for (const char* name : {"given", "runs"}) fs::create_directory(folder_ / name);
  fs::permissions(folder_.path(), fs::perms(0755));
  for (const char* name : {"given", "run", "runs"}) fs::permissions(folder_ / name, fs::perms(0555));
  {
    const testing_support::PlainUser plain;
    const base::Problem problem = problem_of(base::Code::E3001, [&] { RunDirectory::create(folder_ / "given", ""); });
    EXPECT_EQ(problem.where, (folder_ / "given").string());
    problem_of(base::Code::E3001, [&] { RunDirectory::create(folder_ / "given" / "deeper", ""); });
    problem_of(base::Code::E3001, [&] { RunDirectory::create({}, "name"); });
    problem_of(base::Code::E3001, [&] { RunDirectory::open(folder_ / "run"); });
  }
  for (const char* name : {"given", "run", "runs"}) fs::permissions(folder_ / name, fs::perms(0755));
  EXPECT_TRUE(fs::is_empty(folder_ / "given") && fs::is_empty(folder_ / "runs"));
  EXPECT_EQ(find_resume_point((folder_ / "run").string()).checkpoint.filename(), "step-00000003");
}

TEST_F(RunDirectoryTest, ANewestCheckpointWithoutItsManifestIsNamed) {
  const RunDirectory directory = RunDirectory::create(folder_ / "run", "");
  make_run(directory);
  const checkpoint::Store store = directory.checkpoints();
  base::make_folder(store.path_of(5));
  const std::filesystem::path run = std::filesystem::canonical(folder_ / "run");
  for (const std::filesystem::path& named : {run, store.path_of(5), run / "checkpoints" / "." / "step-00000005"}) {
    const base::Problem problem = problem_of(base::Code::E1204, [&] { find_resume_point(named.string()); });
    EXPECT_EQ(problem.where, (run / "checkpoints" / "step-00000005").string());
    EXPECT_NE(problem.next.find((run / "checkpoints" / "step-00000003").string()), std::string::npos) << problem.next;
  }
  EXPECT_EQ(find_resume_point(store.path_of(3).string()).checkpoint.filename(), "step-00000003");
}

TEST_F(RunDirectoryTest, ARunThatIsMovedOrDeletedIsNoticed) {
  const RunDirectory directory = RunDirectory::create(folder_ / "run", "");
  make_run(directory);
  directory.require_in_place();
  std::filesystem::remove(folder_ / "run" / "lock");
  directory.require_in_place();
  std::filesystem::rename(folder_ / "run", folder_ / "moved");
  const base::Problem moved = problem_of(base::Code::E3001, [&] { directory.require_in_place(); });
  EXPECT_EQ(moved.where, (folder_ / "run").string());
  EXPECT_NE(moved.next.find("--resume " + (folder_ / "moved").string()), std::string::npos) << moved.next;
  base::make_folder(folder_ / "run");
  problem_of(base::Code::E3001, [&] { directory.require_in_place(); });
  std::filesystem::remove_all(folder_ / "moved");
  EXPECT_NE(problem_of(base::Code::E3001, [&] { directory.require_in_place(); }).got.find("deleted"),
            std::string::npos);
}

TEST_F(RunDirectoryTest, WhatAKilledProcessLeftIsRemovedByTheNextThatLooks) {
  make_run(RunDirectory::create(folder_ / "run", ""));
  const auto leave = [&] {
    for (const char* name : {"log.jsonl.tmp123", "plan.json.tmp1", "recipe.yaml.tmp7", "notes.tmp1"})
      base::write_file_atomically(folder_ / "run" / name, "");
    base::make_folder(folder_ / "run" / "checkpoints" / "step-00000003.replaced");
  };
  const auto expect_gone = [&] {
    std::vector<std::string> names;
    for (const std::filesystem::path& entry : base::list_folder(folder_ / "run"))
      names.push_back(entry.filename().string());
    EXPECT_EQ(names, (std::vector<std::string>{"checkpoints", "lock", "notes.tmp1", "recipe.yaml"}));
    EXPECT_FALSE(base::exists(folder_ / "run" / "checkpoints" / "step-00000003.replaced"));
  };
  leave();
  find_checkpoint((folder_ / "run").string());
  expect_gone();
  for (const char* name : {"log.jsonl.tmp123", "plan.json.tmp1"})
    base::write_file_atomically(folder_ / "run" / name, "");
  find_run((folder_ / "run").string());
  expect_gone();
  leave();
  {
    const RunDirectory directory = RunDirectory::open(folder_ / "run");
    expect_gone();
    leave();
    find_checkpoint((folder_ / "run").string());
    EXPECT_TRUE(base::exists(folder_ / "run" / "log.jsonl.tmp123")) << "a process trains there";
  }
  RunDirectory::open(folder_ / "run");
  expect_gone();
}

/// No file of this process grows beyond so many bytes, as on a full disk.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  sighandler_t handler_;
  rlimit before_ = {};
};

TEST_F(RunDirectoryTest, ALineThatTheDiskDidNotTakeWholeSpoilsNoOther) {
  RunDirectory directory = RunDirectory::create(folder_ / "run", "");
  EXPECT_TRUE(directory.log({.step = 0}));
  const size_t first = base::read_file(directory.log_file()).size();
  {
    const FileLimit limit(first + 10);
    EXPECT_EQ(directory.log({.step = 1}).reason(), "File too large");
    EXPECT_FALSE(directory.log({.step = 2}));
  }
  EXPECT_TRUE(directory.log({.step = 3}));
  EXPECT_TRUE(directory.log({.step = 4}));
  const std::string text = base::read_file(directory.log_file());
  EXPECT_EQ(std::ranges::count(text, '\n'), 4);
  EXPECT_EQ(text.substr(first, 11).back(), '\n') << text;
  EXPECT_EQ(text.substr(first + 11).find("{\"step\":3"), 0u) << text;
  directory.begin_log(4);
  const std::string kept = base::read_file(directory.log_file());
  EXPECT_EQ(std::ranges::count(kept, '\n'), 2) << kept;
}

TEST_F(RunDirectoryTest, ALogThatCannotBeWrittenIsNoErrorButSaid) {
  RunDirectory directory = RunDirectory::create(folder_ / "run", "");
  std::filesystem::create_symlink("/dev/full", directory.log_file());
  EXPECT_EQ(directory.log({}).reason(), "No space left on device");
  std::filesystem::remove(directory.log_file());
  std::filesystem::create_directory(directory.log_file());
  EXPECT_EQ(directory.log({}).reason(), "Is a directory");
}

}  // namespace
}  // namespace megacpp::launch
