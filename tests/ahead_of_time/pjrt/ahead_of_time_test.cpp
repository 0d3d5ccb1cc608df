// SPDX-License-Identifier: Apache-2.0
// compile and explain with --target, from the command line to the child process and back.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/hardware/catalog/catalog.h"
#include "megacpp/hardware/hw/chip_library.h"
#include "tests/support/command_line.h"
#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"

namespace megacpp {
namespace {

using cli::Json;
using testing_support::CommandResult;
using testing_support::run_command;
using testing_support::Variable;

const std::vector<std::string> kTiny = {"train.sequence=16", "train.batch=16", "model.pattern=E", "model.depth=1",
                                        "model.vocab=256"};

class AheadOfTimeTest : public testing::Test {
 protected:
  CommandResult run(const std::string& command, const std::string& target, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--backend", "xla", "--target", target};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(testing_support::on_recipe(command, "nam52-tiny.yaml", kTiny, words));
  }

  const std::vector<std::string> four_chips_ = {"--set", "layout.data_parallel=2", "--set", "layout.tensor_parallel=2"};
  Variable plugin_{"MEGACPP_PJRT_TPU", STAND_IN_TPU_FILE};
  Variable flags_{"LIBTPU_INIT_ARGS", ""};
};

TEST_F(AheadOfTimeTest, ASliceThatIsNotHereIsReportedOn) {
  std::vector<std::string> words = four_chips_;
  words.insert(words.end(), {"--json", "--set", "xla.flags=[v6e-dense]"});
  const CommandResult result = run("compile", "v6e:2x2", words);
  ASSERT_EQ(result.status, 0) << result.err;
  const Json xla = Json::parse(result.out)["xla"];
  EXPECT_EQ(xla["device_kind"], "TPU v6 lite");
  EXPECT_EQ(xla["devices"], 4);
  EXPECT_EQ(xla["memory_limit_bytes"], 33'546'039'296);
  EXPECT_EQ(xla["needed_bytes"], 6'588'538'944);
  EXPECT_EQ(xla["fits"], true);
  EXPECT_NEAR(xla["roofline_seconds"].get<double>(), 1.5e11 / 1640e9, 1e-6);
  // Flags reached the child's environment and did not stay in ours.
  const std::string platform = xla["platform"];
  EXPECT_NE(platform.find("--xla_tpu_scoped_vmem_limit_kib=98304"), std::string::npos) << platform;
  EXPECT_STREQ(std::getenv("LIBTPU_INIT_ARGS"), "");
  EXPECT_EQ(xla["flags"][0]["origin"], "profile v6e-dense");
  // Planned in whole tiles.
  EXPECT_GT(xla["planned_argument_bytes"].get<int64_t>(), 500'000);
  EXPECT_EQ(xla["planned_argument_bytes"].get<int64_t>() % 512, 0);
  ASSERT_EQ(xla["instructions"].size(), 1u);
  EXPECT_EQ(xla["instructions"][0]["axes"], "model");
  EXPECT_EQ(xla["instructions"][0]["bytes_per_call"], 16);
}

TEST_F(AheadOfTimeTest, ExplainSetsTheTwoBesideEachOther) {
  const CommandResult result = run("explain", "v6e:2x2", four_chips_);
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* expected : {"v6e:2x2  4 chips", "19.6% of a chip's 31.24 GiB: it fits", "ours only"})
    EXPECT_NE(result.out.find(expected), std::string::npos) << expected << "\n" << result.out;
}

// Lone chips and rings are told to the plugin; the stand-in refuses a slice of which it was told wrongly.
TEST_F(AheadOfTimeTest, SlicesOfAllSizes) {
  EXPECT_EQ(run("compile", "v6e:1x1", {}).status, 0);
  EXPECT_EQ(run("compile", "v6e:4x4", {"--set", "layout.data_parallel=16"}).status, 0);
  const std::vector<std::string> pod = {"--set", "layout.data_parallel=256", "--set", "train.batch=256"};
  EXPECT_EQ(run("compile", "v6e:16x16", pod).status, 0);
  const CommandResult odd = run("compile", "v6e:3x3", {"--set", "layout.data_parallel=9", "--set", "train.batch=9"});
  EXPECT_EQ(odd.status, 2);
  EXPECT_NE(odd.err.find("error E1602"), std::string::npos) << odd.err;
}

TEST_F(AheadOfTimeTest, WhatDoesNotFitEndsInItsClassAfterTheReport) {
  const Variable behaviour("STAND_IN_TPU", "full");
  const CommandResult text = run("compile", "v6e:1x1", {});
  EXPECT_EQ(text.status, 3);
  EXPECT_NE(text.out.find("out of memory: compile-time HBM"), std::string::npos) << text.out;
  EXPECT_NE(text.err.find("error E2002"), std::string::npos) << text.err;
  EXPECT_NE(text.err.find("62.12"), std::string::npos) << text.err;
  const Json xla = Json::parse(run("compile", "v6e:1x1", {"--json"}).out)["xla"];
  EXPECT_EQ(xla["fits"], false);
  EXPECT_EQ(xla["failure"]["code"], "E2002");
  EXPECT_EQ(xla["devices"], 1);
}

/// What v6e's own rules were measured with, as it calls itself.
std::string measured_build() { return hw::find_chip("v6e", {}).xla.compiler; }

// The report stands either way; plans go by rules that may be another compiler's.
TEST_F(AheadOfTimeTest, ACompilerThatTheRulesAreNotOfIsNamed) {
  const std::string said = "rules      of v6e are of another compiler (" + measured_build() + ")";
  {
    const Variable build("STAND_IN_TPU_BUILD", measured_build());
    const CommandResult same = run("compile", "v6e:1x1", {});
    EXPECT_EQ(same.status, 0) << same.err;
    EXPECT_NE(same.out.find(measured_build()), std::string::npos) << same.out;
    EXPECT_EQ(same.out.find(said), std::string::npos) << same.out;
    EXPECT_EQ(Json::parse(run("compile", "v6e:1x1", {"--json"}).out)["xla"]["other_compiler"], "");
  }
  const Variable build("STAND_IN_TPU_BUILD", "Built on Jan 1 2027");
  const CommandResult other = run("compile", "v6e:1x1", {});
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_NE(other.out.find(said), std::string::npos) << other.out;
  EXPECT_NE(other.out.find("it fits"), std::string::npos) << other.out;
  EXPECT_NE(Json::parse(run("compile", "v6e:1x1", {"--json"}).out)["xla"]["other_compiler"], "");
  const Variable behaviour("STAND_IN_TPU", "full");
  EXPECT_NE(run("compile", "v6e:1x1", {}).out.find(said), std::string::npos) << "said beside a refusal too";
}

// Temporaries are 4430803008 bytes by the compiler's word, which has those of loops twice: less are placed.
TEST_F(AheadOfTimeTest, TemporariesAreCountedAsTheyArePlaced) {
  const auto memory_of = [this] { return Json::parse(run("compile", "v6e:1x1", {"--json"}).out)["xla"]["memory"]; };
  EXPECT_EQ(memory_of()["temp"], 4'430'803'008) << "a compiler that does not say what it places";
  const Variable behaviour("STAND_IN_TPU", "placed-bytes");
  EXPECT_EQ(memory_of()["temp"], 5'732'190'592 - 1'661'772'288);
}

TEST_F(AheadOfTimeTest, WhatTheCompilerSaysCorrectsOtherPlansOfItsLane) {
  const testing_support::TemporaryFolder folder;
  const Variable catalog("MEGACPP_CATALOG", (folder / "catalog.sqlite").string());
  const auto samples = [&] {
    return catalog::Catalog::open(folder / "catalog.sqlite").samples("xla v6e placement=megacpp", catalog::kPeakBytes);
  };
  EXPECT_NE(run("compile", "v6e:2x2", four_chips_).err.find("catalog    told"), std::string::npos);
  ASSERT_EQ(samples().size(), 1u);
  EXPECT_EQ(samples()[0].measured, 5'722'190'592);
  EXPECT_EQ(run("compile", "v6e:1x1", {"--no-catalog"}).err.find("catalog"), std::string::npos);
  const Variable behaviour("STAND_IN_TPU", "abort");
  EXPECT_EQ(run("compile", "v6e:1x1", {}).err.find("catalog"), std::string::npos) << "it judged nothing";
  EXPECT_EQ(samples().size(), 1u);
}

/// Accounts of memory of the stand-in that no program can have, and what is said of them.
struct OddAccount {
  const char* behaviour;
  const char* said;
};
constexpr OddAccount kOddAccounts[] = {{"no-bytes", "no bytes beside the code"},
                                       {"negative-bytes", "temp of -4430803008 bytes"},
                                       {"peak-above-all", "a peak of 61000000000 bytes where 6588538944 are needed"},
                                       {"bytes-of-no-chip", "temp of 9223372036854775807 bytes"}};

TEST_F(AheadOfTimeTest, BytesThatCannotBeAreNamedAndNotTaken) {
  const testing_support::TemporaryFolder folder;
  const Variable catalog("MEGACPP_CATALOG", (folder / "catalog.sqlite").string());
  for (const OddAccount& odd : kOddAccounts) {
    const Variable behaviour("STAND_IN_TPU", odd.behaviour);
    const CommandResult text = run("compile", "v6e:2x2", four_chips_);
    EXPECT_EQ(text.status, 0) << odd.behaviour << text.err;
    EXPECT_NE(text.out.find(std::string("memory of a chip: not known: the plugin says ") + odd.said), std::string::npos)
        << text.out;
    EXPECT_EQ(text.out.find("it fits"), std::string::npos) << text.out;
    EXPECT_NE(text.out.find("Collectives of a step"), std::string::npos) << "the rest stands\n" << text.out;
    EXPECT_EQ(text.err.find("catalog    told"), std::string::npos) << text.err;
    std::vector<std::string> words = four_chips_;
    words.emplace_back("--json");
    const Json xla = Json::parse(run("compile", "v6e:2x2", words).out)["xla"];
    EXPECT_NE(xla["odd_memory"].get<std::string>().find(odd.said), std::string::npos) << xla["odd_memory"];
    for (const char* unknown : {"memory", "needed_bytes", "fits"}) EXPECT_TRUE(xla[unknown].is_null()) << unknown;
    EXPECT_TRUE(xla["failure"].is_null());
  }
  const std::string lane = "xla v6e placement=megacpp";
  EXPECT_TRUE(catalog::Catalog::open(folder / "catalog.sqlite").samples(lane, catalog::kPeakBytes).empty());
}

TEST_F(AheadOfTimeTest, CountsThatCannotBeAreNotSaid) {
  const Variable behaviour("STAND_IN_TPU", "other-counts");
  const Json xla = Json::parse(run("compile", "v6e:1x1", {"--json"}).out)["xla"];
  for (const char* unknown : {"flops", "roofline_seconds", "memory_limit_bytes", "memory_share", "fits"})
    EXPECT_TRUE(xla[unknown].is_null()) << unknown << xla[unknown];
  EXPECT_EQ(xla["needed_bytes"], 6'588'538'944);
  EXPECT_NE(run("compile", "v6e:1x1", {}).out.find("not said"), std::string::npos);
}

// Loops are in the program alone: without it FLOPs are at least what the compiler counts, and no collective is XLA's.
TEST_F(AheadOfTimeTest, AProgramThatNobodyReadsLeavesTheRestOfTheReport) {
  for (const char* changed : {"other-program", "damaged-program"}) {
    const Variable behaviour("STAND_IN_TPU", changed);
    const CommandResult text = run("compile", "v6e:2x2", four_chips_);
    EXPECT_EQ(text.status, 0) << changed << text.err;
    for (const char* said : {"XLA's collectives: not read: the compiled program", ">=1.2920e+13",
                             "of a program that was not read count once", "it fits"})
      EXPECT_NE(text.out.find(said), std::string::npos) << said << "\n" << text.out;
    std::vector<std::string> words = four_chips_;
    words.emplace_back("--json");
    const Json xla = Json::parse(run("compile", "v6e:2x2", words).out)["xla"];
    EXPECT_NE(xla["unread"], "");
    EXPECT_TRUE(xla["collectives"].empty()) << xla["collectives"];
    EXPECT_EQ(xla["loop_factor_at_least"], true);
    EXPECT_EQ(xla["needed_bytes"], 6'588'538'944);
  }
}

// The stand-in says that thousands of times as many bytes are alive as planned: a plan of another layout takes its
// word, that of the layout itself is judged by others alone. Code was not measured and stays what it was.
TEST_F(AheadOfTimeTest, WhatTheCompilerSaysMovesThePlanOfAnotherLayout) {
  const testing_support::TemporaryFolder folder;
  const Variable catalog("MEGACPP_CATALOG", (folder / "catalog.sqlite").string());
  const auto plan = [](std::vector<std::string> layout) {
    layout.insert(layout.end(), {"--hardware", "v6e:2x2", "--set", "backend=xla", "--json"});
    return Json::parse(run_command(testing_support::on_recipe("plan", "nam52-tiny.yaml", kTiny, layout)).out);
  };
  const std::vector<std::string> another = {"--set", "layout.data_parallel=4"};
  const Json before = plan(another)["groups"][0];
  EXPECT_EQ(before["corrected_bytes"], before["planned_bytes"]);
  ASSERT_EQ(run("compile", "v6e:2x2", four_chips_).status, 0);
  const catalog::Sample told =
      catalog::Catalog::open(folder / "catalog.sqlite").samples("xla v6e placement=megacpp", catalog::kPeakBytes).at(0);
  const double factor = told.measured / catalog::total(told.parts);
  ASSERT_GT(factor, 1000);

  const Json moved = plan(another);
  EXPECT_EQ(moved["correction"]["samples"], 1);
  EXPECT_EQ(moved["verdict"], "fits") << moved["groups"];
  const Json& after = moved["groups"][0];
  EXPECT_EQ(after["planned_bytes"], before["planned_bytes"]);
  EXPECT_NEAR(after["corrected_bytes"].get<double>(), factor * before["planned_bytes"].get<double>(), 1e-3 * factor);
  EXPECT_EQ(after["code_bytes"], before["code_bytes"]);
  for (const Json& group : {before, after})
    EXPECT_NEAR(group["needed_bytes"].get<double>(),
                group["corrected_bytes"].get<double>() + group["code_bytes"].get<double>(), 1);
  EXPECT_EQ(plan(four_chips_)["correction"]["samples"], 0) << "nobody else of the lane was measured";
}

/// A search whose best layouts the compiler of the slice is asked about, with a catalog of its own.
class ConfirmTest : public AheadOfTimeTest {
 protected:
  CommandResult fit(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--hardware", "v6e:2x2", "--tries", "4"};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(testing_support::on_recipe("fit", "nam52-tiny.yaml", kTiny, words));
  }

  testing_support::TemporaryFolder folder_;
  Variable catalog_{"MEGACPP_CATALOG", (folder_ / "catalog.sqlite").string()};
};

TEST_F(ConfirmTest, TheCompilerIsAskedAboutTheBestAndTheCatalogIsTold) {
  const CommandResult result = fit({"--confirm", "2", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json confirmed = Json::parse(result.out)["confirmed"];
  ASSERT_EQ(confirmed.size(), 2u) << result.out;
  for (const Json& one : confirmed) {
    EXPECT_EQ(one["by"], "compiler");
    EXPECT_EQ(one["reserved_bytes"], 6'588'538'944);
    EXPECT_GT(one["planned_bytes"], 0);
    EXPECT_EQ(one["error"], "");
    EXPECT_EQ(one["out_of_memory"], "");
  }
  const std::string lane = "xla v6e placement=megacpp";
  EXPECT_EQ(catalog::Catalog::open(folder_ / "catalog.sqlite").samples(lane, catalog::kPeakBytes).size(), 2u);
  const CommandResult text = fit({"--confirm", "1", "--no-catalog"});
  EXPECT_NE(text.out.find("compiled for v6e:2x2"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("fits"), std::string::npos) << text.out;
}

// What the compiler refuses comes last, here and in searches that ask nobody; without a catalog here alone.
TEST_F(ConfirmTest, WhatTheCompilerRefusesComesLast) {
  const auto candidates_of = [](const CommandResult& result) { return Json::parse(result.out)["candidates"]; };
  const Json before = candidates_of(fit({"--json"}));
  Json refused, without;
  {
    const Variable behaviour("STAND_IN_TPU", "full");
    refused = Json::parse(fit({"--confirm", "1", "--json"}).out);
    without = Json::parse(fit({"--confirm", "1", "--json", "--no-catalog"}).out);
  }
  for (const Json& answer : {refused, without}) {
    EXPECT_EQ(answer["confirmed"][0]["set"], before[0]["set"]);
    EXPECT_NE(answer["confirmed"][0]["out_of_memory"], "");
    EXPECT_TRUE(answer["confirmed"][0]["reserved_bytes"].is_null());
    EXPECT_NE(answer["candidates"][0]["set"], before[0]["set"]);
    EXPECT_EQ(answer["candidates"].back()["set"], before[0]["set"]);
  }
  EXPECT_EQ(candidates_of(fit({"--json"})).back()["set"], before[0]["set"]) << "the catalog keeps its word";
}

TEST_F(ConfirmTest, ACompilerThatTheRulesAreNotOfIsNamed) {
  {
    const Variable build("STAND_IN_TPU_BUILD", measured_build());
    EXPECT_EQ(Json::parse(fit({"--confirm", "1", "--json"}).out)["other_compiler"], "");
  }
  const Variable build("STAND_IN_TPU_BUILD", "Built on Jan 1 2027");
  const CommandResult text = fit({"--confirm", "1"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("rules of v6e are of another compiler (" + measured_build() + ")"), std::string::npos)
      << text.out;
  const Json answer = Json::parse(fit({"--confirm", "1", "--json"}).out);
  EXPECT_NE(answer["other_compiler"], "");
  EXPECT_EQ(answer["confirmed"][0]["reserved_bytes"], 6'588'538'944) << "what it says is taken all the same";
}

TEST_F(ConfirmTest, ALimitOfTheRecipeHoldsForWhatIsCompiledToo) {
  const Json answer = Json::parse(fit({"--confirm", "1", "--json", "--set", "hardware.limit=2GiB"}).out);
  ASSERT_EQ(answer["confirmed"].size(), 1u);
  EXPECT_NE(answer["confirmed"][0]["out_of_memory"].get<std::string>().find("the compiled program"), std::string::npos)
      << answer["confirmed"];
}

// A compiler that aborts, hangs or fails has judged nothing: its row says so, and the table stays as it was.
TEST_F(ConfirmTest, ACompilerThatFailsIsARowLikeAnyOther) {
  for (const char* behaviour : {"abort", "hang", "odd"}) {
    const Variable variable("STAND_IN_TPU", behaviour);
    const CommandResult result = fit({"--confirm", "1", "--time-limit", "1"});
    EXPECT_EQ(result.status, 0) << behaviour << result.err;
    EXPECT_NE(result.out.find("failed: E320"), std::string::npos) << behaviour << result.out;
    EXPECT_NE(result.out.find("to run one:"), std::string::npos) << behaviour << result.out;
  }
  const std::string lane = "xla v6e placement=megacpp";
  EXPECT_TRUE(catalog::Catalog::open(folder_ / "catalog.sqlite").samples(lane, catalog::kPeakBytes).empty());
}

TEST_F(ConfirmTest, BytesThatCannotBeLeaveTheLayoutAsItWasPlanned) {
  const Json before = Json::parse(fit({"--json"}).out)["candidates"];
  for (const OddAccount& odd : kOddAccounts) {
    const Variable behaviour("STAND_IN_TPU", odd.behaviour);
    const CommandResult text = fit({"--confirm", "1"});
    EXPECT_EQ(text.status, 0) << odd.behaviour << text.err;
    EXPECT_NE(text.out.find(std::string("failed: E3201: memory of the compiled program: ") + odd.said),
              std::string::npos)
        << text.out;
    const Json answer = Json::parse(fit({"--confirm", "1", "--json"}).out);
    EXPECT_TRUE(answer["confirmed"][0]["reserved_bytes"].is_null());
    ASSERT_EQ(answer["candidates"].size(), before.size());
    for (size_t i = 0; i < before.size(); ++i)
      for (const char* key : {"set", "needed_bytes", "verdict", "measured"})
        EXPECT_EQ(answer["candidates"][i][key], before[i][key]) << odd.behaviour << i << key;
  }
  const std::string lane = "xla v6e placement=megacpp";
  EXPECT_TRUE(catalog::Catalog::open(folder_ / "catalog.sqlite").samples(lane, catalog::kPeakBytes).empty());
}

TEST_F(ConfirmTest, AProgramThatNobodyReadsIsNoMatterOfItsBytes) {
  const Variable behaviour("STAND_IN_TPU", "other-program");
  const Json answer = Json::parse(fit({"--confirm", "1", "--json"}).out);
  EXPECT_EQ(answer["confirmed"][0]["error"], "");
  EXPECT_EQ(answer["confirmed"][0]["reserved_bytes"], 6'588'538'944);
}

TEST_F(AheadOfTimeTest, APluginThatAbortsHangsOrFailsIsReported) {
  struct Row {
    const char* behaviour;
    const char* code;
    const char* said;
  };
  for (const Row& row : {Row{"abort", "E3202", "Check failed: shape.IsArray()"},
                         Row{"hang", "E3202", "no answer within"}, Row{"odd", "E3201", "Mosaic failed to compile"}}) {
    const Variable behaviour("STAND_IN_TPU", row.behaviour);
    const CommandResult result = run("compile", "v6e:1x1", {"--time-limit", "1"});
    EXPECT_EQ(result.status, 1) << row.behaviour;
    EXPECT_NE(result.err.find(std::string("error ") + row.code), std::string::npos) << result.err;
    EXPECT_NE(result.err.find(row.said), std::string::npos) << result.err;
    EXPECT_NE(result.out.find(std::string("failed: ") + row.code), std::string::npos) << result.out;
    EXPECT_NE(result.out.find("planned arguments"), std::string::npos) << result.out;
  }
}

}  // namespace
}  // namespace megacpp
