// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/plan_report.h"
#include "megacpp/core/base/file.h"
#include "megacpp/hardware/catalog/catalog.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/command_line.h"
#include "tests/support/environment.h"
#include "tests/support/well_formed.h"

namespace megacpp::cli {
namespace {

namespace fs = std::filesystem;
using Result = testing_support::CommandResult;
using testing_support::Variable;

const std::vector<std::string> kSmall = {"train.sequence=32", "train.batch=4", "model.depth=12"};

/// With a catalog and a cache of its own.
class PlanCommandTest : public testing::Test {
 protected:
  PlanCommandTest() { fs::create_directories(folder_); }
  ~PlanCommandTest() override { fs::remove_all(folder_); }

  Result plan(const std::vector<std::string>& more, std::vector<std::string> settings = {}) {
    settings.insert(settings.begin(), kSmall.begin(), kSmall.end());
    return testing_support::run_command(testing_support::on_recipe("plan", "nam56r-tiny.yaml", settings, more));
  }
  Json plan_as_json(std::vector<std::string> more, const std::vector<std::string>& settings = {}) {
    more.push_back("--json");
    const Result result = plan(more, settings);
    EXPECT_EQ(result.status, 0) << result.err;
    return Json::parse(result.out);
  }

  const fs::path folder_ = fs::temp_directory_path() / ("megacpp_plan_" + std::to_string(getpid()));
  const Variable catalog_{"MEGACPP_CATALOG", (folder_ / "catalog.sqlite").string()};
  const Variable config_{"XDG_CONFIG_HOME", (folder_ / "config").string()};
};

// As published, without weights.
TEST_F(PlanCommandTest, AModelIsPlannedFromItsConfigAlone) {
  const fs::path model = folder_ / "Small-MoE";
  fs::create_directories(model);
  base::write_file_atomically(model / "config.json", R"({"architectures": ["Qwen3MoeForCausalLM"], "vocab_size": 512,
      "hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 32, "num_hidden_layers": 3, "head_dim": 16,
      "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts": 8, "num_experts_per_tok": 2,
      "norm_topk_prob": true, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0})");
  const auto plan_of = [](const fs::path& named, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"plan", named.string(), "--hardware", "h100:2", "--set", "train.sequence=64"});
    return testing_support::run_command(more);
  };
  const Result by_folder = plan_of(model), by_config = plan_of(model / "config.json");
  EXPECT_EQ(by_folder.status, 0) << by_folder.err;
  EXPECT_NE(by_folder.out.find("Small-MoE"), std::string::npos) << by_folder.out;
  EXPECT_EQ(by_folder.out, by_config.out);
  EXPECT_NE(plan_of(model, {"--set", "model.hidden=32"}).err.find("E1205"), std::string::npos);
  base::write_file_atomically(model / "config.json", R"({"architectures": ["NobodysForCausalLM"]})");
  EXPECT_NE(plan_of(model).err.find("E1202"), std::string::npos);
}

TEST_F(PlanCommandTest, TheLinkUnderEachAxisIsNamed) {
  const Json json = plan_as_json({"--hardware", "v6e:2x2"});
  ASSERT_EQ(json["axes"].size(), 1u);
  EXPECT_EQ(json["axes"][0]["axis"], "data");
  EXPECT_EQ(json["axes"][0]["link"], "ici");
  EXPECT_EQ(json["axes"][0]["where"], "inside the slice");
  EXPECT_EQ(json["crossings"], Json::array());
  EXPECT_NE(plan({"--hardware", "v6e:2x2"}).out.find("The link under each axis of the mesh"), std::string::npos);
}

// Two nodes of 8 GPUs: experts over all of them exchange over the network in every block.
TEST_F(PlanCommandTest, ExpertsThatLeaveTheirNodeAreWarnedOfWithCostAndTheNearestLayoutInside) {
  const std::vector<std::string> settings = {"train.batch=16", "model.feed_forward.experts=16",
                                             "layout.expert_parallel=16"};
  const Json json = plan_as_json({"--hardware", "h100:16"}, settings);
  ASSERT_EQ(json["axes"].size(), 1u);
  EXPECT_EQ(json["axes"][0]["where"], "across 2 nodes");
  ASSERT_EQ(json["crossings"].size(), 1u);
  const Json& crossing = json["crossings"][0];
  EXPECT_EQ(crossing["key"], "layout.expert_parallel");
  EXPECT_EQ(crossing["link"], "network");
  EXPECT_EQ(crossing["inside_link"], "nvlink");
  EXPECT_GT(crossing["inside_seconds"], 0.0);
  EXPECT_GT(crossing["seconds"], crossing["inside_seconds"]);
  EXPECT_EQ(crossing["nearest"], (Json{"layout.expert_parallel=8", "layout.data_parallel=2"}));
  const std::string warning = "warning: " + crossing["warning"].get<std::string>() + ".\n";
  const std::string text = plan({"--hardware", "h100:16"}, settings).out;
  EXPECT_NE(text.find(warning), std::string::npos) << warning << text;
  for (const char* part : {"expert is across 2 nodes over network; its collectives take", "of a step, over nvlink",
                           "The nearest layout inside: layout.expert_parallel=8 layout.data_parallel=2"})
    EXPECT_NE(warning.find(part), std::string::npos) << warning;
  std::vector<std::string> inside = settings;
  for (const Json& setting : crossing["nearest"]) inside.push_back(setting.get<std::string>());
  EXPECT_EQ(plan_as_json({"--hardware", "h100:16"}, inside)["crossings"], Json::array()) << "it is inside";
}

TEST_F(PlanCommandTest, TheTextStartsWithTheVerdictAndNamesEveryPart) {
  const Result result = plan({"--hardware", "v6e:2x2"});
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* part : {"hardware  v6e:2x2: 4 chips on 1 host",
                           "mesh      data=4  chips 4",
                           "changed   layout.data_parallel: 4",
                           "fits: chip 0: data 0 at (0, 0) on host 0 needs",
                           "of 31.24 GiB",
                           "3. recompute",
                           "Gates: all passed",
                           "E1402",
                           "block*.A.wq",
                           "the first of them",
                           "code",
                           "at its peak in program",
                           "letter",
                           "E block01",
                           "alike)",
                           "Largest allocations",
                           "Arguments of the program",
                           "pads tiles",
                           "data  ici",
                           "Predicted step",
                           "tokens/s",
                           "MFU",
                           "Regime: ",
                           "% of the step)",
                           "bound by arithmetic",
                           "bound by memory",
                           "waiting for links",
                           "All arithmetic of a chip takes",
                           "no catalog yet",
                           "The average over all 4 chips, which decides nothing"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  EXPECT_LT(result.out.find("fits:"), result.out.find("Composition"));
  EXPECT_FALSE(fs::exists(folder_ / "catalog.sqlite")) << "a plan writes nothing";
}

TEST_F(PlanCommandTest, TheHardwareIsTheFlagsElseTheRecipesElseThisMachine) {
  const Variable cache("XDG_CACHE_HOME", (folder_ / "cache").string());
  EXPECT_EQ(plan_as_json({}, {"hardware.target=h100:4"})["hardware"]["name"], "h100:4");
  EXPECT_EQ(plan_as_json({"--hardware", "v6e:2x2"}, {"hardware.target=h100:4"})["hardware"]["name"], "v6e:2x2");
  const Json here = plan_as_json({}, {"layout.tensor_parallel=2"});
  EXPECT_EQ(here["hardware"]["name"], "host:2");
  EXPECT_EQ(here["hardware"]["lane"], "cpu host");
}

TEST_F(PlanCommandTest, ChipsThatTheBatchCannotFeedShareSequences) {
  const Json json = plan_as_json({"--hardware", "v6e:2x4"}, {"train.batch=1", "train.micro_steps=2"});
  EXPECT_EQ(json["changed_to_fill"]["layout.data_parallel"], "2");
  EXPECT_EQ(json["changed_to_fill"]["train.micro_steps"], "1");
  EXPECT_EQ(std::stoi(json["changed_to_fill"]["layout.tensor_parallel"].get<std::string>()) *
                std::stoi(json["changed_to_fill"]["layout.context_parallel"].get<std::string>()),
            4);
}

TEST_F(PlanCommandTest, TheJsonHasEveryParameterAsItIsPlacedOnTheHardware) {
  const Json json = plan_as_json({"--hardware", "v6e:2x2"}, {"layout.tensor_parallel=2", "layout.data_parallel=2"});
  EXPECT_TRUE(json["fits"].get<bool>());
  EXPECT_EQ(json["changed_to_fill"], Json::object());
  const Json& worst = json["groups"][0];
  EXPECT_EQ(worst["coordinates"], (Json{{"data", 0}, {"model", 0}}));
  EXPECT_EQ(worst["slice_coordinates"], (Json{0, 0}));
  EXPECT_EQ(worst["host"], "host 0");
  EXPECT_EQ(worst["needed_bytes"], worst["planned_bytes"].get<int64_t>() + worst["code_bytes"].get<int64_t>());
  int64_t items = worst["padding_bytes"];
  for (const Json& item : worst["memory"]) items += item["bytes"].get<int64_t>();
  EXPECT_EQ(items, worst["planned_bytes"]);

  int64_t elements = 0, weights = 0, state = 0;
  for (const Json& parameter : json["parameters"]) {
    int64_t size = 1;
    for (const Json& side : parameter["shape"]) size *= side.get<int64_t>();
    elements += size;
    weights += parameter["weight"]["bytes"].get<int64_t>();
    for (const Json& tensor : parameter["optimizer_state"]) state += tensor["bytes"].get<int64_t>();
  }
  EXPECT_EQ(elements, json["parameter_count"]);
  EXPECT_EQ(weights, json["arguments"]["weight_bytes"]);
  EXPECT_EQ(state, json["arguments"]["optimizer_bytes"]);
  const Json& wq = json["parameters"][2];
  EXPECT_EQ(wq["optimizer_state"][1]["name"], "adam_v.block00.A.wq");
  EXPECT_EQ(wq["optimizer_state"][1]["dtype"], "f32");
  const Json sgd = plan_as_json({"--hardware", "v6e:2x2"},
                                {"layout.tensor_parallel=2", "layout.data_parallel=2", "optimizer.name=sgd"});
  ASSERT_EQ(sgd["parameters"][2]["optimizer_state"].size(), 1);
  EXPECT_EQ(sgd["parameters"][2]["optimizer_state"][0]["name"], "sgd_velocity.block00.A.wq");
  EXPECT_EQ(2 * sgd["arguments"]["optimizer_bytes"].get<int64_t>(), state) << "one tensor a parameter, not two";
  EXPECT_EQ(wq["name"], "block00.A.wq");
  EXPECT_EQ(wq["weight"]["spec"], "-,model");
  EXPECT_EQ(wq["weight"]["local"][1], wq["shape"][1].get<int64_t>() / 2);
  EXPECT_NE(wq["weight"]["layout"].get<std::string>().find("T(8,128)"), std::string::npos);
  const Json& time = json["time"];
  EXPECT_TRUE(time["regime"] == "communication" || time["regime"] == "memory or context") << time;
  EXPECT_NEAR(time["step_seconds"].get<double>(),
              time["compute_seconds"].get<double>() + time["memory_seconds"].get<double>() +
                  time["exposed_seconds"].get<double>() + time["bubble_seconds"].get<double>(),
              1e-12);
  EXPECT_LE(time["limit_seconds"].get<double>(), time["step_seconds"].get<double>() * (1 + 1e-9));
  EXPECT_EQ(time["least_seconds"], time["limit_seconds"]) << "no step was measured on a v6e";
  EXPECT_TRUE(time["most_seconds"].is_null() && time["corrected_seconds"].is_null()) << time;
  EXPECT_TRUE(time["basis"].get<std::string>().starts_with("predicted by the rates that the file of v6e gives"))
      << time;
  for (const Json& link : json["collectives"])
    EXPECT_LE(link["exposed_seconds"].get<double>(), link["seconds"].get<double>() * (1 + 1e-9)) << link;
}

TEST_F(PlanCommandTest, EveryStageOfAPipelineIsAGroupWorstFirst) {
  const Json groups =
      plan_as_json({"--hardware", "host:4"}, {"layout.pipeline_parallel=2", "hardware.limit=4GiB"})["groups"];
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_LE(groups[0]["free_bytes"], groups[1]["free_bytes"]);
  EXPECT_NE(groups[0]["stage"], groups[1]["stage"]);
  EXPECT_EQ(groups[0]["chips"].get<int64_t>() + groups[1]["chips"].get<int64_t>(), 4);
}

TEST_F(PlanCommandTest, TheSnapshotOfCheckpointsIsPlanned) {
  const auto snapshot = [](const Json& plan) { return plan["host"]["checkpoint_snapshot_bytes"].get<int64_t>(); };
  const Json here = plan_as_json({"--hardware", "host:1"});
  const int64_t adamw = snapshot(here);
  const int64_t sgd = snapshot(plan_as_json({"--hardware", "host:1"}, {"optimizer.name=sgd"}));
  EXPECT_EQ(adamw - sgd, sgd - 4 * here["parameter_count"].get<int64_t>()) << "a moment more of all that is trained";
  EXPECT_GT(adamw, sgd);
  const Json there = plan_as_json({"--hardware", "v6e:2x2"});
  EXPECT_EQ(snapshot(there), adamw) << "each element once, whoever holds it";
  EXPECT_TRUE(there["host"]["free_bytes"].is_null()) << "only launches ask hosts";
  const std::string counted = "in host memory, which is counted with the chips of this machine.";
  EXPECT_NE(plan({"--hardware", "host:1"}).out.find(counted), std::string::npos);
  const std::string elsewhere = plan({"--hardware", "v6e:2x2"}).out;
  EXPECT_NE(elsewhere.find("Checkpoints are written from a snapshot of "), std::string::npos) << elsewhere;
  EXPECT_EQ(elsewhere.find(counted), std::string::npos) << elsewhere;
}

TEST_F(PlanCommandTest, ThePageIsWholeAndLoadsNothing) {
  const fs::path file = folder_ / "plan.html";
  const Result result = plan({"--hardware", "v6e:2x2", "--html", file.string()});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("page written to"), std::string::npos);
  const std::string page = base::read_file(file);
  EXPECT_EQ(testing_support::unbalanced_tag(page), "");
  EXPECT_EQ(testing_support::outside_load(page), "");
  for (const char* part : {"banner good", "<svg", "limit 31.24 GiB", "Largest allocations", "ici over", "block00.A.wq",
                           "T(8,128)", "prefers-color-scheme"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_EQ(page.find("nan"), std::string::npos);
}

TEST_F(PlanCommandTest, WhatDoesNotFitIsPrintedWholeAndEndsWithItsError) {
  const fs::path file = folder_ / "plan.html";
  const Result result = plan({"--hardware", "v6e:2x2", "--html", file.string()},
                             {"layout.data_parallel=4", "hardware.limit=31GiB", "hardware.limits=[2=1MiB]"});
  EXPECT_EQ(result.status, 2) << "a limit that no batch can meet is a mistake";
  for (const char* part : {"does not fit: chip 2: data 2 at (0, 1) on host 0", "Predicted step", "-"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  for (const char* part : {"error E1605", "chip 2: data 2 at (0, 1) on host 0 of v6e:2x2", "weight", "activation",
                           "1 of 4 chips do not fit", "1048576 bytes", "next:   what stays between steps takes"})
    EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result.err;
  EXPECT_NE(base::read_file(file).find("banner bad"), std::string::npos);
  // A limit above what stays: what comes and goes can shrink, the batch as far as the chips that share it allow.
  const std::vector<std::string> keeping = {"train.batch=64", "train.recompute.A=none", "train.recompute.M=none",
                                            "train.recompute.E=none", "train.recompute.R=none"};
  const Json chip = plan_as_json({"--hardware", "v6e:2x2"}, keeping)["groups"][0];
  const std::string limit = "hardware.limit=" + std::to_string(chip["least_needed_bytes"].get<int64_t>() - 1);
  std::vector<std::string> limited = keeping;
  limited.push_back(limit);
  const Result activations = plan({"--hardware", "v6e:2x2"}, limited);
  EXPECT_EQ(activations.status, 3);
  EXPECT_NE(activations.err.find("reduce train.batch to no less than 4"), std::string::npos) << activations.err;
}

TEST_F(PlanCommandTest, TheCompositionHasTheRecomputeThatWasDecided) {
  const std::vector<std::string> settings = {"train.batch=64", "layout.data_parallel=4"};
  const int64_t needed = plan_as_json({"--hardware", "h100:4"}, settings)["groups"][0]["needed_bytes"].get<int64_t>();
  std::vector<std::string> tight = settings;
  tight.push_back("hardware.limit=" + std::to_string(needed));
  const Json plan = plan_as_json({"--hardware", "h100:4"}, tight);
  std::string decided;
  for (const auto& [key, level] : plan["recompute"].items())
    if (level["level"] != "none")
      decided +=
          (decided.empty() ? "" : ", ") + key.substr(key.rfind('.') + 1) + " " + level["level"].get<std::string>();
  ASSERT_FALSE(decided.empty()) << plan["recompute"];
  EXPECT_EQ(plan["composition"][2]["step"], "recompute");
  EXPECT_EQ(plan["composition"][2]["here"], decided);
}

TEST_F(PlanCommandTest, BlocksThatRepeatArePlannedOnceAndSaidToBe) {
  const std::vector<std::string> deep = {"model.depth=1000", "train.recompute=none"};
  const Json plan = plan_as_json({"--hardware", "v6e:2x2"}, deep);
  EXPECT_GT(plan["planned_once"]["period"].get<int64_t>(), 0);
  EXPECT_EQ(plan["planned_once"]["depths"].size(), 3U);
  EXPECT_EQ(plan["depth"], 1000);
  const Result result = this->plan({"--hardware", "v6e:2x2"}, deep);
  EXPECT_NE(result.out.find("of 1,000 blocks repeat: planned from depths "), std::string::npos) << result.out;
  EXPECT_TRUE(plan_as_json({"--hardware", "v6e:2x2"}, {})["planned_once"].is_null());
}

TEST_F(PlanCommandTest, WhatFitsOnlyWithoutGapsIsSaidToBeClose) {
  const std::string keeping = "train.recompute=none";  // nothing that could make it fit is left to planning
  const Json roomy = plan_as_json({"--hardware", "v6e:2x2"}, {keeping})["groups"][0];
  EXPECT_EQ(roomy["verdict"], "fits");
  EXPECT_GT(roomy["most_needed_bytes"].get<int64_t>(), roomy["needed_bytes"].get<int64_t>());
  const std::string limit = "hardware.limit=" + std::to_string(roomy["needed_bytes"].get<int64_t>());
  const Json tight = plan_as_json({"--hardware", "v6e:2x2"}, {keeping, limit});
  EXPECT_EQ(tight["groups"][0]["verdict"], "close");
  EXPECT_EQ(tight["verdict"], "close");
  EXPECT_EQ(tight["fits"], false) << "close is not fits";
  const fs::path file = folder_ / "close.html";
  const Result result = plan({"--hardware", "v6e:2x2", "--html", file.string()}, {keeping, limit});
  EXPECT_EQ(result.status, 0) << "nor is it an error";
  EXPECT_NE(base::read_file(file).find("banner plain"), std::string::npos);
  const std::string& text = result.out;
  EXPECT_NE(text.find("close: chip 0"), std::string::npos) << text;
  EXPECT_NE(text.find("--target v6e:2x2 decides"), std::string::npos) << text;
}

// What the recipe recomputes does not fit in loops: xla.loops: auto is left to the plan.
TEST_F(PlanCommandTest, BlocksThatFitOnlyUnrolledAreSaidToBe) {
  std::vector<std::string> settings = {"model.pattern=AE",
                                       "model.depth=16",
                                       "model.feed_forward.experts=0",
                                       "model.feed_forward.shared_intermediate=0",
                                       "model.feed_forward.intermediate=16384",
                                       "train.precision=bf16",
                                       "train.batch=4",
                                       "train.micro_steps=1",
                                       "train.sequence=4096",
                                       "layout.zero=3",
                                       "train.recompute=none"};
  const Json looped = plan_as_json({"--hardware", "v6e:2x2"}, settings);
  EXPECT_TRUE(looped["looped_bytes"].is_null());
  const int64_t least = looped["groups"][0]["least_needed_bytes"].get<int64_t>();
  settings.push_back("hardware.limit=" + std::to_string(least - 1));
  const Json unrolled = plan_as_json({"--hardware", "v6e:2x2"}, settings);
  EXPECT_EQ(unrolled["looped_bytes"], looped["groups"][0]["needed_bytes"]);
  EXPECT_NE(unrolled["groups"][0]["verdict"], "does not fit");
  const fs::path file = folder_ / "plan.html";
  const Result shown = plan({"--hardware", "v6e:2x2", "--html", file.string()}, settings);
  EXPECT_NE(shown.out.find("blocks    unrolled (with blocks in loops a chip needs "), std::string::npos) << shown.out;
  EXPECT_NE(base::read_file(file).find("unrolled (with blocks in loops a chip needs "), std::string::npos);
  settings.emplace_back("xla.loops=on");
  EXPECT_EQ(plan({"--hardware", "v6e:2x2"}, settings).status, 3) << "as the recipe says";
}

TEST_F(PlanCommandTest, WhatXlaIsExpectedToReserveIsSaidByTerm) {
  const std::vector<std::string> settings = {"train.precision=bf16"};
  const Json reserved = plan_as_json({"--hardware", "v6e:2x2"}, settings)["reserved"];
  int64_t sum = 0;
  for (const Json& term : reserved["terms"]) {
    sum += term["bytes"].get<int64_t>();
    EXPECT_TRUE(term["sentence"].get<std::string>().ends_with('.')) << term;
  }
  EXPECT_EQ(reserved["bytes"], sum);
  EXPECT_LT(reserved["peak_bytes"], reserved["bytes"]);
  EXPECT_EQ(reserved["terms"][0]["name"], "arguments");
  EXPECT_GT(reserved["peak_bytes"], reserved["terms"][0]["bytes"]);
  const fs::path file = folder_ / "plan.html";
  const Result shown = plan({"--hardware", "v6e:2x2", "--html", file.string()}, settings);
  for (const std::string& text : {shown.out, base::read_file(file)})
    EXPECT_NE(text.find("XLA is expected to reserve"), std::string::npos) << text;
  const Json group = plan_as_json({"--hardware", "v6e:2x2"}, settings)["groups"][0];
  EXPECT_EQ(group["needed_bytes"], reserved["bytes"]);
  EXPECT_LT(group["least_needed_bytes"], group["needed_bytes"]);
  EXPECT_LT(group["needed_bytes"], group["most_needed_bytes"]);
  EXPECT_TRUE(plan_as_json({"--hardware", "h100:4"}, settings)["reserved"].is_null()) << "its file has no rule";
}

// XLA places buffers itself and leaves gaps; kernels of our own run in what was planned.
TEST_F(PlanCommandTest, WhatIsNeededIsARangeWhereACompilerPlacesBuffers) {
  const auto range_of = [&](const char* backend) {
    const Json chip = plan_as_json({"--hardware", "h200:4", "--backend", backend})["groups"][0];
    return std::pair(chip["needed_bytes"].get<int64_t>(), chip["most_needed_bytes"].get<int64_t>());
  };
  const auto [expected, most] = range_of("xla");
  EXPECT_GT(most, expected);
  const auto [planned, same] = range_of("cuda");
  EXPECT_EQ(planned, same);
}

TEST_F(PlanCommandTest, MeasurementsOfTheLaneCorrectThePlan) {
  const Json planned = plan_as_json({"--hardware", "v6e:2x2"})["groups"][0];
  catalog::Catalog::open(folder_ / "catalog.sqlite")
      .record_calibration(
          {.signature = {.build = {.code_version = "0.0.9+feed"}, .hardware = "v6e:2x2", .model = "another"},
           .at = "2026-11-15T00:00:00Z",
           .lane = "xla v6e placement=megacpp",
           .quantity = catalog::kPeakBytes,
           .parts = {{"weight", 1e9}},
           .measured = 1.5e9});
  const Json json = plan_as_json({"--hardware", "v6e:2x2"});
  EXPECT_EQ(json["correction"]["samples"], 1);
  EXPECT_EQ(json["correction"]["samples_of_this_build"], 0);
  EXPECT_EQ(json["correction"]["sources"],
            Json::parse(R"([{"build": "0.0.9+feed", "samples": 1, "this_build": false}])"));
  EXPECT_EQ(json["groups"][0]["planned_bytes"], planned["planned_bytes"]);
  EXPECT_GT(json["groups"][0]["corrected_bytes"], planned["planned_bytes"]);
  EXPECT_LT(json["groups"][0]["free_bytes"], planned["free_bytes"]);
  const Result text = plan({"--hardware", "v6e:2x2"});
  EXPECT_NE(text.out.find("corrected"), std::string::npos);
  EXPECT_NE(
      text.out.find(
          "peak bytes corrected by 1 measurement of xla v6e placement=megacpp (none of this build; 1 of 0.0.9+feed)."),
      std::string::npos)
      << text.out;
  const Json without = plan_as_json({"--hardware", "v6e:2x2", "--no-catalog"});
  EXPECT_EQ(without["groups"][0]["corrected_bytes"], planned["planned_bytes"]);
  EXPECT_EQ(plan_as_json({"--hardware", "h100:4"})["correction"]["samples"], 0) << "another lane";
  const Json by_xla = plan_as_json({"--hardware", "v6e:2x2"}, {"backend=xla", "xla.placement=xla"});
  EXPECT_EQ(by_xla["correction"]["samples"], 0) << "who places collectives makes another lane";
  EXPECT_EQ(by_xla["hardware"]["lane"], "xla v6e placement=xla");
}

TEST_F(PlanCommandTest, MeasuredStepsOfTheLaneCorrectTheTime) {
  catalog::Catalog::open(folder_ / "catalog.sqlite")
      .record_calibration(
          {.signature = {.build = {.code_version = "0.0.9+feed"}, .hardware = "v6e:2x2", .model = "another"},
           .at = "2026-11-15T00:00:00Z",
           .lane = "xla v6e placement=megacpp",
           .quantity = catalog::kStepSeconds,
           .parts = {{"compute", 0.25}, {"memory", 0.25}, {"links", 0.25}, {"bubble", 0.25}},
           .measured = 2});
  const Json time = plan_as_json({"--hardware", "v6e:2x2"})["time"];
  EXPECT_NEAR(time["corrected_seconds"].get<double>() / time["step_seconds"].get<double>(), 2, 1e-6);
  const std::string text = plan({"--hardware", "v6e:2x2"}).out;
  EXPECT_NE(text.find("step seconds corrected by 1 measurement of xla v6e placement=megacpp"), std::string::npos)
      << text;
}

TEST_F(PlanCommandTest, ACatalogThatCannotBeReadIsSaidAndLeftOut) {
  base::write_file_atomically(folder_ / "catalog.sqlite", "this is no database, only a text of some length");
  const Result result = plan({"--hardware", "v6e:2x2"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("Not corrected by measurements of xla v6e placement=megacpp: E"), std::string::npos)
      << result.out;
}

TEST_F(PlanCommandTest, MistakesAreOneMessageAndAStatus) {
  base::write_file_atomically(folder_ / "file", "x");
  struct Row {
    std::vector<std::string> more, settings;
    int status;
    std::string code, said;
  };
  const std::vector<Row> rows = {
      {{"--hardware", "v6"}, {}, 2, "E1601", "did you mean 'v6e'?"},
      {{"--hardware", "v6e:3x5"}, {}, 2, "E1602", "take v6e:4x4"},
      {{"--hardware", "h100:12"}, {}, 2, "E1602", "take h100:8"},
      {{"--hardware", "v6e:2x2"}, {"layout.data_parallel=2"}, 2, "E1401", "4, as v6e:2x2 has"},
      {{"--hardware", "v6e:2x2"}, {"layout.tensor_parallel=8"}, 2, "E14", "next:"},
      {{"--hardware", "v6e:4x4"},
       {"train.batch=1", "train.micro_steps=1", "layout.tensor_parallel=2"},
       2,
       "E1405",
       "with layout.data_parallel: 8 to fill v6e:4x4"},
      {{"--hardwre", "v6e:2x2"}, {}, 2, "E1007", "did you mean '--hardware'?"},
      {{"--hardware", "v6e:2x2", "--html", (folder_ / "file/plan.html").string()}, {}, 1, "E3001", "plan.html"},
  };
  for (const Row& row : rows) {
    const Result result = plan(row.more, row.settings);
    EXPECT_EQ(result.status, row.status) << row.code << result.err;
    EXPECT_NE(result.err.find("error " + row.code), std::string::npos) << result.err;
    EXPECT_NE(result.err.find(row.said), std::string::npos) << result.err;
  }
}

// What a plan costs is counted, since no clock here is reliable: nodes of the programs it makes, and lines it says.
// A file of the user's may leave links out; what talks needs one.
TEST_F(PlanCommandTest, AChipWithoutLinksPlansAlone) {
  const fs::path file = folder_ / "lonely.yaml";
  const auto write = [&](const std::string& slices) {
    base::write_file_atomically(file,
                                "kind: gpu\nmemory: {nominal: 16GiB, usable: 15GiB, bandwidth: 5e11}\n"
                                "compute: {bf16: 5e13}\nslices: " +
                                    slices + "\n");
  };
  const auto expect_refused = [&](const std::string& shape, const std::string& scope) {
    const Result result = plan({"--hardware", file.string() + ":" + shape});
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_NE(result.err.find("error E1602"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("a link of scope " + scope + " in " + file.string()), std::string::npos) << result.err;
  };
  write("{shape: torus, valid: [1x1, 2x2], host: 2x2}");
  EXPECT_EQ(plan({"--hardware", file.string() + ":1x1"}).status, 0);
  expect_refused("2x2", "slice");
  write("{shape: nodes, host: 2}");
  expect_refused("2", "node");
  expect_refused("4", "cluster");
}

TEST_F(PlanCommandTest, TheWorkGrowsWithBlocksAndNotWithChips) {
  struct Work {
    size_t nodes, groups, parameters;
    bool operator==(const Work&) const = default;
  };
  const auto work = [](const std::string& hardware, const std::string& depth) {
    const std::vector<std::string> settings = {"train.sequence=32", "train.batch=256", "model.depth=" + depth,
                                               "layout.tensor_parallel=2", "layout.zero=3"};
    const recipe::Recipe recipe = recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml", settings);
    const PlanReport report = make_plan_report(recipe, {.hardware = hardware, .catalog = {.none = true}});
    size_t nodes = 0;
    for (const compile::Program& program : report.estimate.compiled.stages[0].programs)
      nodes += program.graph.nodes().size();
    return Work{nodes, report.estimate.fit.groups.size(), report.stored.size()};
  };
  const Work few = work("v6e:4x4", "12"), many = work("v6e:16x16", "12"), deep = work("v6e:16x16", "48");
  EXPECT_EQ(few.groups, 1U);
  EXPECT_EQ(many.groups, 1U);
  EXPECT_EQ(few.parameters, many.parameters);
  EXPECT_NEAR(static_cast<double>(many.nodes), static_cast<double>(few.nodes), 0.1 * static_cast<double>(few.nodes));
  EXPECT_GT(deep.nodes, 3 * many.nodes);
  EXPECT_LT(deep.nodes, 4.2 * static_cast<double>(many.nodes));
}

}  // namespace
}  // namespace megacpp::cli
