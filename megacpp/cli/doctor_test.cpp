// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "megacpp/cli/json.h"
#include "megacpp/core/base/file.h"
#include "megacpp/machine/plugins/plugin_fetch.h"
#include "megacpp/run/lineage/lock_file.h"
#include "tests/support/child_command.h"
#include "tests/support/command_line.h"
#include "tests/support/environment.h"
#include "tests/support/make_wheel.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace megacpp::cli {
namespace {

using testing_support::CommandResult;
using testing_support::has;
using testing_support::run_command;

/// Settings of the test's own.
class DoctorCommandTest : public testing::Test {
 protected:
  std::filesystem::path write_lock(const std::string& name, const lineage::Lock& lock) const {
    base::make_folder((folder_ / name).parent_path());
    base::write_file_atomically(folder_ / name, lineage::print_lock(lock));
    return folder_ / name;
  }
  static lineage::Lock lock_with(lineage::Facts facts) {
    return {.architecture = runtime::plugins::this_machine(), .facts = std::move(facts)};
  }
  /// The live value of a probe.
  static std::string live(const std::string& group, const std::string& name) {
    const Json json = Json::parse(run_command({"doctor", "--only", group, "--json"}).out);
    for (const Json& finding : json["findings"])
      if (finding["probe"] == name) return finding["live"];
    ADD_FAILURE() << name;
    return "";
  }

  const testing_support::TemporaryFolder folder_;
  const testing_support::Variable config_{"XDG_CONFIG_HOME", (folder_ / "config").string()};
};

TEST_F(DoctorCommandTest, WithoutALockFileWhatIsHereIsRight) {
  const CommandResult result = run_command({"doctor", "--only", "libraries", "--only", "machine"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(has(result.out, "sqlite") && has(result.out, "cores")) << result.out;
  EXPECT_FALSE(has(result.out, "XLA_FLAGS"));
  EXPECT_TRUE(has(result.out, "compared with no lock file")) << result.out;
}

TEST_F(DoctorCommandTest, DriftAndWhatIsMissingEndWithE3401) {
  const std::string cores = live("machine", "cores");
  const std::string file =
      write_lock("a.lock", lock_with({{"cores", cores}, {"kernel", "1.0"}, {"env.XLA_FLAGS", "--x=1"}})).string();
  const testing_support::Variable flags("XLA_FLAGS", "");
  const CommandResult result =
      run_command({"doctor", "--lock", file, "--only", "machine", "--only", "flags", "--json"});
  EXPECT_EQ(result.status, 1);
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["lock_file"], file);
  EXPECT_EQ(json["error"]["code"], "E3401");
  for (const Json& finding : json["findings"]) {
    const std::string probe = finding["probe"];
    EXPECT_EQ(finding["status"], probe == "kernel" ? "drift" : probe == "env.XLA_FLAGS" ? "missing" : "ok") << probe;
    if (probe == "env.XLA_FLAGS") {
      EXPECT_EQ(finding["fix"], "export XLA_FLAGS='--x=1'");
    }
  }
}

TEST_F(DoctorCommandTest, TheUsersLockFileIsFound) {
  write_lock("config/megacpp/megacpp.lock", lock_with({{"kernel", "1.0"}}));
  EXPECT_EQ(run_command({"doctor", "--only", "machine"}).status, 1);
  EXPECT_EQ(run_command({"doctor", "--only", "libraries"}).status, 0);
}

TEST_F(DoctorCommandTest, ABadLockFileIsAnErrorOfItsOwn) {
  lineage::Lock other = lock_with({{"kernel", "1.0"}});
  other.architecture = "riscv64";
  EXPECT_TRUE(has(run_command({"doctor", "--lock", write_lock("b.lock", other).string()}).err, "error E1903"));
  base::write_file_atomically(folder_ / "c.lock", "{\"format\": \"megacpp lo");
  EXPECT_TRUE(has(run_command({"doctor", "--lock", (folder_ / "c.lock").string()}).err, "error E1901"));
  EXPECT_TRUE(has(run_command({"doctor", "--lock", (folder_ / "absent").string()}).err, "error E1008"));
}

TEST_F(DoctorCommandTest, FlagsThatContradictAreE1007) {
  EXPECT_TRUE(has(run_command({"doctor", "--write", (folder_ / "d.lock").string(), "--only", "disk"}).err, "E1007"));
  EXPECT_TRUE(has(run_command({"doctor", "--only", "disks"}).err, "did you mean 'disk'?"));
  EXPECT_TRUE(has(run_command({"doctor", "--write", (folder_ / "no/folder/d.lock").string()}).err, "error E3001"));
}

TEST_F(DoctorCommandTest, WhatIsWrittenIsWhatIsHere) {
  const testing_support::Variable no_plugin("MEGACPP_PJRT_CPU", "/nonexistent/plugin.so");
  const testing_support::Ending ending = testing_support::run_child({.words = {"doctor", "--write"}});
  EXPECT_TRUE(has(ending.err, "lock file written to ")) << ending.err;
  const std::filesystem::path file = folder_ / "config/megacpp/megacpp.lock";
  EXPECT_EQ(*lineage::find_value(lineage::read_lock(file).facts, "plugin.cpu"), lineage::kNone);
  const testing_support::Ending again = testing_support::run_child(
      {.words = {"doctor", "--only", "libraries", "--only", "machine", "--only", "plugins", "--only", "flags"}});
  EXPECT_EQ(again.status, 0) << again.out;
  EXPECT_TRUE(has(again.out, "compared with " + file.string())) << again.out;
}

std::vector<std::string> one_step(const std::string& recipe, const std::string& run) {
  return {"train",     recipe,
          "--set",     "train.steps=1",
          "--set",     "model.depth=2",
          "--set",     "train.batch=2",
          "--set",     "train.sequence=32",
          "--set",     "train.threads=1",
          "--run-dir", run,
          "--json"};
}

TEST_F(DoctorCommandTest, ALaunchNamesWhatDriftedAndKeepsIt) {
  base::make_folder(folder_ / "recipes");
  const std::string recipe = (folder_ / "recipes/tiny.yaml").string(), run = (folder_ / "run").string();
  base::write_file_atomically(recipe, base::read_file(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml"));
  const std::string lock = write_lock("recipes/megacpp.lock", lock_with({{"kernel", "1.0"}})).string();
  const CommandResult result = run_command(one_step(recipe, run));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(has(result.err, "documented 1.0: run on a machine with kernel 1.0")) << result.err;
  const Json lineage = Json::parse(result.out)["lineage"];
  EXPECT_EQ(lineage["lock_file"], lock);
  ASSERT_EQ(lineage["drifts"].size(), 1u);
  EXPECT_EQ(lineage["drifts"][0]["name"], "kernel");
  EXPECT_EQ(Json::parse(base::read_file(run + "/plan.json"))["lineage"], lineage);
  EXPECT_EQ(base::read_file(run + "/megacpp.lock"), base::read_file(lock)) << "for a run that goes on";
  const Json recorded = Json::parse(base::read_file(run + "/receipt.json"))["lineage"];
  EXPECT_EQ(recorded["lock_file"], lock);
  ASSERT_EQ(recorded["items"].size(), lineage["live"].size());
  for (const Json& item : recorded["items"]) {
    const bool is_kernel = item["name"] == "kernel";
    EXPECT_EQ(item["state"], is_kernel ? "drift" : "ok") << item["name"];
    EXPECT_EQ(item["documented"], is_kernel ? "1.0" : "") << item["name"];
  }
}

TEST_F(DoctorCommandTest, ALaunchGoesOnWithALockFileThatCannotBeRead) {
  base::make_folder(folder_ / "config/megacpp");
  base::write_file_atomically(folder_ / "config/megacpp/megacpp.lock", "{");
  const std::string recipe = std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml";
  const CommandResult result = run_command(one_step(recipe, (folder_ / "run").string()));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(has(result.err, "E1901 lock file is damaged or edited")) << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/megacpp.lock"));
}

TEST_F(DoctorCommandTest, FetchTakesWhatTheLockFileNames) {
  const testing_support::Variable cache("XDG_CACHE_HOME", (folder_ / "cache").string());
  const std::string wheel =
      testing_support::make_wheel(folder_ / "xla_cpu_pjrt-1.2.3-py3-none-any.whl",
                                  {{.path = "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so", .text = "library"},
                                   {.path = "xla_plugins/xla_cpu_pjrt/include/pjrt_c_api.h", .text = "header"}})
          .string();
  ASSERT_EQ(run_command({"plugins", "fetch", "cpu", "--wheel", wheel}).status, 0);
  const testing_support::Variable no_file("MEGACPP_PJRT_CPU", "");
  const std::string hash = live("plugins", "plugin.cpu.hash");
  EXPECT_EQ(live("plugins", "plugin.cpu"), "xla-cpu-pjrt 1.2.3");
  const auto lock_of = [&](const std::string& pinned_hash) {
    return write_lock("config/megacpp/megacpp.lock",
                      lock_with({{"plugin.cpu", "xla-cpu-pjrt 1.2.3"}, {"plugin.cpu.hash", pinned_hash}}));
  };
  lock_of(hash);
  const CommandResult taken = run_command({"plugins", "fetch", "cpu", "--wheel", wheel});
  EXPECT_EQ(taken.status, 0) << taken.err;
  EXPECT_TRUE(has(taken.err, "xla-cpu-pjrt 1.2.3 as ")) << taken.err;
  const CommandResult other = run_command({"plugins", "fetch", "cpu", "--version", "2.0"});
  EXPECT_EQ(other.status, 2);
  EXPECT_TRUE(has(other.err, "error E1007") && has(other.err, "--no-lock")) << other.err;
  lock_of(std::string(32, '0'));
  const CommandResult refused = run_command({"plugins", "fetch", "cpu", "--wheel", wheel});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(has(refused.err, "error E3203") && has(refused.err, hash)) << refused.err;
  EXPECT_EQ(run_command({"plugins", "fetch", "cpu", "--wheel", wheel, "--no-lock"}).status, 0);
  write_lock("config/megacpp/megacpp.lock", lock_with({{"plugin.cpu", lineage::kNone}}));
  const CommandResult none = run_command({"plugins", "fetch", "cpu", "--wheel", wheel});
  EXPECT_EQ(none.status, 2);
  EXPECT_TRUE(has(none.err, "documents as not there") && has(none.err, "--no-lock")) << none.err;
}

}  // namespace
}  // namespace megacpp::cli
