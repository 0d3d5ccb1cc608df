// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/core/base/file.h"
#include "megacpp/hardware/catalog/database.h"
#include "megacpp/machine/plugins/plugin_places.h"
#include "tests/support/command_line.h"
#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/support/well_formed.h"

namespace megacpp::cli {
namespace {

using testing_support::CommandResult;
using testing_support::count_of;

/// The smallest shipped model, shallow, with a catalog of its own that does not exist.
class FitCommandTest : public testing::Test {
 protected:
  CommandResult fit(const std::vector<std::string>& more) {
    return testing_support::run_command(testing_support::on_recipe(
        "fit", "nam52-tiny.yaml", {"model.depth=2", "train.sequence=32", "train.batch=4"}, more));
  }

  testing_support::TemporaryFolder folder_;
  testing_support::Variable catalog_{"MEGACPP_CATALOG", (folder_ / "catalog.sqlite").string()};
};

TEST_F(FitCommandTest, TablePictureAndWordsToCopy) {
  const CommandResult result = fit({"--hardware", "host:2"});
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* said : {"5 products of degrees", "worst chip", "a step", "--set layout.data_parallel=2", "front"})
    EXPECT_NE(result.out.find(said), std::string::npos) << said << "\n" << result.out;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "catalog.sqlite"));
}

// What is printed can be set: the words of the best give the plan that was promised.
TEST_F(FitCommandTest, JsonNamesSettingsThatTrainTakes) {
  const Json answer = Json::parse(fit({"--hardware", "host", "--chips", "2", "--json"}).out);
  EXPECT_TRUE(answer["fits"]);
  EXPECT_EQ(answer["hardware"], "host:2");
  const Json& best = answer["candidates"][0];
  std::vector<std::string> words = {"--set", "train.steps=1", "--json"};
  for (const Json& setting : best["set"]) words.insert(words.end(), {"--set", setting.get<std::string>()});
  const CommandResult trained = testing_support::run_command(testing_support::on_recipe(
      "train", "nam52-tiny.yaml", {"model.depth=2", "train.sequence=32", "train.batch=4"}, words));
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_EQ(Json::parse(trained.out)["planned_peak_bytes"], best["needed_bytes"]);
}

// Chips that share a machine can need more than it has: what they leave each other is nothing, not less.
TEST_F(FitCommandTest, AModelLargerThanThisMachineIsRefused) {
  const CommandResult result =
      fit({"--hardware", "host:2", "--set", "model.vocab=16777216", "--set", "model.hidden=65536"});
  EXPECT_EQ(result.status, 3) << result.err;
  EXPECT_EQ(count_of(result.err, "error E2001"), 1U) << result.err;
  EXPECT_EQ(count_of(result.err, "of this machine for all its chips"), 1U) << result.err;
  EXPECT_EQ(count_of(result.err, "the -"), 0U) << result.err;
}

TEST_F(FitCommandTest, ConfirmRunsTheBestHereAndSaysSoElsewhere) {
  const Json here = Json::parse(fit({"--hardware", "host:2", "--confirm", "2", "--json"}).out);
  ASSERT_EQ(here["confirmed"].size(), 2U);
  for (const Json& one : here["confirmed"]) {
    EXPECT_EQ(one["planned_peak_bytes"], one["measured_peak_bytes"]);
    EXPECT_GT(one["measured_step_seconds"], 0);
    EXPECT_EQ(one["by"], "run");
  }
  // What was measured decides the order.
  EXPECT_TRUE(std::ranges::any_of(here["candidates"], [](const Json& one) {
    return one["ranked_by"]["measured"] == true;
  })) << here["candidates"];
  const CommandResult elsewhere = fit({"--hardware", "v6e:2x1", "--confirm", "1"});
  ASSERT_EQ(elsewhere.status, 2);  // no such slice
  const CommandResult gpu = fit({"--hardware", "h100:2", "--tries", "2", "--confirm", "1", "--backend", "xla"});
  ASSERT_EQ(gpu.status, 0) << gpu.err;
  EXPECT_NE(gpu.out.find("--backend xla --set xla.plugin=cuda"), std::string::npos) << gpu.out;
}

// Without the compiler of a slice there is nobody to ask: the search is shown all the same.
TEST_F(FitCommandTest, ACompilerThatIsNotHereIsNamedWithWhatToDo) {
  const testing_support::Variable cache("XDG_CACHE_HOME", "/no/such/cache"), home("HOME", "/no/such/home"),
      path("PATH", "/no/such"), named("MEGACPP_PJRT_TPU", ""), library("TPU_LIBRARY_PATH", "");
  namespace plugins = runtime::plugins;
  for (const auto& place : plugins::plugin_places(plugins::PluginKind::tpu, {}, plugins::Surroundings::current()))
    if (place.exists) GTEST_SKIP() << "this machine has one: " << place.file;
  const CommandResult tpu = fit({"--hardware", "v6e:2x2", "--tries", "2", "--confirm", "1"});
  ASSERT_EQ(tpu.status, 0) << tpu.err;
  EXPECT_NE(tpu.out.find("--backend xla --target v6e:2x2"), std::string::npos) << tpu.out;
  EXPECT_NE(tpu.out.find("megacpp plugins fetch tpu"), std::string::npos) << tpu.out;
}

// A run that took ten seconds is known to be slow: what was never tried stands before it, and the table says why. The
// machine's rates may be measured anew between two commands, so the one that runs is asked what was the best.
TEST_F(FitCommandTest, WhatRanSlowlyIsNotTheBest) {
  const auto answer_to = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--hardware", "host:2", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return Json::parse(fit(words).out);
  };
  EXPECT_EQ(answer_to({})["candidates"][0].count("ranked_by"), 0U);
  const Json ran = answer_to({"--confirm", "1"})["confirmed"][0];
  catalog::Database(folder_ / "catalog.sqlite", {})
      .execute("UPDATE outcome SET measured_seconds = 10; DELETE FROM sample");
  const Json after = answer_to({})["candidates"][0];
  EXPECT_NE(after["set"], ran["set"]);
  EXPECT_EQ(after["ranked_by"]["measured"], false);
  const std::string table = fit({"--hardware", "host:2", "--top", "1000"}).out;
  EXPECT_NE(table.find("10.00 s measured"), std::string::npos) << table;
}

TEST_F(FitCommandTest, TimesSayWhatTheyStandFor) {
  const auto basis_on = [&](const char* hardware) {
    return Json::parse(fit({"--hardware", hardware, "--tries", "1", "--json"}).out)["step_basis"].get<std::string>();
  };
  EXPECT_TRUE(basis_on("host:1").starts_with("predicted by rates measured on this machine"));
  EXPECT_TRUE(basis_on("h200:1").starts_with("predicted by the rates that the file of h200 gives"));
  EXPECT_TRUE(basis_on("h100:1").starts_with("predicted by the rates that the file of h100 gives"));
  EXPECT_TRUE(basis_on("a100:1").starts_with("the roofline"));
  const CommandResult text = fit({"--hardware", "h200:1", "--tries", "1"});
  EXPECT_NE(text.out.find("a step and MFU: predicted by the rates that the file of h200"), std::string::npos)
      << text.out;
}

// XLA, which runs there unless a recipe names backend cuda, has one program for all chips.
TEST_F(FitCommandTest, OnTpusAndGpusNoPipelinesAreOffered) {
  for (const char* hardware : {"v6e:2x2", "h100:4"}) {
    const Json answer = Json::parse(fit({"--hardware", hardware, "--tries", "12", "--json"}).out);
    ASSERT_FALSE(answer["candidates"].empty());
    for (const Json& one : answer["candidates"])
      for (const Json& setting : one["set"])
        EXPECT_FALSE(setting.get<std::string>().starts_with("layout.pipeline_parallel")) << setting;
    bool is_said = false;
    for (const Json& one : answer["dropped"])
      is_said = is_said || one["reason"].get<std::string>().find("no pipeline stages") != std::string::npos;
    EXPECT_TRUE(is_said) << answer["dropped"];
  }
}

TEST_F(FitCommandTest, WhatACompilersGapsMayOverflowIsMarkedClose) {
  const Json roomy = Json::parse(fit({"--hardware", "v6e:2x2", "--json"}).out)["candidates"][0];
  EXPECT_EQ(roomy["verdict"], "fits");
  const std::string limit = std::to_string(roomy["needed_bytes"].get<int64_t>() + 1);
  const std::vector<std::string> tight = {"--hardware", "v6e:2x2", "--top", "1000", "--set", "hardware.limit=" + limit};
  std::vector<std::string> as_json = tight, as_page = tight;
  as_json.emplace_back("--json");
  const Json answer = Json::parse(fit(as_json).out);
  const auto is_close = [](const Json& one) { return one["verdict"] == "close"; };
  EXPECT_TRUE(std::ranges::any_of(answer["candidates"], is_close)) << answer;
  for (const Json& one : answer["candidates"]) EXPECT_EQ(one["fits"].get<bool>(), one["verdict"] == "fits") << one;
  EXPECT_EQ(answer["verdict"], answer["candidates"][0]["verdict"]);
  EXPECT_EQ(answer["fits"].get<bool>(), answer["verdict"] == "fits");
  const std::string text = fit(tight).out;
  EXPECT_NE(text.find(" close "), std::string::npos) << text;
  EXPECT_NE(text.find("close: the limit is within what a compiler may reserve"), std::string::npos) << text;
  const std::filesystem::path file = folder_ / "close.html";
  as_page.insert(as_page.end(), {"--html", file.string()});
  fit(as_page);
  EXPECT_NE(base::read_file(file).find("close: the limit is within what a compiler may reserve"), std::string::npos);
}

// Two nodes of 8 GPUs. The recipe's own layout is compiled whatever the tries, and its row says what plan says of it;
// FSDP, which crosses too, is no matter of a fast domain.
TEST_F(FitCommandTest, RowsWhoseExpertsLeaveTheirNodeSayWhatThatCostsAndWhatStaysInside) {
  const std::vector<std::string> words = {"--hardware", "h100:16",
                                          "--tries",    "4",
                                          "--top",      "4",
                                          "--set",      "model.feed_forward.experts=16",
                                          "--set",      "model.feed_forward.top_k=2",
                                          "--set",      "layout.expert_parallel=16",
                                          "--set",      "train.batch=16"};
  std::vector<std::string> as_json = words;
  as_json.push_back("--json");
  const Json candidates = Json::parse(fit(as_json).out)["candidates"];
  const std::string text = fit(words).out;
  size_t crossing = 0, inside = 0;
  for (const Json& one : candidates) {
    const bool spans_both = one["layout"].get<std::string>().find("expert 16") != std::string::npos;
    ASSERT_EQ(one["crossings"].size(), spans_both ? 1u : 0u) << one;
    (spans_both ? crossing : inside) += 1;
    if (!spans_both) continue;
    const Json& said = one["crossings"][0];
    EXPECT_GT(said["seconds"], said["inside_seconds"]);
    EXPECT_EQ(said["nearest"], (Json{"layout.expert_parallel=8", "layout.data_parallel=2"}));
    EXPECT_NE(text.find("      " + said["warning"].get<std::string>() + "\n"), std::string::npos) << text;
  }
  EXPECT_GT(crossing, 0u);
  EXPECT_GT(inside, 0u) << "else every row would say it";
  EXPECT_EQ(count_of(text, "leaves the fast domain"), crossing);
}

TEST_F(FitCommandTest, PageStandsAlone) {
  const std::filesystem::path file = folder_ / "fit.html";
  ASSERT_EQ(fit({"--hardware", "host:2", "--set", "hardware.limit=8MiB", "--html", file.string()}).status, 0);
  const std::string page = base::read_file(file);
  EXPECT_EQ(testing_support::unbalanced_tag(page), "");
  EXPECT_EQ(testing_support::outside_load(page), "");
  for (const char* part :
       {"<svg", "<polyline", "class=\"mark\"", ">limit 8.00 MiB<", "front", "beside it", ": worst chip ", "<td>* ",
        "--set layout.data_parallel=2", "* nothing that was compiled is better"})
    EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
}

TEST_F(FitCommandTest, GrowsBatchAndSequence) {
  const Json batch =
      Json::parse(fit({"--hardware", "host:1", "--grow", "batch", "--json", "--set", "hardware.limit=8MiB"}).out);
  EXPECT_TRUE(batch["fits"]);
  EXPECT_FALSE(batch["changed_experiment"]);
  EXPECT_LE(batch["best"]["needed_bytes"], 8 << 20);
  const CommandResult sequence = fit({"--hardware", "host:2", "--grow", "sequence", "--set", "hardware.limit=8MiB"});
  ASSERT_EQ(sequence.status, 0) << sequence.err;
  EXPECT_NE(sequence.out.find("another experiment"), std::string::npos) << sequence.out;
}

TEST_F(FitCommandTest, WhatNothingMeetsEndsWithTheFrontierAndTheRoles) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, std::vector<std::string>{"--grow", "batch"}}) {
    std::vector<std::string> words = {"--hardware", "host:2", "--set", "hardware.limit=4KiB"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = fit(words);
    EXPECT_EQ(result.status, 2) << "a limit below what stays on a chip is a mistake";
    EXPECT_NE(result.err.find("error E1605"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("a limit of at least"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("optimizer"), std::string::npos) << result.err;
    EXPECT_NE(result.out.find("worst chip"), std::string::npos) << result.out;
  }
  const std::vector<std::string> grow = {"--hardware", "host:1", "--grow", "batch", "--json", "--set"};
  const auto grown_in = [&](const std::string& limit) {
    std::vector<std::string> words = grow;
    words.push_back("hardware.limit=" + limit);
    return fit(words);
  };
  const int64_t least = Json::parse(grown_in("4KiB").out)["tried"][0]["needed_bytes"];
  const CommandResult tight = grown_in(std::to_string(least - 1));
  EXPECT_EQ(tight.status, 3) << "state fits, one sequence beside it does not";
  EXPECT_NE(tight.err.find("error E2001"), std::string::npos) << tight.err;
  EXPECT_EQ(grown_in(std::to_string(least)).status, 0);
}

TEST_F(FitCommandTest, AConfirmationThatRunsOutOfMemoryIsARowLikeAnyOther) {
  const std::vector<std::string> words = {
      "--hardware", "host:2", "--tries", "4", "--confirm", "2", "--set", "hardware.fail_allocation=[chip 0 step 1]"};
  const CommandResult text = fit(words);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("out of memory: runtime allocation, chip 0"), std::string::npos) << text.out;
  std::vector<std::string> as_json = words;
  as_json.push_back("--json");
  const Json json = Json::parse(fit(as_json).out);
  ASSERT_EQ(json["confirmed"].size(), 2U) << "the second is run, too";
  EXPECT_TRUE(json["confirmed"][0]["measured_step_seconds"].is_null());
  EXPECT_GT(json["confirmed"][0]["planned_peak_bytes"], 0);
  const Json list = Json::parse(testing_support::run_command({"catalog", "list", "--json"}).out);
  EXPECT_EQ(list["entries"][0]["outcome"], "fails");
}

TEST_F(FitCommandTest, AnyErrorOfAConfirmationIsARowAndTheTableStays) {
  const std::vector<std::string> words = {"--hardware", "host:2", "--tries", "4",
                                          "--confirm",  "1",      "--set",   "data.text=" + (folder_ / "no").string()};
  const CommandResult text = fit(words);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("failed: E1101: "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("--set layout.data_parallel=2"), std::string::npos) << text.out;
  std::vector<std::string> as_json = words;
  as_json.push_back("--json");
  const Json json = Json::parse(fit(as_json).out);
  EXPECT_TRUE(json["confirmed"][0]["error"].get<std::string>().starts_with("E1101")) << json["confirmed"];
  EXPECT_TRUE(json["confirmed"][0]["measured_step_seconds"].is_null());
}

TEST_F(FitCommandTest, ABackendThatCannotRunHereIsRefusedBeforeTheSearch) {
  const std::vector<std::string> words = {"--hardware", "host:2",      "--tries", "4",
                                          "--set",      "backend=xla", "--set",   "xla.plugin=/no/such/plugin.so"};
  EXPECT_EQ(fit(words).status, 0) << "a search needs no plugin";
  std::vector<std::string> confirmed = words;
  confirmed.insert(confirmed.end(), {"--confirm", "1"});
  const CommandResult refused = fit(confirmed);
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("error E1505"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("cannot run here"), std::string::npos) << refused.err;
  EXPECT_TRUE(refused.out.empty()) << refused.out;
}

TEST_F(FitCommandTest, MistakesGetACodeAndTheNextStep) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"--hardware", "v6f:2x2"}, "E1601"},
      {{"--hardware", "v6e:3x5"}, "E1602"},
      {{"--hardware", "host:2", "--chips", "2"}, "E1007"},
      {{"--hardware", "host", "--chips", "0"}, "E1007"},
      {{"--grow", "depth"}, "E1007"},
      {{"--grow", "batch", "--layouts"}, "E1007"},
      {{"--grow", "batch", "--confirm", "1"}, "E1007"},
      {{"--hardware", "v6e:2x2", "--confirm", "1", "--time-limit", "0"}, "E1007"},
      {{"--hardware", "host:2", "--top", "0"}, "E1007"},
      {{"--hardware", "host:7"}, "E1401"},
  };
  for (const auto& [words, code] : mistakes) {
    const CommandResult result = fit(words);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_NE(result.err.find("error " + code), std::string::npos) << code << "\n" << result.err;
    EXPECT_NE(result.err.find("next:"), std::string::npos) << result.err;
  }
}

TEST_F(FitCommandTest, ABadCatalogIsSaidAndKept) {
  base::write_file_atomically(folder_ / "catalog.sqlite", "no catalog");
  const CommandResult result = fit({"--hardware", "host:1"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("catalog    not used"), std::string::npos) << result.err;
  EXPECT_EQ(base::read_file(folder_ / "catalog.sqlite"), "no catalog");
}

}  // namespace
}  // namespace megacpp::cli
