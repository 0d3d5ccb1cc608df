// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "megacpp/machine/collectives/flight/flight_recorder.h"
#include "megacpp/machine/collectives/transport.h"
#include "tests/support/command_line.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::cli {
namespace {

using testing_support::run_command;

/// Two chips in one call; a third never came to it.
void leave_record(const std::filesystem::path& run) {
  const auto world = collectives::inproc_transport().make({.chips = 3, .wait_limit = std::chrono::milliseconds(20)});
  collectives::FlightRecorder record(
      {.file = collectives::flight_file(run, 0), .process = 0, .host = "node7", .chips = 3});
  std::vector<std::thread> threads;
  for (const int64_t number : world->local_chips())
    threads.emplace_back([&, number] {
      collectives::Communicator& chip = record.recorded(world->communicator(number));
      std::vector<float> buffer(8);
      const collectives::Group& group = chip.create_group({0, 1, 2});
      for (const char* where : {"block00.sum", "block01.sum"}) {
        if (number == 2 && std::string(where) == "block01.sum") return;
        const collectives::Call sum = {.kind = collectives::Kind::all_reduce,
                                       .group = &group,
                                       .parts = {{.in = buffer.data(), .out = buffer.data(), .shape = {8}}},
                                       .where = where};
        try {
          chip.run(sum, collectives::kHostThread);
        } catch (const base::Error&) {
          return;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(FlightCommandTest, ShowsWhoDidNotCome) {
  const testing_support::TemporaryFolder folder;
  base::write_file_atomically(folder / "recipe.yaml", "name: failed\n");
  leave_record(folder.path());
  const auto shown = run_command({"flight", "show", folder.path().string()});
  EXPECT_EQ(shown.status, 0) << shown.err;
  for (const char* part : {"first difference: call 1 of its group, all_reduce of 32 bytes in block01.sum",
                           "missing   chip 2 (process 0 on node7)", "in flight for "})
    EXPECT_NE(shown.out.find(part), std::string::npos) << shown.out;
  const auto json =
      base::parse_json(run_command({"flight", "show", folder.path().string(), "--json", "--calls", "2"}).out,
                       base::Code::E9001, "flight");
  EXPECT_EQ(json["first_difference"]["missing"][0], 2);
  EXPECT_EQ(json["chips"].size(), 3u);
  EXPECT_EQ(json["chips"][0]["calls"].size(), 2u);
}

TEST(FlightCommandTest, ARunWithoutARecordIsRefused) {
  const testing_support::TemporaryFolder folder;
  base::write_file_atomically(folder / "recipe.yaml", "name: fine\n");
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, std::vector<std::string>{"--before"}}) {
    std::vector<std::string> words = {"flight", "show", folder.path().string()};
    words.insert(words.end(), more.begin(), more.end());
    const auto refused = run_command(words);
    EXPECT_EQ(refused.status, 2);
    EXPECT_NE(refused.err.find("E1206"), std::string::npos) << refused.err;
  }
}

}  // namespace
}  // namespace megacpp::cli
