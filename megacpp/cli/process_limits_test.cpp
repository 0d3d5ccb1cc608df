// SPDX-License-Identifier: Apache-2.0
// What a run takes from its process beside the plan: named where it suffices, refused where a limit forbids it.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/cli/json.h"
#include "megacpp/cli/process_memory.h"
#include "tests/support/child_command.h"
#include "tests/support/command_line.h"
#include "tests/support/text.h"

namespace megacpp::cli {
namespace {

using testing_support::Ending;
using testing_support::has;

std::vector<std::string> small_run(const std::vector<std::string>& settings,
                                   const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {"train.batch=2", "train.steps=2", "train.threads=2"};
  all.insert(all.end(), settings.begin(), settings.end());
  return testing_support::on_recipe("train", "nam52-tiny.yaml", all, more);
}

// Row "resident memory 1.5-2.1x the plan".
TEST(ProcessLimitsTest, PlanAndNamedBytesAreWhatTheSystemCounts) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers map for themselves";
#endif
  for (const std::vector<std::string>& settings :
       {std::vector<std::string>{"model.depth=2", "train.sequence=32"}, std::vector<std::string>{"train.sequence=256"},
        std::vector<std::string>{"model.depth=2", "train.sequence=128", "layout.data_parallel=2"}}) {
    const std::vector<std::string> words = small_run(settings, {"--json"});
    const Ending ending = testing_support::run_child({.words = words});
    const Json process = Json::parse(ending.out)["process"];
    const double counted = process["peak_bytes"];
    const double explained = process["planned_bytes"].get<double>() + process["named_bytes"].get<double>();
    EXPECT_NEAR(explained, counted, 0.1 * counted) << process;
    for (const char* part : {"planned_bytes", "code_bytes", "stack_bytes", "heap_bytes"})
      EXPECT_GT(process[part], 0) << part;
  }
}

TEST(ProcessLimitsTest, TheSummaryNamesTheProcessesOwnBytes) {
  const std::string line = to_text(ProcessBytes{
      .counted =
          {.code = 3 << 20, .stacks = 1 << 20, .heap = 2 << 20, .mapped = 50 << 20, .released = 0, .peak = 56 << 20},
      .planned = 40 << 20});
  EXPECT_EQ(
      line,
      "process: at most 56.00 MiB resident: 40.00 MiB planned, 3.00 MiB code and libraries, 1.00 MiB thread stacks, "
      "2.00 MiB heap, 10.00 MiB buffers and large lists, 0 B released before the end\n");
}

// Rows "ulimit -v 200000 hangs in OpenBLAS's allocator" and "at 80000 E9001".
TEST(ProcessLimitsTest, LimitsOnAddressSpaceAreErrorsAndNoHangs) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need the address space";
#endif
  int refused = 0;
  for (const int kibibytes : {80'000, 110'000, 140'000, 170'000, 200'000, 230'000, 260'000, 300'000}) {
    const Ending ending = testing_support::run_child({.words = small_run({}),
                                                      .before = "ulimit -v " + std::to_string(kibibytes) + ";",
                                                      .time_limit = std::chrono::seconds(60)});
    if (testing_support::is_not_started(ending)) continue;
    const bool says_so = has(ending.err, "error E2005") || has(ending.err, "error E3002");
    EXPECT_TRUE(ending.status == 0 || says_so) << kibibytes << ": status " << ending.status << "\n" << ending.err;
    refused += says_so ? 1 : 0;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace megacpp::cli
