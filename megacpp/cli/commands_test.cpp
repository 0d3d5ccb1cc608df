// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <algorithm>

#include <filesystem>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/core/base/file.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/run/launch/build.h"
#include "tests/support/command_line.h"
#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::cli {
namespace {

using Result = testing_support::CommandResult;

Result megacpp(const std::vector<std::string>& words) { return testing_support::run_command(words); }

// The smallest hybrid that has every family; trains in milliseconds.
std::vector<std::string> tiny(const std::string& command, const std::vector<std::string>& more = {}) {
  return testing_support::on_recipe(
      command, "nam56r-tiny.yaml",
      {"train.steps=3", "train.log_every=1", "train.sequence=32", "train.batch=2", "model.depth=12"}, more);
}

TEST(CommandsTest, HelpListsEveryCommandAndEachHasAnExample) {
  const std::string overview = megacpp({"--help"}).out;
  for (const Command& command : all_commands()) {
    EXPECT_NE(overview.find(command.name), std::string::npos);
    const Result help = megacpp({command.name, "--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_NE(help.out.find(command.example), std::string::npos) << command.name;
    EXPECT_EQ(command.example.rfind("megacpp " + command.name, 0), 0u) << command.example;
  }
}

TEST(CommandsTest, TheVersionIsOneLine) {
  const Result result = megacpp({"--version"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "megacpp " + launch::code_version() + "\n");
}

TEST(CommandsTest, TrainWritesATimeline) {
  const auto file = std::filesystem::temp_directory_path() / ("megacpp_trace_" + std::to_string(getpid()) + ".json");
  ASSERT_EQ(megacpp(tiny("train", {"--trace", file.string()})).status, 0);
  const Json trace = Json::parse(base::read_file(file));
  std::filesystem::remove(file);
  EXPECT_EQ(trace["traceEvents"][0]["args"]["name"], "chip 0");
  EXPECT_GT(trace["traceEvents"].size(), 1000U);
}

TEST(CommandsTest, MisspeltWordsGetTheNearestOne) {
  const Result command = megacpp({"trian"});
  EXPECT_EQ(command.status, 2);
  EXPECT_NE(command.err.find("did you mean 'train'?"), std::string::npos) << command.err;
  const Result flag = megacpp({"ops", "--jsn"});
  EXPECT_EQ(flag.status, 2);
  EXPECT_NE(flag.err.find("did you mean '--json'?"), std::string::npos) << flag.err;
  const Result early = megacpp({"--json", "ops"});
  EXPECT_EQ(early.status, 2);
  EXPECT_NE(early.err.find("put flags after the command: megacpp ops --json"), std::string::npos) << early.err;
  const Result key = megacpp(tiny("train", {"--set", "model.hiden=8"}));
  EXPECT_EQ(key.status, 2);
  EXPECT_NE(key.err.find("did you mean 'model.hidden'?"), std::string::npos) << key.err;
}

// Words below a command have their own help, and a misspelt one is compared with them.
TEST(CommandsTest, WordsOfACommandHaveHelpAndSuggestionsOfTheirOwn) {
  EXPECT_NE(megacpp({"plugins", "--help"}).out.find("fetch"), std::string::npos);
  const Result help = megacpp({"plugins", "fetch", "--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_NE(help.out.find("megacpp plugins fetch tpu --version"), std::string::npos) << help.out;
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"plugins"}, "see megacpp plugins --help"},
      {{"plugins", "fech", "cpu"}, "did you mean 'fetch'?"},
      {{"plugins", "fetch", "cup"}, "did you mean 'cpu'?"},
      {{"plugins", "fetch"}, "see megacpp plugins fetch --help"},
      {{"plugins", "fetch", "cpu", "--vesion", "1"}, "did you mean '--version'?"},
      {{"plugins", "flags", "--platform", "gpu"}, "next:"},
      {{"plugins", "list", "--jsn"}, "did you mean '--json'?"},
  };
  for (const auto& [words, said] : mistakes) {
    const Result result = megacpp(words);
    EXPECT_EQ(result.status, 2) << said;
    EXPECT_NE(result.err.find("error E1007"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find(said), std::string::npos) << result.err;
  }
  const Result profile = megacpp({"plugins", "flags", "--profile", "v6e-dens"});
  EXPECT_EQ(profile.status, 2);
  EXPECT_NE(profile.err.find("did you mean 'v6e-dense'?"), std::string::npos) << profile.err;
}

TEST(CommandsTest, PluginsListSaysWhatIsThereAndHowToGetTheRest) {
  const auto folder = std::filesystem::temp_directory_path() / ("megacpp_plugins_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder / "megacpp/plugins/tpu");
  base::write_file_atomically(folder / "megacpp/plugins/tpu/libtpu.so", "x");
  base::write_file_atomically(folder / "megacpp/plugins/tpu/VERSION", "package libtpu\nversion 1.2\n");
  const testing_support::Variable cache("XDG_CACHE_HOME", folder.string());
  const Result text = megacpp({"plugins", "list"});
  const Json kinds = Json::parse(megacpp({"plugins", "list", "--json"}).out)["plugins"];
  std::filesystem::remove_all(folder);

  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.out.find("tpu   used  1.2"), std::string::npos) << text.out;
  ASSERT_EQ(kinds.size(), 3U);
  EXPECT_EQ(kinds[1]["kind"], "tpu");
  EXPECT_EQ(kinds[1]["places"][0]["from"], "cache");
  EXPECT_EQ(kinds[1]["places"][0]["found"], true);
}

TEST(CommandsTest, PluginsFlagsListsFlagsAndProfiles) {
  const Result all = megacpp({"plugins", "flags"});
  for (const char* part : {"xla_tpu_scoped_vmem_limit_kib", "sparse_core", "v7x-sparse-core", "xla_gpu_autotune_level"})
    EXPECT_NE(all.out.find(part), std::string::npos) << part;
  EXPECT_EQ(megacpp({"plugins", "flags", "--platform", "cpu"}).out.find("xla_tpu_scoped"), std::string::npos);
  const Json profile = Json::parse(megacpp({"plugins", "flags", "--profile", "v6e-dense", "--json"}).out);
  EXPECT_EQ(profile["flags"]["xla_tpu_scoped_vmem_limit_kib"], "98304");
  EXPECT_NE(profile["source"].get<std::string>().find("DENSE_VMEM_LIMIT"), std::string::npos);
}

// None of these gets as far as to load an MPI.
TEST(CommandsTest, WhatCannotRunInSeveralProcessesIsRefusedAtOnce) {
  const testing_support::Variable process("PMI_RANK", "0");
  struct Refused {
    std::vector<std::string> words;
    int status;
    std::string code;
  };
  const std::vector<Refused> refused = {
      {tiny("train", {"--trace", "/no/such/file", "--set", "layout.data_parallel=2"}), 1, "E3001"},
      {tiny("train", {"--set", "backend=xla"}), 2, "E1505"},
      {tiny("train"), 2, "E1007"},  // one chip
  };
  for (const auto& [words, status, code] : refused) {
    const testing_support::Variable processes("PMI_SIZE", "2");
    const Result result = megacpp(words);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_NE(result.err.find("error " + code), std::string::npos) << result.err;
  }
  const testing_support::Variable stale("PMI_SIZE", "0");
  const Result result = megacpp(tiny("train"));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("error E3104"), std::string::npos) << result.err;
}

TEST(CommandsTest, EveryUserMistakeIsOneMessageWithACodeAndStatusTwo) {
  const std::string golden = std::string(MEGACPP_SOURCE_DIR) + "/tests/golden/models/llama_mqa.safetensors";
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"train"}, "E1007"},
      {{"train", "no-such-recipe.yaml"}, "E1008"},
      {{"parity", "no-such-file.safetensors"}, "E1008"},
      {{"parity", std::string(MEGACPP_SOURCE_DIR) + "/LICENSE"}, "E1201"},
      {{"parity", golden, "--set", "model.hidden=2"}, "E1001"},
      {{"parity", golden, "--set", "layout.tensr_parallel=2"}, "E1001"},
      {{"parity", golden, "--set", "layout.tensor_parallel=two"}, "E1002"},
      {{"parity", golden, "--set", "layout.zero=4"}, "E1003"},
      {{"parity", golden, "--set", "train.threads=none"}, "E1002"},
      {{"parity", golden, "--backend", "gpu"}, "E1003"},
      {tiny("train", {"--backend", "xl"}), "E1003"},
      {tiny("compile", {"--backend"}), "E1007"},
      {tiny("train", {"--set", "model.mamba.chunk=0"}), "E1003"},
      {tiny("train", {"--set", "model.hidden=many"}), "E1002"},
      {tiny("train", {"--set", "model.attention.kv_heads=3"}), "E1005"},
      {tiny("train", {"--set", "model.feed_forward.top_k=99"}), "E1005"},
      {tiny("train", {"--set", "model.pattern=AXE"}), "E1006"},
      {tiny("train", {"--set", "data.text=/no/such/text"}), "E1101"},
      {tiny("train", {"--set", "model.vocab=100"}), "E1102"},
      {tiny("train", {"--set", "optimizer.lr=1e9", "--set", "optimizer.warmup_steps=0"}), "E1302"},
      {tiny("train", {"--set", "backend=xla", "--check-nans"}), "E1505"},
      {tiny("train", {"--set", "backend=xla", "--profile"}), "E1505"},
      {tiny("train", {"--set", "backend=xla", "--trace", "/no/such/file"}), "E1505"},
      {tiny("train", {"--set", "backend=xla", "--set", "layout.pipeline_parallel=2"}), "E1505"},
      {{"parity", golden, "--set", "backend=xla", "--set", "layout.pipeline_parallel=2"}, "E1505"},
  };
  for (const auto& [words, code] : mistakes) {
    const Result result = megacpp(words);
    EXPECT_EQ(result.status, 2) << code;
    EXPECT_NE(result.err.find("error " + code), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("next:"), std::string::npos) << result.err;
  }
}

TEST(CommandsTest, ALayoutIsRefusedBeforeAnyTextIsRead) {
  const Result result =
      megacpp(tiny("train", {"--set", "layout.tensor_parallel=3", "--set", "data.text=/no/such/text"}));
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("error E1402"), std::string::npos) << result.err;
}

// The batch and the length of a golden file are given: only the layout can follow them.
TEST(CommandsTest, ParityIsToldToChangeItsLayoutAlone) {
  const std::string golden = std::string(MEGACPP_SOURCE_DIR) + "/tests/golden/models/llama_tiny.safetensors";
  for (const char* layout : {"layout.context_parallel=5", "layout.data_parallel=4", "layout.pipeline_parallel=9"}) {
    const Result result = megacpp({"parity", golden, "--set", layout});
    EXPECT_EQ(result.status, 2) << result.err;
    const size_t next = result.err.find("next:   set layout.");
    ASSERT_NE(next, std::string::npos) << result.err;
    EXPECT_EQ(result.err.find("train.", next), std::string::npos) << result.err;
  }
  const std::vector<std::pair<const char*, const char*>> misspelt = {
      {"layut.tensor_parallel=2", "did you mean 'layout.tensor_parallel'?"},
      {"layut.tensr_parallel=2", "did you mean 'layout.tensor_parallel'?"},
      {"train.thread=2", "did you mean 'train.threads'?"},
      {"layut.x=2", "see layout.* in megacpp keys"}};
  for (const auto& [key, expected] : misspelt) {
    const Result result = megacpp({"parity", golden, "--set", key});
    EXPECT_NE(result.err.find(expected), std::string::npos) << result.err;
  }
}

TEST(CommandsTest, UnwritableDumpFolderIsAnEnvironmentError) {
  const Result result = megacpp(tiny("compile", {"--dump-dir", "/proc/no/such"}));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("error E3001"), std::string::npos) << result.err;
}

TEST(CommandsTest, CheckNansNamesTheOpThatMadeTheLossInfinite) {
  const Result result =
      megacpp(tiny("train", {"--check-nans", "--set", "optimizer.lr=1e9", "--set", "optimizer.warmup_steps=0"}));
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("made by node"), std::string::npos) << result.err;
}

// What the prediction says of this machine has no part in it.
TEST(CommandsTest, TheRegimeOfARunComesFromWhatItMeasured) {
  const Json run = Json::parse(megacpp(tiny("train", {"--json"})).out);
  const Json& parts = run["measured_parts"];
  double seconds = 0, largest = 0;
  for (const char* part : {"arithmetic", "memory", "links", "bubble"}) {
    seconds += parts[part].get<double>();
    largest = std::max(largest, parts[part].get<double>());
  }
  EXPECT_GT(seconds, 0);
  EXPECT_GT(parts["other"].get<double>(), 0) << "the host draws batches";
  seconds += parts["other"].get<double>();
  EXPECT_NEAR(seconds, run["step_seconds"].get<double>(), 1e-9) << "nothing of a step is left out";
  EXPECT_EQ(parts["links"], 0) << "one chip";
  EXPECT_NE(run["regime_because"].get<std::string>().find(fmt::format("{:.0f}%", 100 * largest / seconds)),
            std::string::npos)
      << run["regime_because"];
  const Json single = Json::parse(megacpp(tiny("train", {"--json", "--set", "train.steps=1"})).out);
  EXPECT_EQ(single["regime"], "not measured") << "the only step warms up";
  EXPECT_NE(single["regime_because"].get<std::string>().find("train.log_every"), std::string::npos)
      << single["regime_because"];
}

TEST(CommandsTest, TrainingRepeatsBitForBitAndUsesExactlyThePlannedBytes) {
  const Json first = Json::parse(megacpp(tiny("train", {"--json"})).out);
  const Json second = Json::parse(megacpp(tiny("train", {"--json"})).out);
  EXPECT_EQ(first["losses"].size(), 3u);
  EXPECT_EQ(first["losses"], second["losses"]);
  EXPECT_EQ(first["measured_peak_bytes"], first["planned_peak_bytes"]);
  EXPECT_EQ(first["fallbacks"], 0);
}

TEST(CommandsTest, TrainingReportsTheLoadOfEveryExpert) {
  const Result run = megacpp(tiny("train", {"--json"}));
  const Json steps = Json::parse(run.out)["experts"];
  ASSERT_EQ(steps.size(), 3U);
  for (const Json& blocks : steps) {
    ASSERT_EQ(blocks.size(), 5U) << "the E blocks of AEMEAEMEAEMR";
    EXPECT_EQ(blocks[0]["block"], "block01");
    for (const Json& block : blocks) {
      double sum = 0;
      for (const Json& share : block["share"]) sum += share.get<double>();
      EXPECT_NEAR(sum, 1, 1e-12);
      EXPECT_EQ(block["dropped"].size(), 4U);
    }
  }
  EXPECT_NE(run.err.find("  experts 1."), std::string::npos) << run.err;
  const Result dense = megacpp(tiny("train", {"--json", "--set", "model.pattern=A", "--set", "train.steps=1"}));
  EXPECT_TRUE(Json::parse(dense.out)["experts"].is_null());
  EXPECT_EQ(dense.err.find("  experts "), std::string::npos) << dense.err;
}

// The last stage has the logits of a large vocabulary: more than chip 0 needs.
TEST(CommandsTest, ThePeakIsThatOfTheWorstChip) {
  const std::vector<std::string> layout = {"--set", "layout.pipeline_parallel=2",
                                           "--set", "model.vocab=16384",
                                           "--set", "model.pattern=AE",
                                           "--set", "model.depth=4",
                                           "--set", "train.batch=8",
                                           "--json"};
  const Json run = Json::parse(megacpp(tiny("train", layout)).out);
  const Json plan = Json::parse(megacpp(tiny("compile", layout)).out);
  EXPECT_EQ(run["planned_peak_bytes"], plan["peak_bytes"]);
  EXPECT_EQ(run["measured_peak_bytes"], plan["peak_bytes"]);
  EXPECT_EQ(run["peak_chip"], "chip 1: stage 1");
  const Result text = megacpp(tiny("train", std::vector<std::string>(layout.begin(), layout.end() - 1)));
  EXPECT_NE(text.out.find(" planned (the worst: chip 1: stage 1)"), std::string::npos) << text.out;
}

// With less memory than keeping everything takes, train.recompute: auto is decided as a run decides it.
// Rates of its own: the decision depends on them, and other tests may measure at the same time.
TEST(CommandsTest, CompilingDecidesRecomputeAsTrainingDoes) {
  const testing_support::TemporaryFolder folder;
  const testing_support::Variable cache("XDG_CACHE_HOME", folder.path().string());
  const auto line_of = [](const std::string& text) {
    const size_t at = text.find("recompute  ");
    return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
  };
  const auto with = [](const char* level, int64_t limit, const char* command) {
    return megacpp(tiny(command, {"--json", "--set", std::string("train.recompute=") + level, "--set",
                                  "hardware.limit=" + std::to_string(limit)}));
  };
  const auto peak = [&with](const char* level) {
    return Json::parse(with(level, 0, "compile").out)["peak_bytes"].get<int64_t>();
  };
  const int64_t limit = (peak("none") + peak("full")) / 2;
  const Result compiled = with("auto", limit, "compile"), trained = with("auto", limit, "train");
  EXPECT_NE(line_of(compiled.err).find("the plan does not fit with less"), std::string::npos) << compiled.err;
  EXPECT_EQ(line_of(compiled.err), line_of(trained.err));
  EXPECT_EQ(line_of(with("auto", limit, "explain").err), line_of(trained.err));
  EXPECT_EQ(Json::parse(compiled.out)["peak_bytes"], Json::parse(trained.out)["planned_peak_bytes"]);
  EXPECT_LE(Json::parse(compiled.out)["peak_bytes"].get<int64_t>(), limit);
  EXPECT_EQ(line_of(with("none", 0, "compile").err), "") << "nothing is left to planning";
}

// Tokens compete for an expert's capacity inside their sequence only, so how sequences are batched changes nothing.
TEST(CommandsTest, MicroStepsOfHalfTheBatchGiveTheSameLosses) {
  const Json whole = Json::parse(megacpp(tiny("train", {"--json"})).out);
  const Json halves =
      Json::parse(megacpp(tiny("train", {"--json", "--set", "train.batch=1", "--set", "train.micro_steps=2", "--set",
                                         "model.feed_forward.balance_loss=0"}))
                      .out);
  const Json plain = Json::parse(megacpp(tiny("train", {"--json", "--set", "model.feed_forward.balance_loss=0"})).out);
  EXPECT_GT(whole["losses"][0].get<double>(), plain["losses"][0].get<double>());
  for (size_t step = 0; step < 3; ++step)
    EXPECT_NEAR(halves["losses"][step].get<double>(), plain["losses"][step].get<double>(), 1e-4) << "step " << step;
}

TEST(CommandsTest, CompileSwitchesOptionalPassesOff) {
  const Json off = Json::parse(megacpp(tiny("compile", {"--json", "--without", "fuse", "--without", "order"})).out);
  for (const Json& pass : off["passes"]) {
    const std::string name = pass["pass"];
    EXPECT_FALSE(name.ends_with("-fuse") || name.ends_with("-order")) << name;
  }
  const Result misspelt = megacpp(tiny("compile", {"--without", "fuze"}));
  EXPECT_EQ(misspelt.status, 2);
  EXPECT_NE(misspelt.err.find("did you mean 'fuse'?"), std::string::npos) << misspelt.err;
  const Result needed = megacpp(tiny("compile", {"--without", "partition"}));
  EXPECT_NE(needed.err.find("cannot be switched off: chips hold parts of tensors"), std::string::npos) << needed.err;
}

TEST(CommandsTest, TrainSwitchesOptionalPassesOff) {
  const std::vector<std::string> short_run = {"--set", "train.steps=2", "--json"};
  const auto with = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), short_run.begin(), short_run.end());
    return megacpp(tiny("train", flags));
  };
  const Result off = with({"--without", "fuse", "--without", "order"});
  ASSERT_EQ(off.status, 0) << off.err;
  EXPECT_NE(off.err.find("without fuse, order; nothing is remembered of this run"), std::string::npos) << off.err;
  const Json whole = Json::parse(with({"--no-catalog"}).out), without = Json::parse(off.out);
  EXPECT_NEAR(without["losses"][1].get<double>(), whole["losses"][1].get<double>(), 1e-4);
  EXPECT_NE(without["planned_peak_bytes"], whole["planned_peak_bytes"]) << "other programs, another plan";
  EXPECT_GT(whole["verify_seconds"].get<double>(), 0);
  const Result misspelt = with({"--without", "fuze"});
  EXPECT_EQ(misspelt.status, 2);
  EXPECT_NE(misspelt.err.find("did you mean 'fuse'?"), std::string::npos) << misspelt.err;
}

TEST(CommandsTest, ParityTellsWhetherAPassIsAtFault) {
  const std::string golden = std::string(MEGACPP_SOURCE_DIR) + "/tests/golden/models/llama_tiny.safetensors";
  EXPECT_EQ(megacpp({"parity", golden, "--without", "fuse", "--without", "order"}).status, 0);
  EXPECT_EQ(megacpp({"parity", golden, "--without", "autodiff"}).status, 2);
}

TEST(CommandsTest, CompileHelpListsThePassesThatRun) {
  const std::string help = megacpp({"compile", "--help"}).out;
  for (const compile::PassInfo& pass : compile::list_passes()) {
    const std::string line = std::string(pass.is_optional() ? "  * " : "    ") + std::string(pass.name) + " ";
    EXPECT_NE(help.find(line), std::string::npos) << line;
  }
}

TEST(CommandsTest, CompileWritesEveryPass) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "megacpp_passes";
  std::filesystem::remove_all(folder);
  const Result result = megacpp(tiny("compile", {"--json", "--dump-dir", folder.string()}));
  EXPECT_EQ(result.status, 0) << result.err;
  const Json report = Json::parse(result.out);
  for (const Json& pass : report["passes"]) {
    const std::string name = pass["pass"];
    EXPECT_TRUE(std::filesystem::exists(folder / (name + ".ir")) || std::filesystem::exists(folder / (name + ".txt")))
        << name;
  }
  int64_t items = report["padding_bytes"];
  for (const Json& item : report["memory"]) items += item["bytes"].get<int64_t>();
  EXPECT_EQ(items, report["peak_bytes"].get<int64_t>());
  EXPECT_EQ(report["mesh"], "one chip");
  EXPECT_EQ(report["chips"], 1);
  std::filesystem::remove_all(folder);
}

// A full-size model is only compiled, never loaded.
TEST(CommandsTest, ExplainShowsSpecsAndLocalShapesOfAFullSizeModel) {
  const std::string recipe = std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52.yaml";
  const Result text = megacpp({"explain", recipe, "--set", "layout.tensor_parallel=8"});
  EXPECT_EQ(text.status, 0) << text.err;
  for (const char* expected : {"model=8  chips 8", "1. stage cut", "7. optimizer", "block*.A.wq (x26)",
                               "column-parallel over model: query heads", "of which replicated", "remove by layout.",
                               "needed: the loss is a mean over all tokens"})
    EXPECT_NE(text.out.find(expected), std::string::npos) << expected << "\n" << text.out;
  const Json json = Json::parse(megacpp({"explain", recipe, "--json", "--set", "layout.tensor_parallel=8"}).out);
  std::map<std::string, Json> parameters;
  for (const Json& row : json["parameters"]) parameters[row["name"]] = row;
  // 56 query heads and 8 KV heads of 64: 7 and 1 on each chip.
  EXPECT_EQ(parameters.at("block*.A.wq")["local"], Json::parse("[3584, 448]"));
  EXPECT_EQ(parameters.at("block*.A.wk")["local"], Json::parse("[3584, 64]"));
  EXPECT_EQ(parameters.at("block*.A.wq")["class"], "sharded");
  EXPECT_EQ(parameters.at("block*.A.norm.weight")["class"], "replicated");
  EXPECT_EQ(json["replicated_bytes"], 53 * 3584 * 4);  // the norms of 52 blocks and the last one
  EXPECT_GT(json["sent_bytes_per_step"].get<int64_t>(), 0);
  // bf16 and 8 micro-steps: of the head and the norm before it; blocks are recomputed and convert their weights twice.
  const int64_t head = parameters.at("head.weight")["stored_bytes"].get<int64_t>();
  EXPECT_EQ(json["weight_copy_bytes"], head / 2 + 3584 * 2);
  EXPECT_NE(text.out.find("bf16 copies of weights"), std::string::npos) << text.out;
}

// What bench/cpp_headers trains: its records speak of 10.1M parameters in every layout.
TEST(CommandsTest, TheRecipeOfTheHeadersHasTenMillionParameters) {
  const std::vector<std::string> eight = {"layout.data_parallel=2", "layout.expert_parallel=2",
                                          "layout.tensor_parallel=2"};
  for (const std::vector<std::string>& layout : {std::vector<std::string>{}, eight}) {
    const Json json =
        Json::parse(megacpp(testing_support::on_recipe("explain", "cpp-headers-10m.yaml", layout, {"--json"})).out);
    EXPECT_EQ(json["parameter_count"], 10'111'816);
    EXPECT_EQ(json["chips"], layout.empty() ? 1 : 8);
  }
}

TEST(CommandsTest, ExplainOfOneChipHasNoCollectives) {
  const Result text = megacpp(tiny("explain"));
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("Collectives: none"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("of which replicated 0 B"), std::string::npos) << text.out;
  const Json json = Json::parse(megacpp(tiny("explain", {"--json"})).out);
  EXPECT_TRUE(json["collectives"].empty());
  EXPECT_EQ(json["replicated_bytes"], 0);
  EXPECT_EQ(json["weight_copy_bytes"], 0) << "f32";
}

TEST(CommandsTest, ExplainPrintsWhatThePlannerDecided) {
  const std::vector<std::string> layout = {"--set", "layout.policy=fsdp", "--set", "layout.data_parallel=2"};
  const Result text = megacpp(tiny("explain", layout));
  for (const char* expected : {"layout.chips: 2", "layout.zero: 3", "layout.bucket_bytes: 160000000", "batch: data"})
    EXPECT_NE(text.out.find(expected), std::string::npos) << expected << "\n" << text.out;
  std::vector<std::string> with_json = layout;
  with_json.push_back("--json");
  const Json resolved = Json::parse(megacpp(tiny("explain", with_json)).out)["resolved_layout"];
  EXPECT_EQ(resolved["layout.zero"], 3);
  EXPECT_EQ(resolved["layout.chips"], 2);
  EXPECT_EQ(resolved["layout.policy"], "fsdp");
  EXPECT_EQ(resolved["layout.sequence_parallel"], false);
}

TEST(CommandsTest, ExplainOfAPipelineCountsByStage) {
  const std::vector<std::string> layout = {
      "--set", "layout.pipeline_parallel=2", "--set", "train.micro_steps=4", "--set", "model.vocab=4096"};
  std::vector<std::string> with_json = layout;
  with_json.push_back("--json");
  const Json json = Json::parse(megacpp(tiny("explain", with_json)).out);
  ASSERT_EQ(json["stages"].size(), 2u);
  EXPECT_GE(json["stages"][0]["peak_bytes"], json["stages"][1]["peak_bytes"]);
  EXPECT_EQ(json["peak_bytes"], json["stages"][0]["peak_bytes"]);
  std::map<int64_t, int64_t> weights;
  for (const Json& row : json["parameters"]) {
    weights[row["stage"]] += row["stored_bytes"].get<int64_t>();
    EXPECT_EQ(row["class"], "whole") << row;  // one chip a stage
    EXPECT_EQ(row["holders"], 1) << row;
  }
  for (const Json& stage : json["stages"]) {
    EXPECT_EQ(stage["weight_bytes"], weights[stage["stage"]]);
    EXPECT_EQ(stage["replicated_bytes"], 0);
    EXPECT_EQ(stage["micro_batches_in_flight"], Json::parse(stage["stage"] == 0 ? "[2]" : "[1]"));
    EXPECT_NEAR(stage["idle_part"].get<double>(), 1.0 / 5, 1e-9);  // (stages - 1) / (micro-batches + stages - 1)
  }
  EXPECT_EQ(weights[0] + weights[1], 4 * json["parameter_count"].get<int64_t>());
  const Result text = megacpp(tiny("explain", layout));
  for (const char* expected : {"the largest first", "micro-batches in flight", "20.0%", "schedule 1f1b"})
    EXPECT_NE(text.out.find(expected), std::string::npos) << expected << "\n" << text.out;
}

TEST(CommandsTest, ParityComparesEveryTensorOnAnyNumberOfThreads) {
  const std::string golden = std::string(MEGACPP_SOURCE_DIR) + "/tests/golden/models/llama_mqa.safetensors";
  for (const char* threads : {"train.threads=1", "train.threads=3"}) {
    const Result result = megacpp({"parity", golden, "--json", "--set", threads});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(Json::parse(result.out)["passed"].get<bool>());
  }
}

// --backend is --set backend=..., and the last word where both are given.
TEST(CommandsTest, TheBackendCanBeNamedByAFlagOfItsOwn) {
  const std::string golden = std::string(MEGACPP_SOURCE_DIR) + "/tests/golden/models/llama_mqa.safetensors";
  EXPECT_EQ(megacpp({"parity", golden, "--backend", "cpu", "--set", "backend=xla"}).status, 0);
  for (const char* command : {"train", "compile", "explain"}) {
    const Json by_key = Json::parse(megacpp(tiny(command, {"--json", "--set", "backend=cpu"})).out);
    const Json by_flag = Json::parse(megacpp(tiny(command, {"--backend", "cpu", "--json"})).out);
    EXPECT_EQ(by_key["pattern"], by_flag["pattern"]) << command;
    EXPECT_NE(megacpp({command, "--help"}).out.find("--backend NAME"), std::string::npos) << command;
  }
  const Result misspelt = megacpp(tiny("train", {"--backend", "xl"}));
  EXPECT_NE(misspelt.err.find("did you mean 'xla'?"), std::string::npos) << misspelt.err;
}

TEST(CommandsTest, OpsListsEveryOpAsJson) {
  const Json ops = Json::parse(megacpp({"ops", "--json"}).out)["ops"];
  EXPECT_GT(ops.size(), 50u);
  // Made by the scheduler, of ops that every backend has, where one has a kernel for them or compiles loops.
  const std::set<std::string> joined = {"blocked_attention", "blocked_attention_grad", "causal_conv_grad",
                                        "mixed_dot",         "ragged_swiglu",          "ragged_swiglu_grad"};
  for (const Json& op : ops)
    EXPECT_EQ(op["cpu"] == "decomposed", joined.contains(op["name"].get<std::string>())) << op["name"];
}

}  // namespace
}  // namespace megacpp::cli
