// SPDX-License-Identifier: Apache-2.0
// Where output goes and what happens when it cannot: full disks, readers that left, devices, links, missing folders.
#include "megacpp/cli/output.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/process.h"
#include "tests/support/child_command.h"
#include "tests/support/command_line.h"
#include "tests/support/model_commands.h"
#include "tests/support/text.h"

namespace megacpp::cli {
namespace {

using testing_support::CommandResult;
using testing_support::Ending;
using testing_support::has;

std::vector<std::string> tiny_two_steps(const std::string& command, const std::vector<std::string>& more = {}) {
  return testing_support::on_recipe(
      command, "nam52-tiny.yaml",
      {"model.depth=2", "train.sequence=32", "train.batch=2", "train.steps=2", "train.log_every=1"}, more);
}

std::string golden() { return std::string(MEGACPP_SOURCE_DIR) + "/tests/golden/models/llama_mqa.safetensors"; }

/// Lines that print to stdout, for every command.
class EveryCommand {
 public:
  EveryCommand() {
    base::write_file_atomically(folder_ / "small.yaml", testing_support::kExportedRecipe);
    base::write_file_atomically(folder_ / "text.txt", "the quick brown fox jumps over the lazy dog, twice over");
    prepare(tiny_two_steps("train", {"--set", "checkpoint.every=1", "--run-dir", at("run")}));
    prepare({"data", "tokenize", at("text.txt"), "--out", at("tokens")});
  }

  std::vector<std::vector<std::string>> lines() const {
    const std::string small = at("small.yaml"), run = at("run"), text = at("text.txt");
    return {tiny_two_steps("plan"),
            tiny_two_steps("plan", {"--json"}),
            tiny_two_steps("train"),
            tiny_two_steps("train", {"--json"}),
            {"runs", "list", folder_.path().string()},
            {"runs", "show", run},
            {"runs", "export", run, "--csv", at("log.csv")},
            {"receipt", "show", run},
            {"receipt", "show", run, "--json"},
            {"receipt", "schema"},
            {"flight", "--help"},
            {"run", "--help"},
            {"checkpoint", "show", run},
            {"checkpoint", "verify", run},
            {"checkpoint", "convert", run, "--to", at("converted")},
            tiny_two_steps("compile"),
            tiny_two_steps("compile", {"--json"}),
            tiny_two_steps("explain"),
            tiny_two_steps("explain", {"--json"}),
            tiny_two_steps("fit"),
            {"parity", golden()},
            {"data", "tokenize", text, "--out", at("other")},
            {"data", "show", at("tokens")},
            {"data", "train-tokenizer", text, "--out", at("tokenizer.json"), "--vocab", "260"},
            {"export", small, at("exported")},
            {"generate", small, "--prompt", "int main", "--max-tokens", "3"},
            {"generate", small, "--ids", "1 2", "--max-tokens", "3", "--json"},
            {"eval", small, "--text", text},
            {"report", run, "--out", at("page.html")},
            {"report", run, "--out", at("page.html"), "--json"},
            {"compare", "--help"},
            {"sweep", "--help"},
            {"ceilings", "--json"},
            {"serve", "--help"},
            {"catalog", "list", "--json"},
            {"ops"},
            {"ops", "--json"},
            {"keys"},
            {"keys", "--json"},
            {"hw"},
            {"hw", "show", "v6e"},
            {"plugins", "list"},
            {"doctor", "--only", "machine"},
            {"doctor", "--only", "flags", "--json"},
            {"--help"},
            {"--version"}};
  }

 private:
  static void prepare(const std::vector<std::string>& words) {
    const CommandResult result = testing_support::run_command(words);
    EXPECT_EQ(result.status, 0) << words[0] << "\n" << result.err;
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }

  const testing_support::TemporaryFolder folder_;
};

TEST(OutputTest, AFullDiskBehindStdoutIsE3001ForEveryCommand) {
  const EveryCommand every;
  std::set<std::string> tried;
  for (const std::vector<std::string>& words : every.lines()) {
    tried.insert(words[0]);
    const Ending ending = testing_support::run_child({.words = words, .out = "/dev/full"});
    EXPECT_EQ(ending.status, 1) << words[0];
    EXPECT_TRUE(has(ending.err, "error E3001") && has(ending.err, "No space left")) << words[0] << "\n" << ending.err;
  }
  for (const Command& command : all_commands()) EXPECT_TRUE(tried.contains(command.name)) << command.name;
}

TEST(OutputTest, AReaderThatLeftIsE3001AndNoSignal) {
  const base::ProgramEnd end =
      base::run_program({.words = {"sh", "-c", "(sleep 0.5; " MEGACPP_PROGRAM " ops; echo status $? >&2) | true"}});
  testing_support::expect_contract({"ops"}, {.status = 1, .err = end.output});
  EXPECT_TRUE(has(end.output, "error E3001")) << end.output;
  EXPECT_TRUE(end.output.ends_with("status 1\n")) << end.output;
}

TEST(OutputTest, TrainingGoesOnWhenStderrIsOnAFullDisk) {
  const Ending ending = testing_support::run_child({.words = tiny_two_steps("train", {"--json"}), .err = "/dev/full"});
  EXPECT_EQ(ending.status, 0);
  EXPECT_EQ(Json::parse(ending.out)["losses"].size(), 2u);
}

// The catalog would take the number of a closed stream, and get the messages.
TEST(OutputTest, MessagesForAClosedStreamReachNoFile) {
  const testing_support::TemporaryFolder folder;
  const std::string catalog = (folder / "catalog.sqlite").string();
  const std::vector<std::string> words = tiny_two_steps("train", {"--catalog", catalog});
  EXPECT_EQ(testing_support::run_child({.words = words, .after = "<&- 2>&-"}).status, 0);
  const Ending no_stdout = testing_support::run_child({.words = words, .after = "<&- >&-"});
  EXPECT_EQ(no_stdout.status, 1);
  EXPECT_TRUE(has(no_stdout.err, "error E3001")) << no_stdout.err;
  const CommandResult listed = testing_support::run_command({"catalog", "list", "--catalog", catalog});
  EXPECT_EQ(listed.status, 0) << listed.err;
  EXPECT_TRUE(has(listed.out, "nam52-tiny")) << listed.out;
}

// Each is a place where a file of the same name would be wrong.
TEST(OutputTest, DevicesFifosAndLinksAreWrittenThrough) {
  const testing_support::TemporaryFolder folder;
  EXPECT_EQ(testing_support::run_command(tiny_two_steps("train", {"--trace", "/dev/null"})).status, 0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));

  base::write_file_atomically(folder / "page.html", "old");
  std::filesystem::create_symlink("page.html", folder / "link.html");
  EXPECT_EQ(testing_support::run_command(tiny_two_steps("plan", {"--html", (folder / "link.html").string()})).status,
            0);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.html"));
  EXPECT_TRUE(has(base::read_file(folder / "page.html"), "<html")) << "the file behind the link";

  const std::string fifo = (folder / "fifo").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = base::run_program({.words = {"cat", fifo}}).output; });
  // Its reader may not have opened it yet; without one it is refused.
  CommandResult result{.status = 1, .out = "", .err = ""};
  for (int i = 0; i < 100 && result.status == 1; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    result = testing_support::run_command(tiny_two_steps("plan", {"--html", fifo}));
  }
  EXPECT_EQ(result.status, 0) << result.err;
  reader.join();
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  EXPECT_TRUE(has(read, "<html"));
  EXPECT_TRUE(has(testing_support::run_command(tiny_two_steps("plan", {"--html", fifo})).err, "error E3001"))
      << "no reader";
}

TEST(OutputTest, ATraceThatCannotBeWrittenIsRefusedBeforeStepZero) {
  const testing_support::TemporaryFolder folder;
  for (const std::string& path : {(folder / "no/such/trace.json").string(), folder.path().string()}) {
    const CommandResult result = testing_support::run_command(tiny_two_steps("train", {"--trace", path}));
    EXPECT_EQ(result.status, 1);
    EXPECT_TRUE(has(result.err, "error E3001")) << result.err;
    EXPECT_FALSE(has(result.err, "step ")) << result.err;
    EXPECT_EQ(result.out, "");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_EQ(testing_support::run_command(tiny_two_steps("train", {"--trace", (folder / "trace.json").string()})).status,
            0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "only the trace";
}

// Also where a command has printed its report before it fails.
TEST(OutputTest, AFailingCommandSaysItsErrorAsJson) {
  for (const std::vector<std::string>& words :
       {tiny_two_steps("train", {"--json", "--set", "train.batch=0"}),
        tiny_two_steps("train", {"--json", "--set", "hardware.limit=1MiB"}),
        tiny_two_steps("plan", {"--json", "--set", "hardware.limit=1MiB"}),
        tiny_two_steps("fit", {"--json", "--hardware", "host:0"}),
        tiny_two_steps("compile", {"--json", "--dump-dir", "/proc/no/such"}),
        std::vector<std::string>{"keys", "--json", "--jsn"}, std::vector<std::string>{"parity", "/no/such", "--json"},
        std::vector<std::string>{"catalog", "show", "999999", "--json"}}) {
    const CommandResult result = testing_support::run_command(words);
    EXPECT_NE(result.status, 0) << words[0];
    const Json error = Json::parse(result.out)["error"];
    EXPECT_EQ(error["exit_status"], result.status) << result.out;
    EXPECT_TRUE(has(result.err, "error " + error["code"].get<std::string>())) << result.err;
  }
  const Json plan =
      Json::parse(testing_support::run_command(tiny_two_steps("plan", {"--json", "--set", "hardware.limit=1MiB"})).out);
  EXPECT_EQ(plan["name"], "nam52-tiny") << "the plan is there beside the error";
}

TEST(OutputTest, KeysAreListedAsJson) {
  const Json keys = Json::parse(testing_support::run_command({"keys", "--json"}).out)["keys"];
  EXPECT_GT(keys.size(), 50u);
  bool found = false;
  for (const Json& key : keys) {
    EXPECT_FALSE(key["meaning"].get<std::string>().empty()) << key;
    EXPECT_EQ(key["required"].get<bool>(), key["default"].is_null()) << key;
    if (key["key"] == "train.batch") found = key["kind"] == "an integer" && !key["range"].get<std::string>().empty();
  }
  EXPECT_TRUE(found) << "train.batch";
}

}  // namespace
}  // namespace megacpp::cli
