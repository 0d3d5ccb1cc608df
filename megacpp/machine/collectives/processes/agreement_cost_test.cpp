// SPDX-License-Identifier: Apache-2.0
// What an agreement of many processes costs in letters, counted where they are sent; and by arithmetic for more of them
// than one machine can run.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "megacpp/machine/collectives/processes/gather_rounds.h"
#include "megacpp/machine/collectives/processes/process_world.h"
#include "tests/support/errors.h"
#include "tests/support/memory_endpoint.h"

namespace megacpp::collectives {
namespace {

using testing_support::MemoryEndpoint;
using testing_support::PostOffice;

int64_t log2_up(int64_t count) {
  int64_t rounds = 0;
  while ((int64_t{1} << rounds) < count) ++rounds;
  return rounds;
}

constexpr int64_t kOwnAgreements = 3;  // of letters_of(): two to make a world, one to leave it

/// body(world, process) in a thread for each; returns the letters that each has sent.
std::vector<int64_t> letters_of(int64_t processes, const std::function<void(World& world, int64_t process)>& body) {
  const auto office = std::make_shared<PostOffice>(processes);
  ProcessWorld::Options options{.properties = {.name = "test", .has_fixed_order_sums = true},
                                .owners = std::vector<int64_t>(static_cast<size_t>(processes)),
                                .wait_limit = std::chrono::minutes(1)};
  std::iota(options.owners.begin(), options.owners.end(), int64_t{0});
  std::vector<std::thread> threads;
  for (int64_t process = 0; process < processes; ++process)
    threads.emplace_back([&, process] {
      ProcessWorld world(options, std::make_unique<MemoryEndpoint>(office, process));
      body(world, process);
      world.share("end", "");  // no world goes while another still needs it
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<int64_t> letters;
  for (int64_t process = 0; process < processes; ++process) letters.push_back(office->box(process).sent);
  return letters;
}

TEST(AgreementCostTest, LettersGrowWithTheLogarithmOfProcesses) {
  for (const int64_t processes : {1, 2, 5, 8, 64}) {
    const std::vector<Field> fields(200, Field{"key", "the same everywhere"});
    const std::vector<int64_t> letters =
        letters_of(processes, [&](World& world, int64_t) { world.agree_same("recipe", fields); });
    for (const int64_t sent : letters) EXPECT_EQ(sent, (kOwnAgreements + 1) * log2_up(processes)) << processes;
  }
}

// A launch ends with its error, and the world with it, while others are still on their way to theirs.
TEST(AgreementCostTest, WhoEndsAtOnceLeavesTheWholeAnswerToAll) {
  constexpr int64_t kProcesses = 5;
  for (int round = 0; round < 20; ++round) {
    const auto office = std::make_shared<PostOffice>(kProcesses);
    std::vector<std::thread> threads;
    for (int64_t process = 0; process < kProcesses; ++process)
      threads.emplace_back([&, process] {
        ProcessWorld world({.properties = {.name = "test", .has_fixed_order_sums = true},
                            .owners = {0, 1, 2, 3, 4},
                            .wait_limit = std::chrono::minutes(1)},
                           std::make_unique<MemoryEndpoint>(office, process));
        const std::vector<Field> fields = {{"train.batch", process == 2 ? "4" : "8"}};
        const base::Problem problem =
            testing_support::problem_of(base::Code::E3103, [&] { world.agree_same("recipe", fields); });
        EXPECT_NE(problem.got.find("process 2 on host"), std::string::npos) << problem.got;
        world.abort(process, "processes do not agree");
      });
    for (std::thread& thread : threads) thread.join();
  }
}

// Members compute a group's number from its chips: making groups sends nothing, of however many processes.
TEST(AgreementCostTest, GroupsCostNoLetters) {
  const std::vector<int64_t> letters = letters_of(64, [](World& world, int64_t process) {
    Communicator& chip = world.communicator(process);
    std::vector<int64_t> all(64);
    std::iota(all.begin(), all.end(), int64_t{0});
    chip.create_group(all);
    chip.create_group({process / 2 * 2, process / 2 * 2 + 1});
  });
  for (const int64_t sent : letters) EXPECT_EQ(sent, kOwnAgreements * log2_up(64));
}

TEST(AgreementCostTest, OneOf64ThatDiffersIsNamedOnAllOfThem) {
  letters_of(64, [](World& world, int64_t process) {
    const std::vector<Field> fields = {{"train.batch", process == 37 || process == 40 ? "4" : "8"},
                                       {"train.seed", "1"}};
    const base::Problem problem =
        testing_support::problem_of(base::Code::E3103, [&] { world.agree_same("recipe", fields); });
    EXPECT_EQ(problem.got, "process 37 on host4 (chips 37 to 37) and 1 more: train.batch 4");
    EXPECT_EQ(problem.wanted, "the same as process 0 on host0 (chips 0 to 0): train.batch 8");
  });
}

// Every process has as many statements as its letters brought, and those of the next processes downwards: so counting
// is enough to see that all have all.
TEST(AgreementCostTest, TenThousandProcessesNeedFourteenLettersEach) {
  for (const int64_t processes : {int64_t{1}, int64_t{3}, int64_t{64}, int64_t{4096}, int64_t{10000}}) {
    const std::vector<GatherRound> rounds = gather_rounds(processes);
    EXPECT_EQ(static_cast<int64_t>(rounds.size()), log2_up(processes));
    int64_t known = 1;
    for (const GatherRound& round : rounds) {
      EXPECT_EQ(round.distance, known) << "the next statement downwards is that of the sender";
      EXPECT_LE(round.blocks, known);
      known += round.blocks;
    }
    EXPECT_EQ(known, processes);
  }
  EXPECT_EQ(gather_rounds(10000).size(), 14u);
}

}  // namespace
}  // namespace megacpp::collectives
