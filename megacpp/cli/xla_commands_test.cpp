// SPDX-License-Identifier: Apache-2.0
// Commands with --backend xla, on the CPU plugin.
#ifdef MEGACPP_HAS_PJRT

#include <gtest/gtest.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/core/base/file.h"
#include "megacpp/machine/plugins/plugin_places.h"
#include "tests/support/command_line.h"
#include "tests/support/environment.h"

namespace megacpp::cli {
namespace {

using testing_support::CommandResult;
using testing_support::run_command;
using testing_support::Variable;

// One block, compiled without optimizations: a second of XLA's time.
std::vector<std::string> tiny_feed_forward(const std::string& command, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words =
      testing_support::on_recipe(command, "nam52-tiny.yaml",
                                 {"train.sequence=16", "train.batch=4", "model.pattern=E", "model.depth=1",
                                  "model.vocab=256", "xla.flags=[xla_backend_optimization_level=0]"},
                                 {"--backend", "xla"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<std::string> on_four_chips(const std::string& command, const std::vector<std::string>& more) {
  std::vector<std::string> words = {"--set", "layout.data_parallel=2", "--set", "layout.tensor_parallel=2"};
  words.insert(words.end(), more.begin(), more.end());
  return tiny_feed_forward(command, words);
}

class XlaCommandsTest : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the plugin's own locks are invisible to the thread sanitizer";
#endif
    namespace plugins = runtime::plugins;
    for (const plugins::PluginPlace& place :
         plugins::plugin_places(plugins::PluginKind::cpu, {}, plugins::Surroundings::current()))
      if (place.exists && cpu_plugin_.empty()) cpu_plugin_ = place.file.string();
    if (cpu_plugin_.empty()) GTEST_SKIP() << "no CPU plugin: megacpp plugins fetch cpu";
  }

  std::string cpu_plugin_;
};

TEST_F(XlaCommandsTest, LimitsAndFaultsEndARunAsTheyDoOnOurOwnBackend) {
  struct Ending {
    std::string setting, code;
    int status;
  };
  const std::vector<Ending> endings = {{"hardware.limits=[3=64KiB]", "error E1605", 2},
                                       {"hardware.fail_allocation=[chip 3 step compile]", "error E2002", 3},
                                       {"hardware.fail_allocation=[chip 3 step load]", "error E2003", 3},
                                       {"hardware.fail_allocation=[chip 3 step 1]", "error E2004", 3}};
  for (const auto& [setting, code, status] : endings) {
    const CommandResult result =
        run_command(on_four_chips("train", {"--set", "train.steps=2", "--set", "xla.cache=off", "--set",
                                            "data.text=[docs]", "--set", "ladder.rungs=[]", "--set", setting}));
    EXPECT_EQ(result.status, status) << setting;
    EXPECT_NE(result.err.find(code), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("chip 3: data 1, model 1 "), std::string::npos) << result.err;
  }
}

TEST_F(XlaCommandsTest, TrainCompilesOnceAndThenLoadsFromItsCache) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "megacpp_xla_commands_test";
  std::filesystem::remove_all(folder);
  const auto train = [&](const std::string& cache) {
    const CommandResult result = run_command(tiny_feed_forward(
        "train", {"--set", "train.steps=2", "--set", "xla.cache=" + cache, "--set", "data.text=[docs]", "--json"}));
    EXPECT_EQ(result.status, 0) << result.err;
    return Json::parse(result.out);
  };
  const Json first = train(folder.string()), second = train(folder.string()), third = train("off");
  EXPECT_EQ(first["counters"]["compiles"].size(), 1u);
  EXPECT_EQ(first["counters"]["cache_hits"], 0);
  EXPECT_GT(first["backend_compile_seconds"], 0);
  EXPECT_EQ(second["counters"]["compiles"].size(), 0u);
  EXPECT_EQ(second["counters"]["cache_hits"], 1);
  EXPECT_EQ(third["counters"]["compiles"]["no cache"], 1);
  EXPECT_EQ(first["losses"], second["losses"]);
  EXPECT_EQ(first["counters"]["executions"], 2);
  EXPECT_EQ(first["regime"], "not measured")
      << "a plugin does not say where the time went, and the plan's word is no measurement";
  EXPECT_TRUE(first["measured_parts"].is_null());
  EXPECT_TRUE(first["measured_peak_bytes"].is_null()) << "absent, not 0";
  EXPECT_EQ(first["fallbacks"], 0);
  EXPECT_NE(first["path"].get<std::string>().find("pjrt_api="), std::string::npos);
  EXPECT_EQ(first["xla_flags"][0]["name"], "xla_backend_optimization_level");
  std::filesystem::remove_all(folder);
}

TEST_F(XlaCommandsTest, TrainReportsTheLoadOfExperts) {
  const CommandResult result = run_command(tiny_feed_forward(
      "train", {"--set", "train.steps=1", "--set", "xla.cache=off", "--set", "data.text=[docs]", "--set",
                "model.feed_forward.experts=4", "--set", "model.feed_forward.top_k=2", "--json"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(Json::parse(result.out)["experts"].is_array()) << result.out;
  EXPECT_NE(result.err.find("  experts "), std::string::npos) << result.err;
}

// What every pass left, and the text XLA got.
TEST_F(XlaCommandsTest, CompileWritesTheModuleWithTheDumpsOfPasses) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "megacpp_xla_dump_test";
  std::filesystem::remove_all(folder);
  const CommandResult result = run_command(tiny_feed_forward("compile", {"--dump-dir", folder.string()}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(std::filesystem::exists(folder / "01-model.ir"));
  EXPECT_NE(base::read_file(folder / "stablehlo.mlir").find("func.func public @main"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST_F(XlaCommandsTest, CompileReportsWhatXlaMadeOfAStep) {
  const CommandResult result = run_command(on_four_chips("compile", {"--json"}));
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["chips"], 4);
  EXPECT_EQ(json["placement"], "megacpp");
  const Json& xla = json["xla"];
  EXPECT_EQ(xla["devices"], 4);
  EXPECT_EQ(xla["flags"][0]["name"], "xla_backend_optimization_level");
  EXPECT_EQ(xla["memory"]["argument"], xla["planned_argument_bytes"]);
  EXPECT_GT(xla["text_bytes"].get<int64_t>(), 10'000);
  const double flops = xla["flops"], ours = xla["our_flops"];
  EXPECT_NEAR(flops / ours, 1, 0.15);
  // The program has our collectives; XLA only joins some of them.
  ASSERT_GE(xla["collectives"].size(), 4u);
  for (const Json& row : xla["collectives"]) {
    EXPECT_EQ(row["xla_bytes"], row["our_bytes"]) << row;
    EXPECT_LE(row["xla_calls"], row["our_calls"]) << row;
    EXPECT_NE(row["axes"], "?") << row;
  }
}

TEST_F(XlaCommandsTest, ExplainPutsXlasOwnCollectivesBesideOurs) {
  const CommandResult text = run_command(on_four_chips("explain", {"--set", "xla.placement=xla"}));
  ASSERT_EQ(text.status, 0) << text.err;
  for (const char* expected : {"Collectives: bytes one chip sends", "remove by layout.", "collectives placed by xla",
                               "XLA's beside ours", "our bytes", "ours only"})
    EXPECT_NE(text.out.find(expected), std::string::npos) << expected << "\n" << text.out;
}

TEST_F(XlaCommandsTest, APluginThatIsNotThereIsToldHowToFetch) {
  const Variable cache("XDG_CACHE_HOME", "/no/such/cache"), home("HOME", "/no/such/home"), path("PATH", "/no/such");
  const Variable named("MEGACPP_PJRT_TPU", ""), library("TPU_LIBRARY_PATH", "");
  namespace plugins = runtime::plugins;
  for (const auto& place : plugins::plugin_places(plugins::PluginKind::tpu, {}, plugins::Surroundings::current()))
    if (place.exists) GTEST_SKIP() << "this machine has one: " << place.file;
  const CommandResult result = run_command(on_four_chips("compile", {"--set", "xla.flags=[]", "--target", "v6e:2x2"}));
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("error E1501"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("megacpp plugins fetch tpu"), std::string::npos) << result.err;
}

TEST_F(XlaCommandsTest, EveryBadInputIsNamedWithTheNextStep) {
  // The library of another plugin stands in for the TPU's.
  const Variable tpu("MEGACPP_PJRT_TPU", cpu_plugin_);
  struct Row {
    std::vector<std::string> words;
    int status;
    const char* code;
    const char* said;
  };
  const auto on_cpu = [](const char* command) {
    return testing_support::on_recipe(command, "nam52-tiny.yaml", {}, {"--target", "v6e:2x2"});
  };
  const std::string recipe_folder = std::string("xla.cache=") + MEGACPP_SOURCE_DIR + "/LICENSE/programs";
  const std::string license = std::string("xla.plugin=") + MEGACPP_SOURCE_DIR + "/LICENSE";
  const std::vector<Row> rows = {
      {tiny_feed_forward("train", {"--set", "xla.plugin=/no/such/plugin.so"}), 2, "E1501", "/no/such/plugin.so"},
      {tiny_feed_forward("compile", {"--set", "xla.plugin=/no/such/plugin.so"}), 2, "E1501", "mend the path"},
      {tiny_feed_forward("compile", {"--set", "xla.plugin=gpu"}), 2, "E1501", "gpu"},
      {tiny_feed_forward("train", {"--set", recipe_folder}), 1, "E3001", "LICENSE/programs"},
      {tiny_feed_forward("explain", {"--set", license}), 2, "E1502", "fetch the plugin again"},
      {tiny_feed_forward("compile", {"--set", license}), 2, "E1502", "GetPjrtApi"},
      {tiny_feed_forward("compile", {"--target", "v6e:2x2"}), 2, "E1504", "set layout.data_parallel: 4"},
      {on_four_chips("compile", {"--target", "v6e:1x1"}), 2, "E1504", "a product of 1"},
      {on_four_chips("explain", {"--target", "v6e:4x4"}), 2, "E1504", "set layout.data_parallel: 8"},
      {tiny_feed_forward("compile", {"--target", "v6:2x2"}), 2, "E1601", "did you mean 'v6e'?"},
      {tiny_feed_forward("compile", {"--target", "v6e:odd"}), 2, "E1602", "v6e:2x2"},
      {tiny_feed_forward("compile", {"--target", "h100:8"}), 2, "E1506", "a TPU slice"},
      {tiny_feed_forward("compile", {"--target", "host"}), 2, "E1602", "v6e:2x2"},
      {on_cpu("compile"), 2, "E1007", "add --backend xla"},
      {on_cpu("explain"), 2, "E1007", "add --backend xla"},
      {tiny_feed_forward("compile", {"--time-limit", "0"}), 2, "E1007", "--time-limit"},
      {tiny_feed_forward("compile", {"--taget", "v6e:2x2"}), 2, "E1007", "did you mean '--target'?"},
      {tiny_feed_forward("compile", {"--set", "xla.flags=[xla_backend_optimisation_level=1]"}), 2, "E1507",
       "did you mean 'xla_backend_optimization_level'?"},
      {on_four_chips("compile", {"--set", "xla.flags=[v7x-sparse-core]", "--target", "v6e:2x2"}), 2, "E1507", "v7x"},
      {tiny_feed_forward("compile", {"--set", "layout.pipeline_parallel=2", "--set", "model.depth=2"}), 2, "E1505",
       "set layout.pipeline_parallel: 1"},
      {tiny_feed_forward("train", {"--set", "layout.pipeline_parallel=2", "--set", "model.depth=2"}), 2, "E1505",
       "set layout.pipeline_parallel: 1"},
      // A plugin that makes no topologies, asked in the child.
      {on_four_chips("compile", {"--set", "xla.flags=[]", "--target", "v6e:2x2"}), 2, "E1505", "UNIMPLEMENTED"},
      {tiny_feed_forward("compile", {"--set", "xla.plugin=" + cpu_plugin_, "--target", "v6e:2x2"}), 2, "E1505",
       "UNIMPLEMENTED"},
  };
  for (const Row& row : rows) {
    const CommandResult result = run_command(row.words);
    EXPECT_EQ(result.status, row.status) << row.code << " " << row.said << "\n" << result.err;
    EXPECT_NE(result.err.find(std::string("error ") + row.code), std::string::npos) << row.said << "\n" << result.err;
    EXPECT_NE(result.err.find(row.said), std::string::npos) << row.said << "\n" << result.err;
    EXPECT_NE(result.err.find("next:"), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "") << row.said;
  }
}

}  // namespace
}  // namespace megacpp::cli

#endif
