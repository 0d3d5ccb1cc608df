// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/core/base/file.h"
#include "tests/support/command_line.h"
#include "tests/support/environment.h"

namespace megacpp::cli {
namespace {

namespace fs = std::filesystem;
using Result = testing_support::CommandResult;
using testing_support::Variable;

/// With a cache and a configuration of its own, in which this machine is measured once.
class HwCommandTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder() = fs::temp_directory_path() / ("megacpp_hw_command_" + std::to_string(getpid()));
    fs::create_directories(folder() / "config/megacpp/hw");
  }
  static void TearDownTestSuite() { fs::remove_all(folder()); }
  static fs::path& folder() {
    static fs::path folder;
    return folder;
  }

  Result hw(std::vector<std::string> words) {
    words.insert(words.begin(), "hw");
    return testing_support::run_command(words);
  }
  Json hw_json(std::vector<std::string> words) {
    words.push_back("--json");
    const Result result = hw(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return Json::parse(result.out);
  }

  const Variable cache_{"XDG_CACHE_HOME", (folder() / "cache").string()};
  const Variable config_{"XDG_CONFIG_HOME", (folder() / "config").string()};
  const Variable path_{"MEGACPP_HW_PATH", ""};
};

TEST_F(HwCommandTest, ListsEveryChipAndThisMachine) {
  const Result text = hw({});
  EXPECT_EQ(text.status, 0) << text.err;
  for (const char* part : {"v5e", "v5p", "v6e", "tpu7x", "a100", "h100", "h200", "b200", "host", "33546039296",
                           "nodes of 8", "16x16", "cubes of 4 up to 6144 chips", "ici 400", "built in", "measured"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  const Json json = hw_json({});
  EXPECT_EQ(json["hardware"].size(), 9U);
  EXPECT_EQ(json["hardware"].back()["name"], "host");
}

TEST_F(HwCommandTest, ListsBackendsWithWhereTheyRun) {
  const Result text = hw({});
  for (const char* part :
       {"backend cpu: our own kernels", "backend xla: XLA", "backend cuda: our own kernels", "runs on    host\n",
        "runs on    host, gpu, tpu", "runs on    gpu\n", "inproc, sums in a fixed order, ordered on the host"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  const Json backends = hw_json({})["backends"];
  ASSERT_EQ(backends.size(), 3U);
  EXPECT_EQ(backends[0]["name"], "cpu");
  EXPECT_EQ(backends[0]["usable"], true);
  EXPECT_EQ(backends[0]["transports"][0]["ordering"], "host");
  for (const Json& backend : backends) EXPECT_NE(backend["usable"], backend["why_not"].is_string()) << backend;
}

TEST_F(HwCommandTest, ShowsEveryNumberWithItsSource) {
  const Result text = hw({"show", "v6e"});
  EXPECT_EQ(text.status, 0) << text.err;
  for (const char* part : {"Trillium", "memory.usable", "33546039296", "tiles.rows.16", "links.ici.bytes_per_second",
                           "docs.cloud.google.com/tpu/docs/v6e", "2026-11-15", "libtpu 0.0.48.1"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  const Json json = hw_json({"show", "v6e"});
  EXPECT_EQ(json["memory"]["usable"], 33'546'039'296);
  EXPECT_EQ(json["tiles"]["tall_rows"]["8"], 32);
  for (const Json& number : json["numbers"]) {
    EXPECT_FALSE(number["source"].get<std::string>().empty()) << number;
    EXPECT_FALSE(number["date"].get<std::string>().empty()) << number;
  }
  EXPECT_TRUE(hw_json({"show", "h100"})["tiles"].is_null());
  EXPECT_EQ(hw({"--json", "show", "v6e"}).out, hw({"show", "v6e", "--json"}).out);
}

TEST_F(HwCommandTest, ShowsASlice) {
  const Json slice = hw_json({"show", "v6e:8x16"})["slice"];
  EXPECT_EQ(slice["chips"], 128);
  EXPECT_EQ(slice["hosts"], 32);
  EXPECT_EQ(slice["dimensions"][0]["ring"], false);
  EXPECT_EQ(slice["dimensions"][1]["links"], 16);
  EXPECT_NE(hw({"show", "v6e:8x16"}).out.find("dimension 1: 16 chips, a ring, 16 links"), std::string::npos);
}

TEST_F(HwCommandTest, CountsTheBytesOfATensor) {
  const Result compact = hw({"bytes", "v6e", "bf16", "16,1280,40"});
  EXPECT_EQ(compact.status, 0) << compact.err;
  EXPECT_EQ(compact.out, "bf16[16,1280,40]{1,2,0:T(8,128)(2,1)}\n1638400 bytes, 1.56 MiB\n");
  const Result forced = hw({"bytes", "v6e", "bf16", "16,1280,40", "--layout", "2,1,0"});
  EXPECT_NE(forced.out.find("5242880 bytes"), std::string::npos) << forced.out;
  EXPECT_NE(forced.out.find("1638400 without padding, 3.20 times as much"), std::string::npos) << forced.out;
  const Json json = hw_json({"bytes", "v6e", "s8", "448,2048"});
  EXPECT_EQ(json["layout"], "s8[448,2048]{1,0:T(32,128)(4,1)}");
  EXPECT_EQ(json["bytes"], 917'504);
  EXPECT_EQ(hw_json({"bytes", "v6e", "f32", ""})["bytes"], 512);
  EXPECT_EQ(hw_json({"bytes", "host", "f32", "3"})["bytes"], 64);
}

TEST_F(HwCommandTest, MeasuresThisMachineAndKeepsIt) {
  const Json rates = hw_json({"measure"});
  EXPECT_GT(rates["matrix_flops"].get<double>(), 1e8);
  EXPECT_TRUE(fs::exists(folder() / "cache/megacpp/host-rates.json"));
  const Json host = hw_json({"show", "host:2"});
  EXPECT_NEAR(host["peak_flops"]["f32"].get<double>(), rates["matrix_flops"].get<double>() / 2, 1);
  EXPECT_EQ(host["slice"]["chips"], 2);
}

TEST_F(HwCommandTest, AFileOfTheUsersIsListedAndUsed) {
  const fs::path file = folder() / "config/megacpp/hw/ours.yaml";
  base::write_file_atomically(file, "extends: v6e\nmemory: {usable: 30GiB}\n");
  EXPECT_EQ(hw_json({})["hardware"].size(), 10U);
  EXPECT_EQ(hw_json({"show", "ours:2x2"})["memory"]["usable"], int64_t{30} << 30);
  EXPECT_EQ(hw_json({"bytes", file.string(), "bf16", "16,1280,40"})["bytes"], 1'638'400);
  fs::remove(file);
}

TEST_F(HwCommandTest, AFileThatIsNoGoodIsARowOfItsOwn) {
  const fs::path file = folder() / "config/megacpp/hw/broken.yaml";
  base::write_file_atomically(file, "extends: v6e\nmemroy: {usable: 30GiB}\n");
  const Result list = hw({});
  EXPECT_EQ(list.status, 0) << list.err;
  for (const std::string& part : {std::string("v6e "), "error E1603 " + file.string() + ":2: 'memroy' in the file"})
    EXPECT_NE(list.out.find(part), std::string::npos) << part << "\n" << list.out;
  const Json rows = hw_json({})["hardware"];
  EXPECT_EQ(rows.size(), 10U);
  for (const Json& row : rows) {
    ASSERT_EQ(row.contains("error"), row["name"] == "broken") << row;
    if (!row.contains("error")) continue;
    EXPECT_EQ(row["error"]["where"], file.string() + ":2");
  }
  const Result shown = hw({"show", "broken"});
  EXPECT_EQ(shown.status, 2);
  EXPECT_NE(shown.err.find("error E1603"), std::string::npos) << shown.err;
  fs::remove(file);
}

TEST_F(HwCommandTest, MistakesAreOneMessageAndStatusTwo) {
  const fs::path bad = folder() / "bad.yaml";
  base::write_file_atomically(bad, "extends: v6e\nmemory: {usble: 30GiB}\n");
  struct Row {
    std::vector<std::string> words;
    std::string code, said;
  };
  const std::vector<Row> rows = {
      {{"show", "v6"}, "E1601", "did you mean 'v6e'?"},
      {{"show", "v6e:3x5"}, "E1602", "take v6e:4x4, v6e:2x4 or v6e:4x8"},
      {{"show", "h100:12"}, "E1602", "take h100:8 or h100:16"},
      {{"show", bad.string()}, "E1603", "bad.yaml:2"},
      {{"show", "/no/such.yaml"}, "E1008", "/no/such.yaml"},
      {{"show"}, "E1007", "see megacpp hw show --help"},
      {{"shw", "v6e"}, "E1007", "did you mean 'show'?"},
      {{"bytes", "v6e", "bf61", "16"}, "E1604", "did you mean"},
      {{"bytes", "v6e", "bf16", "16x40"}, "E1604", "16x40"},
      {{"bytes", "v6e", "bf16", "16,,40"}, "E1604", "16,,40"},
      {{"bytes", "v6e", "bf16", "16,"}, "E1604", "16,"},
      {{"bytes", "v6e", "bf16", "16,40", "--layout", "0,0"}, "E1604", "row-major is 1,0"},
      {{"bytes", "v6e", "bf16", "16,40", "--layout", ""}, "E1604", "row-major is 1,0"},
      {{"bytes", "v6e", "bf16", "99999999999,99999999999"}, "E1604", "2^50"},
      {{"bytes", "v6e", "bf16"}, "E1007", "SHAPE"},
      {{"measure", "--jsn"}, "E1007", "did you mean '--json'?"},
  };
  for (const Row& row : rows) {
    const Result result = hw(row.words);
    EXPECT_EQ(result.status, 2) << row.said;
    EXPECT_NE(result.err.find("error " + row.code), std::string::npos) << result.err;
    EXPECT_NE(result.err.find(row.said), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("next:"), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "") << row.said;
  }
}

TEST_F(HwCommandTest, ACacheThatCannotBeWrittenEndsMeasuringWithStatusOne) {
  base::write_file_atomically(folder() / "file", "x");
  const Variable cache("XDG_CACHE_HOME", (folder() / "file").string());
  const Result result = hw({"measure"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("error E3001"), std::string::npos) << result.err;
  EXPECT_EQ(hw({"show", "host"}).status, 0);
}

}  // namespace
}  // namespace megacpp::cli
