// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "megacpp/core/base/file.h"
#include "megacpp/machine/collectives/flight/flight_recorder.h"
#include "megacpp/machine/collectives/flight/flight_report.h"
#include "megacpp/machine/collectives/transport.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::collectives {
namespace {

Call sum_at(const Group& group, std::vector<float>& buffer, std::string where) {
  return {.kind = Kind::all_reduce,
          .group = &group,
          .parts = {{.in = buffer.data(), .out = buffer.data(), .shape = {8}}},
          .where = std::move(where)};
}

class FlightTest : public testing::Test {
 protected:
  std::unique_ptr<FlightRecorder> recorder(int64_t chips) const {
    return std::make_unique<FlightRecorder>(
        FlightRecorder::Options{.file = flight_file(folder_.path(), 1), .process = 1, .host = "node7", .chips = chips});
  }

  /// chip(communicator) in a thread for each chip of a mesh.
  static void run_chips(World& world, FlightRecorder& recorder, const std::function<void(Communicator&)>& chip) {
    std::vector<std::thread> threads;
    for (const int64_t number : world.local_chips())
      threads.emplace_back([&, number] { chip(recorder.recorded(world.communicator(number))); });
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<ChipFlight> flights() const { return read_flights(folder_ / kFlightFolder); }

  const testing_support::TemporaryFolder folder_;
};

TEST_F(FlightTest, ARunThatEndsInOrderLeavesNoFile) {
  const auto world = inproc_transport().make({.chips = 2});
  {
    const auto record = recorder(2);
    run_chips(*world, *record, [](Communicator& chip) {
      std::vector<float> buffer(8, 1.0f);
      const Call sum = sum_at(chip.create_group({0, 1}), buffer, "block00.sum");
      for (int i = 0; i < 300; ++i) chip.run(sum, kHostThread);  // more than a record holds
    });
    const std::vector<ChipFlight> while_running = flights();
    ASSERT_EQ(while_running.size(), 2u);
    EXPECT_EQ(while_running[0].host, "node7");
    EXPECT_EQ(while_running[0].process, 1);
    ASSERT_EQ(static_cast<int64_t>(while_running[0].calls.size()), kFlightCalls);
    EXPECT_EQ(while_running[0].calls.back().number, 300);
    EXPECT_EQ(while_running[0].calls.back().sequence, 299);
    EXPECT_GT(while_running[0].calls.back().finished, 0);
    EXPECT_STREQ(while_running[0].calls.back().what, "all_reduce of 32 bytes in block00.sum");
    EXPECT_FALSE(first_difference(while_running).has_value());
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / kFlightFolder));
}

TEST_F(FlightTest, TheChipThatDidNotComeIsNamed) {
  const auto world = inproc_transport().make({.chips = 3, .wait_limit = std::chrono::milliseconds(50)});
  {
    const auto record = recorder(3);
    run_chips(*world, *record, [](Communicator& chip) {
      std::vector<float> buffer(8, 1.0f);
      const Group& group = chip.create_group({0, 1, 2});
      chip.run(sum_at(group, buffer, "block00.sum"), kHostThread);
      if (chip.rank() == 1) return;
      EXPECT_THROW(chip.run(sum_at(group, buffer, "block01.sum"), kHostThread), base::Error);
    });
  }
  const std::optional<FlightDifference> first = first_difference(flights());
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->what, "all_reduce of 32 bytes in block01.sum");
  EXPECT_EQ(first->sequence, 1);
  EXPECT_EQ(first->came, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(first->missing, std::vector<int64_t>{1});
  EXPECT_TRUE(first->others.empty());
}

// Every row of the record has held a call that was finished.
TEST_F(FlightTest, TheChipThatDidNotComeIsNamedAfterMoreCallsThanARecordHolds) {
  constexpr int64_t kCalls = kFlightCalls + 44;
  const auto world = inproc_transport().make({.chips = 3});
  std::barrier all_made_their_calls(3);
  {
    const auto record = recorder(3);
    run_chips(*world, *record, [&](Communicator& chip) {
      std::vector<float> buffer(8, 1.0f);
      const Group& group = chip.create_group({0, 1, 2});
      for (int64_t i = 0; i < kCalls; ++i) chip.run(sum_at(group, buffer, "block00.sum"), kHostThread);
      all_made_their_calls.arrive_and_wait();
      if (chip.rank() == 1)
        chip.abort("it ended");
      else
        EXPECT_THROW(chip.run(sum_at(group, buffer, "block01.sum"), kHostThread), base::Error);
    });
  }
  const std::optional<FlightDifference> first = first_difference(flights());
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->what, "all_reduce of 32 bytes in block01.sum");
  EXPECT_EQ(first->sequence, kCalls);
  EXPECT_EQ(first->came, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(first->missing, std::vector<int64_t>{1});
}

TEST_F(FlightTest, AChipThatCalledSomethingElseIsNamed) {
  const auto world = inproc_transport().make({.chips = 2});
  {
    const auto record = recorder(2);
    run_chips(*world, *record, [](Communicator& chip) {
      std::vector<float> buffer(8, 1.0f);
      const std::string where = chip.rank() == 0 ? "block00.sum" : "block07.sum";
      EXPECT_THROW(chip.run(sum_at(chip.create_group({0, 1}), buffer, where), kHostThread), base::Error);
    });
  }
  const std::optional<FlightDifference> first = first_difference(flights());
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->came.size(), 1u);
  EXPECT_EQ(first->others.size(), 1u);
  EXPECT_NE(first->what, first->other_what);
}

TEST_F(FlightTest, AKilledProcessLeavesItsRecord) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto world = inproc_transport().make({.chips = 1});
    const auto record = recorder(1);
    Communicator& chip = record->recorded(world->communicator(0));
    std::vector<float> buffer(8, 1.0f);
    chip.run(sum_at(chip.create_group({0}), buffer, "block00.sum"), kHostThread);
    ::raise(SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  ASSERT_EQ(flights().size(), 1u);
  EXPECT_EQ(flights()[0].calls.size(), 1u);
}

TEST_F(FlightTest, ARecordThatIsShortenedCostsTheRunNothing) {
  const auto world = inproc_transport().make({.chips = 1});
  const auto record = recorder(1);
  Communicator& chip = record->recorded(world->communicator(0));
  std::filesystem::resize_file(flight_file(folder_.path(), 1), 0);
  std::vector<float> buffer(8, 1.0f);
  const Call sum = sum_at(chip.create_group({0}), buffer, "block00.sum");
  for (int i = 0; i < 300; ++i) chip.run(sum, kHostThread);
  record->keep();
  EXPECT_EQ(testing_support::problem_of(base::Code::E1008, [&] { flights(); }).got, "0 bytes");
}

TEST_F(FlightTest, WhatIsNoRecordIsRefused) {
  EXPECT_EQ(testing_support::problem_of(base::Code::E1206, [&] { flights(); }).got, "no flight record");
  base::make_folder(folder_ / kFlightFolder);
  base::write_file_atomically(flight_file(folder_.path(), 0), "x");
  EXPECT_EQ(testing_support::problem_of(base::Code::E1008, [&] { flights(); }).got, "1 bytes");
  base::write_file_atomically(flight_file(folder_.path(), 0), std::string(4096, 'x'));
  EXPECT_EQ(testing_support::problem_of(base::Code::E1008, [&] { flights(); }).got, "no flight record");
  FlightHead head;
  std::memcpy(head.format, kFlightFormat, std::strlen(kFlightFormat));
  head.chips = 1000000;
  base::write_file_atomically(flight_file(folder_.path(), 0),
                              std::string_view(reinterpret_cast<const char*>(&head), sizeof(head)));
  EXPECT_EQ(testing_support::problem_of(base::Code::E1008, [&] { flights(); }).got, "a record that is cut off");
}

TEST_F(FlightTest, AFileThatCannotBeMadeIsSaid) {
  const FlightRecorder::Options options{
      .file = "/dev/null/flight/process-00000", .process = 0, .host = "a", .chips = 1};
  testing_support::problem_of(base::Code::E3001, [&] { FlightRecorder record(options); });
}

}  // namespace
}  // namespace megacpp::collectives
