// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/core/base/file.h"
#include "megacpp/hardware/catalog/catalog.h"
#include "megacpp/hardware/catalog/database.h"
#include "megacpp/run/launch/build.h"
#include "tests/support/command_line.h"
#include "tests/support/environment.h"
#include "tests/support/plain_user.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::cli {
namespace {

namespace fs = std::filesystem;
using testing_support::CommandResult;
using testing_support::Variable;

class CatalogCommandTest : public testing::Test {
 protected:
  /// "megacpp catalog" with these words, on the test's own catalog.
  CommandResult run(std::vector<std::string> words) const {
    words.insert(words.begin(), "catalog");
    return testing_support::run_command(words);
  }

  static catalog::Signature layout(const std::string& text) {
    return {.build = {.code_version = "0.1.0"},
            .hardware = "v6e:4x4",
            .model = "nam56r-1b",
            .model_hash = "00ff",
            .layout = text,
            .features = "z_loss",
            .shape = "batch=8 sequence=4096"};
  }

  /// Entry 1 failed and ran at rung 1 as entry 2; entries 3 and 4 are measurements without a launch.
  void fill() const {
    catalog::Catalog catalog = catalog::Catalog::open(file_);
    catalog.record({.signature = layout("data=16"),
                    .at = "2026-11-15T17:00:00Z",
                    .fits = false,
                    .oom_class = "compile",
                    .phase = "compile",
                    .chip = "chip 3 (data 3)",
                    .predicted_bytes = 34'000'000'000,
                    .limit_bytes = 33'546'039'296});
    catalog.record({.signature = layout("data=16 half"),
                    .at = "2026-11-15T17:00:01Z",
                    .rung = 1,
                    .predicted_bytes = 22'000'000'000,
                    .measured_bytes = 20'000'000'000,
                    .measured_seconds = 0.5});
    catalog.remember_start(layout("data=16"), {.at = "2026-11-15T17:00:01Z",
                                               .rung = 1,
                                               .settings = {{"train.batch", "4"}, {"train.micro_steps", "2"}},
                                               .reasons = {"activations overflow by 1 GiB"}});
    for (const char* name : {"model=16", "expert=16"})
      catalog.record_calibration({.signature = layout(name),
                                  .at = "2026-11-15T16:00:00Z",
                                  .lane = "xla v6e",
                                  .quantity = catalog::kPeakBytes,
                                  .parts = {{"weights", 8e9}, {"temporaries", 2e9}},
                                  .measured = 12.5e9});
  }

  testing_support::TemporaryFolder folder_;
  const fs::path file_ = folder_ / "c.sqlite";
  const Variable own_{"MEGACPP_CATALOG", file_.string()};
};

TEST_F(CatalogCommandTest, ListShowsWhatPeopleWant) {
  fill();
  const CommandResult result = run({"list"});
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* part :
       {"when", "hardware", "predicted", "nam56r-1b", "v6e:4x4", "data=16 half", "fails (compile)", "start at rung 1",
        "+10.0 %", "peak bytes corrected by 2 measurements of xla v6e (none of this build; 2 of 0.1.0)"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
}

TEST_F(CatalogCommandTest, ListAsJson) {
  fill();
  const Json list = Json::parse(run({"list", "--json"}).out);
  EXPECT_EQ(list["catalog"], file_.string());
  ASSERT_EQ(list["entries"].size(), 4U);
  const Json& newest = list["entries"][0];
  EXPECT_EQ(newest["id"], 2);
  EXPECT_EQ(newest["outcome"], "fits");
  EXPECT_NEAR(newest["error"].get<double>(), 0.1, 1e-12);
  EXPECT_EQ(list["entries"][1]["fails"], 1);
  EXPECT_EQ(list["entries"][1]["start_rung"], 1);
  EXPECT_TRUE(list["entries"][2]["outcome"].is_null());
  EXPECT_EQ(list["corrections"][0]["method"], "factor for each part");
  EXPECT_NEAR(list["corrections"][0]["error_as_planned"]["worst"].get<double>(), 0.2, 1e-12);
}

TEST_F(CatalogCommandTest, ListCorrectsAsALaunchOfThisBuildWould) {
  fill();
  catalog::Signature own = layout("data=8");
  own.build.code_version = launch::code_version();
  catalog::Catalog::open(file_).record_calibration({.signature = own,
                                                    .at = "2026-11-15T17:00:00Z",
                                                    .lane = "xla v6e",
                                                    .quantity = catalog::kPeakBytes,
                                                    .parts = {{"weights", 8e9}, {"temporaries", 2e9}},
                                                    .measured = 12.5e9});
  const CommandResult result = run({"list"});
  EXPECT_NE(result.out.find("(1 of this build; 2 of 0.1.0)"), std::string::npos) << result.out;
  EXPECT_EQ(Json::parse(run({"list", "--json"}).out)["corrections"][0]["samples_of_this_build"], 1);
}

TEST_F(CatalogCommandTest, ShowTellsTheWholeStory) {
  fill();
  const CommandResult failed = run({"show", "1"});
  EXPECT_EQ(failed.status, 0) << failed.err;
  for (const char* part : {"nam56r-1b (00ff)", "fails (compile)", "chip 3 (data 3)",
                           "rung 1: train.batch=4 train.micro_steps=2", "activations overflow by 1 GiB"})
    EXPECT_NE(failed.out.find(part), std::string::npos) << part << "\n" << failed.out;
  const Json measured = Json::parse(run({"show", "3", "--json"}).out);
  EXPECT_EQ(measured["layout"], "model=16");
  EXPECT_EQ(measured["measurements"][0]["predicted"], 10e9);
  EXPECT_NEAR(measured["measurements"][0]["corrected"].get<double>(), 12.5e9, 1e3);
  EXPECT_TRUE(measured["launches"].empty());
}

TEST_F(CatalogCommandTest, ForgetSaysWhatItRemoved) {
  fill();
  const CommandResult one = run({"forget", "1"});
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(one.out,
            "forgot 1: nam56r-1b on v6e:4x4, data=16, batch=8 sequence=4096: 1 launch, 1 start, 0 measurements\n");
  EXPECT_EQ(run({"show", "1"}).status, 2);
  const CommandResult careless = run({"forget", "--all"});
  EXPECT_EQ(careless.status, 2);
  EXPECT_NE(careless.err.find("add --yes"), std::string::npos) << careless.err;
  EXPECT_EQ(catalog::Catalog::open(file_).entries().size(), 3U);
  EXPECT_EQ(run({"forget", "--all", "--yes"}).out,
            "forgot everything: 3 signatures, 1 launch, 0 starts, 2 measurements\n");
  EXPECT_TRUE(catalog::Catalog::open(file_).entries().empty());
}

TEST_F(CatalogCommandTest, BeforeTheFirstLaunchNothingIsMade) {
  const CommandResult list = run({"list"});
  EXPECT_EQ(list.status, 0);
  EXPECT_NE(list.err.find("nothing is remembered yet"), std::string::npos) << list.err;
  EXPECT_TRUE(Json::parse(run({"list", "--json"}).out)["entries"].empty());
  EXPECT_EQ(run({"show", "1"}).status, 2);
  EXPECT_EQ(run({"forget", "1"}).status, 2);
  EXPECT_EQ(run({"forget", "--all", "--yes"}).status, 0);
  EXPECT_FALSE(fs::exists(file_));
}

TEST_F(CatalogCommandTest, MistakesGetACodeAndTheNextStep) {
  fill();
  const std::string missing = (folder_ / "missing.sqlite").string();
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{}, "E1007"},
      {{"lits"}, "E1007"},
      {{"show"}, "E1007"},
      {{"show", "three"}, "E1007"},
      {{"show", "99"}, "E1007"},
      {{"forget"}, "E1007"},
      {{"forget", "99"}, "E1007"},
      {{"forget", "1", "--all"}, "E1007"},
      {{"list", "--catalog", missing}, "E1008"},
      {{"forget", "1", "--catalog", missing}, "E1008"},
  };
  for (const auto& [words, code] : mistakes) {
    const CommandResult result = run(words);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_NE(result.err.find("error " + code), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("next:"), std::string::npos) << result.err;
  }
  EXPECT_EQ(catalog::Catalog::open(file_).entries().size(), 4U);
}

TEST_F(CatalogCommandTest, BadFilesAreRefusedByEveryWordAndKept) {
  fill();
  const std::string sound = base::read_file(file_);
  base::write_file_atomically(folder_ / "text", "no catalog");
  base::write_file_atomically(folder_ / "half", sound.substr(0, 8192));
  base::write_file_atomically(folder_ / "newer", sound);
  catalog::Database(folder_ / "newer", {}).execute("PRAGMA user_version = 7");
  base::write_file_atomically(folder_ / "older", sound);
  catalog::Database(folder_ / "older", {}).execute("PRAGMA user_version = 4");
  for (const auto& [name, code] :
       {std::pair("text", "E1701"), {"half", "E1701"}, {"newer", "E1702"}, {"older", "E1702"}}) {
    const fs::path bad = folder_ / name;
    const std::string before = base::read_file(bad);
    for (std::vector<std::string> words : {std::vector<std::string>{"list"}, {"show", "1"}, {"forget", "1"}}) {
      words.insert(words.end(), {"--catalog", bad.string()});
      const CommandResult result = run(words);
      EXPECT_EQ(result.status, 2) << result.err;
      EXPECT_NE(result.err.find(std::string("error ") + code), std::string::npos) << result.err;
      EXPECT_NE(result.err.find("next:"), std::string::npos) << result.err;
    }
    EXPECT_EQ(base::read_file(bad), before);
  }
}

TEST_F(CatalogCommandTest, WhatMayOnlyBeReadIsListedAndNotForgotten) {
  fill();
  fs::permissions(file_, fs::perms(0444));
  fs::permissions(folder_.path(), fs::perms(0555));
  {
    const testing_support::PlainUser plain;
    EXPECT_EQ(run({"list"}).status, 0);
    EXPECT_EQ(run({"show", "1"}).status, 0);
    const CommandResult forget = run({"forget", "1"});
    EXPECT_EQ(forget.status, 1);
    EXPECT_NE(forget.err.find("error E3001"), std::string::npos) << forget.err;
  }
  fs::permissions(folder_.path(), fs::perms(0755));
  EXPECT_EQ(catalog::Catalog::open(file_, {.access = catalog::Access::read}).entries().size(), 4U);
}

}  // namespace
}  // namespace megacpp::cli
