// SPDX-License-Identifier: Apache-2.0
// What only worlds over processes promise; calls and failures of chips are in communicator_conformance_test and
// communicator_failure_test.
#include "megacpp/machine/collectives/processes/process_world.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <functional>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "megacpp/machine/collectives/long_wait.h"
#include "tests/support/errors.h"
#include "tests/support/process_fleet.h"

namespace megacpp::collectives {
namespace {

using base::Code;
using testing_support::problem_of;

ProcessWorld::Options one_chip_each(int64_t processes) {
  ProcessWorld::Options options{.properties = {.name = "test", .has_fixed_order_sums = true},
                                .owners = {},
                                .wait_limit = std::chrono::minutes(1)};
  options.owners.resize(static_cast<size_t>(processes));
  std::iota(options.owners.begin(), options.owners.end(), int64_t{0});
  return options;
}

// body(world, process) in a thread for each process.
void run_processes(int64_t processes, const std::function<void(World& world, size_t process)>& body) {
  const auto worlds = testing_support::process_worlds(one_chip_each(processes));
  std::vector<std::thread> threads;
  for (size_t process = 0; process < worlds.size(); ++process)
    threads.emplace_back([&, process] { body(*worlds[process], process); });
  for (std::thread& thread : threads) thread.join();
}

TEST(ProcessWorldTest, AllProcessesGetWhatEachSays) {
  for (const int64_t processes : {1, 2, 3, 4, 5, 8})
    run_processes(processes, [processes](World& world, size_t process) {
      for (int64_t round = 0; round < 5; ++round) {
        const std::vector<std::string> all = world.share("text", std::string(process, 'x') + std::to_string(round));
        ASSERT_EQ(static_cast<int64_t>(all.size()), processes);
        for (size_t other = 0; other < all.size(); ++other)
          EXPECT_EQ(all[other], std::string(other, 'x') + std::to_string(round));
      }
      EXPECT_EQ(world.agree_min("bytes", 7 - static_cast<int64_t>(process)), 8 - processes);
      EXPECT_EQ(world.is_coordinator(), process == 0);
      EXPECT_EQ(world.has_all_chips(), processes == 1);
    });
}

TEST(ProcessWorldTest, ATextMayBeLongerThanAFrame) {
  run_processes(3, [](World& world, size_t process) {
    const std::vector<std::string> all = world.share("text", std::string((process + 1) * kFrameBytes, 'y'));
    for (size_t other = 0; other < all.size(); ++other) EXPECT_EQ(all[other].size(), (other + 1) * kFrameBytes);
  });
}

TEST(ProcessWorldTest, AFailedProcessEndsTheAgreementOfAll) {
  run_processes(3, [](World& world, size_t process) {
    if (process == 1) world.abort(1, "disk full");
    const base::Problem problem = problem_of(Code::E3101, [&] { world.agree_any("failed", false); });
    EXPECT_EQ(problem.got, "chip 1 failed: disk full");
    EXPECT_EQ(problem.next.find("chip 1 in process 1 on host1") != std::string::npos, process != 1) << problem.next;
  });
}

Call sum_of(const Group& group, std::vector<float>& buffer) {
  return {.kind = Kind::all_reduce,
          .group = &group,
          .parts = {{.in = buffer.data(), .out = buffer.data(), .shape = {8}}},
          .workspace = buffer.data() + 8,
          .where = "block03.sum"};
}

// Chip 0 in this process, chip 1 in a forked one, which does `last` when both have their worlds; or the other way
// round.
class TwoProcesses {
 public:
  TwoProcesses(std::chrono::milliseconds wait_limit, const std::function<void(World& world)>& last,
               std::chrono::milliseconds answer_limit = std::chrono::minutes(10), int64_t own = 0,
               std::optional<std::chrono::milliseconds> agreement_limit = {})
      : own_(own) {
    std::vector<std::unique_ptr<Endpoint>> endpoints = testing_support::joined_endpoints(2);
    ProcessWorld::Options options = one_chip_each(2);
    options.wait_limit = wait_limit;
    options.agreement_limit = agreement_limit;
    options.answer_limit = answer_limit;
    child_ = ::fork();
    if (child_ == 0) {
      endpoints[static_cast<size_t>(own)].reset();
      run_child(options, std::move(endpoints[static_cast<size_t>(1 - own)]), last);
    }
    endpoints[static_cast<size_t>(1 - own)].reset();
    world_ = std::make_unique<ProcessWorld>(options, std::move(endpoints[static_cast<size_t>(own)]));
  }
  ~TwoProcesses() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

  void stop_child() const {
    ::kill(child_, SIGSTOP);
    siginfo_t info = {};
    ::waitid(P_PID, static_cast<id_t>(child_), &info, WSTOPPED | WEXITED | WNOWAIT);
  }
  World& world() { return *world_; }
  Communicator& chip() { return world_->communicator(own_); }

 private:
  [[noreturn]] static void run_child(const ProcessWorld::Options& options, std::unique_ptr<Endpoint> endpoint,
                                     const std::function<void(World& world)>& last) {
    try {
      ProcessWorld world(options, std::move(endpoint));
      last(world);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    ::_exit(0);
  }

  const int64_t own_;
  pid_t child_ = 0;
  std::unique_ptr<ProcessWorld> world_;
};

TEST(ProcessWorldTest, AKilledProcessIsNamedWithWhatItWasNeededFor) {
  TwoProcesses processes(std::chrono::minutes(1), [](World& world) {
    std::vector<float> buffer(512, 1.0f);
    world.communicator(1).run(sum_of(world.communicator(1).create_group({0, 1}), buffer), kHostThread);
    ::raise(SIGKILL);
  });
  std::vector<float> buffer(512, 2.0f);
  const Call sum = sum_of(processes.chip().create_group({0, 1}), buffer);
  processes.chip().run(sum, kHostThread);
  EXPECT_EQ(buffer[0], 3.0f);
  const base::Problem problem = problem_of(Code::E3101, [&] { processes.chip().run(sum, kHostThread); });
  EXPECT_EQ(problem.where, "chip 0, block03.sum");
  EXPECT_EQ(problem.got,
            "chip 1 failed: process 1 on host1 (chip 1) is gone (connection closed) in all_reduce (sum) of f32[8] in "
            "block03.sum");
}

Call gather_of(const Group& group, std::vector<float>& buffer) {
  return {.kind = Kind::all_gather,
          .group = &group,
          .parts = {{.in = buffer.data(), .out = buffer.data() + 8, .shape = {8}}},
          .where = "block04.gather"};
}

// It has read what it needs and done its part; its own operand went with it.
TEST(ProcessWorldTest, AProcessThatEndsBeforeItsBuffersWereReadIsNamed) {
  TwoProcesses processes(std::chrono::minutes(1), [](World& world) {
    std::vector<float> buffer(24, 1.0f);
    const Call gather = gather_of(world.communicator(1).create_group({0, 1}), buffer);
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      ::raise(SIGKILL);
    }).detach();
    world.communicator(1).run(gather, kHostThread);
  });
  std::vector<float> buffer(24, 2.0f);
  const Call gather = gather_of(processes.chip().create_group({0, 1}), buffer);
  const Ticket ticket = processes.chip().start(gather, kHostThread);
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  const base::Problem problem = problem_of(Code::E3101, [&] { processes.chip().finish(ticket, kHostThread); });
  EXPECT_NE(problem.got.find("chip 1 failed: process 1 on host1 (chip 1) is gone ("), std::string::npos) << problem.got;
  EXPECT_NE(problem.got.find("in all_gather of f32[8] along 0 in block04.gather"), std::string::npos) << problem.got;
}

// Its process lives, and what it sends from cannot be read: as of a kernel that lacks memory, or buffers that are gone.
TEST(ProcessWorldTest, AProcessThatCannotBeReadIsNotSaidToBeGone) {
  constexpr size_t kBytes = 8 * sizeof(float);
  void* const nowhere = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(nowhere, MAP_FAILED);
  std::vector<float> buffer(8);
  const Call recv = {
      .kind = Kind::recv, .peer = 1, .parts = {{.out = buffer.data(), .shape = {8}}}, .where = "stage1.recv"};
  const Call send = {.kind = Kind::send, .peer = 0, .parts = {{.in = nowhere, .shape = {8}}}, .where = "stage0.send"};
  const auto worlds = testing_support::process_worlds(one_chip_each(2));  // first to go: the send is never finished
  ASSERT_EQ(worlds[0]->path_of_tensors(), "memory read");
  worlds[1]->communicator(1).start(send, kHostThread);
  const base::Problem problem = problem_of(Code::E3101, [&] { worlds[0]->communicator(0).run(recv, kHostThread); });
  EXPECT_EQ(problem.got,
            "chip 1 failed: process 1 on host1 (chip 1): its memory cannot be read: Bad address in recv from chip 1, "
            "tag 0 of f32[8] in stage1.recv");
  ::munmap(nowhere, kBytes);
}

// All have started the call, and one of them does not get to finish it.
TEST(ProcessWorldTest, AChipThatHangsBeforeItFinishesIsNamed) {
  for (const testing_support::Hosts hosts : {testing_support::Hosts::one, testing_support::Hosts::each_own}) {
    ProcessWorld::Options options = one_chip_each(2);
    options.wait_limit = std::chrono::milliseconds(100);
    std::vector<std::vector<float>> buffers(2, std::vector<float>(512, 1.0f));
    std::vector<Call> calls;
    const auto worlds = testing_support::process_worlds(options, hosts);  // first to go: one call is never finished
    for (const size_t chip : {0, 1})
      calls.push_back(
          sum_of(worlds[chip]->communicator(static_cast<int64_t>(chip)).create_group({0, 1}), buffers[chip]));
    worlds[1]->communicator(1).start(calls[1], kHostThread);
    const base::Problem problem =
        problem_of(Code::E3102, [&] { worlds[0]->communicator(0).run(calls[0], kHostThread); });
    EXPECT_EQ(problem.got, "waited 0.1 s for chip 1; chip 1 has in flight all_reduce (sum) of f32[8] in block03.sum");
  }
}

TEST(ProcessWorldTest, ThePathSaysHowTensorsGoFromProcessToProcess) {
  using testing_support::Hosts;
  for (const auto& [hosts, words] :
       {std::pair(Hosts::one, "memory read"), std::pair(Hosts::two, "memory read by 1 of 3 pairs"),
        std::pair(Hosts::each_own, "tensors sent")}) {
    const auto worlds = testing_support::process_worlds(one_chip_each(3), hosts);
    for (const auto& world : worlds)
      EXPECT_EQ(path_over_processes(*world), std::string(", 3 processes over test, ") + words + ", exact sums");
  }
}

TEST(ProcessWorldTest, AProcessThatIsStoppedDoesNotAnswer) {
  TwoProcesses processes(std::chrono::milliseconds(50), [](World&) { ::pause(); });
  processes.stop_child();
  std::vector<float> buffer(512, 1.0f);
  const Call sum = sum_of(processes.chip().create_group({0, 1}), buffer);
  const base::Problem problem = problem_of(Code::E3102, [&] { processes.chip().run(sum, kHostThread); });
  EXPECT_EQ(problem.got, "waited 0.05 s for chip 1; process 1 on host1 (chip 1) does not answer");
}

// The first process says which of several failures counts: one that does not answer is not waited for again.
TEST(ProcessWorldTest, AProcessThatIsCutOffFromTheFirstEndsSoon) {
  TwoProcesses processes(
      std::chrono::milliseconds(50), [](World&) { ::pause(); }, std::chrono::minutes(10), 1);
  processes.stop_child();
  std::vector<float> buffer(512, 1.0f);
  const Call sum = sum_of(processes.chip().create_group({0, 1}), buffer);
  const auto begin = std::chrono::steady_clock::now();
  const base::Problem problem = problem_of(Code::E3102, [&] { processes.chip().run(sum, kHostThread); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  EXPECT_EQ(problem.got, "waited 0.05 s for chip 0; process 0 on host0 (chip 0) does not answer");
}

// At start-up processes may compute for as long as they like, as long as they answer.
TEST(ProcessWorldTest, AnAgreementWithoutALimitEndsWithAProcessThatDoesNotAnswer) {
  TwoProcesses processes(
      std::chrono::hours(24), [](World&) { ::pause(); }, std::chrono::milliseconds(100));
  processes.stop_child();
  const base::Problem problem = problem_of(Code::E3102, [&] { processes.world().share("plan", ""); });
  EXPECT_EQ(problem.got, "waited 100 ms for process 1 on host1 (chip 1), which does not answer");
}

TEST(ProcessWorldTest, ASuccessorThatDoesNotAnswerIsNamed) {
  TwoProcesses processes(std::chrono::minutes(1), [](World&) { ::pause(); });
  EXPECT_EQ(processes.world().silent_successor(std::chrono::minutes(1)), std::nullopt);
  processes.stop_child();
  EXPECT_EQ(processes.world().silent_successor(std::chrono::milliseconds(100)), "process 1 on host1 (chip 1)");
}

TEST(ProcessWorldTest, AnAgreementWaitsForAProcessThatComputes) {
  constexpr std::chrono::milliseconds kAnswer(400);
  TwoProcesses processes(
      std::chrono::hours(24),
      [&](World& world) {
        std::this_thread::sleep_for(kAnswer + kAnswer / 2);
        world.share("plan", "late");
        ::pause();
      },
      kAnswer);
  EXPECT_EQ(processes.world().share("plan", ""), (std::vector<std::string>{"", "late"}));
}

// A run is loaded in its own world, whose calls have the limit of steps.
TEST(ProcessWorldTest, AnAgreementMayHaveMoreTimeThanACall) {
  constexpr std::chrono::milliseconds kCall(50);
  TwoProcesses processes(
      kCall,
      [&](World& world) {
        std::this_thread::sleep_for(12 * kCall);
        world.share("algorithms", "found");
        ::pause();
      },
      std::chrono::minutes(10), 0, std::chrono::hours(1));
  EXPECT_EQ(processes.world().share("algorithms", ""), (std::vector<std::string>{"", "found"}));
}

// One that hangs answers too, by the thread of its transport. It is the one after it that knows; those who wait for one
// that waits itself say nothing, and leave it the last word.
TEST(ProcessWorldTest, AProcessThatAnswersAndDoesNotComeIsSaidWhileItIsWaitedForAndThenNamed) {
  std::mutex mutex;
  std::vector<std::string> lines;
  const LongWaitListener before = listen_to_long_waits([&](const LongWait& wait) {
    const std::lock_guard lock(mutex);
    lines.push_back(wait.whom);
    EXPECT_GE(wait.waited, std::chrono::milliseconds(400));
  });
  ProcessWorld::Options options = one_chip_each(4);
  options.agreement_limit = std::chrono::milliseconds(1600);
  options.answer_limit = std::chrono::milliseconds(400);
  const auto worlds = testing_support::process_worlds(options);
  std::vector<std::thread> threads;
  for (const size_t process : {0, 2, 3})
    threads.emplace_back([&, process] {
      const base::Error error = testing_support::error_of([&] { worlds[process]->share("plan", ""); });
      EXPECT_NE(std::string(error.what()).find("waited 1600 ms for process 1 on host1 (chip 1)"), std::string::npos)
          << process << ": " << error.what();
      EXPECT_EQ(error.code(), process == 2 ? Code::E3102 : Code::E3101) << process;
    });
  for (std::thread& thread : threads) thread.join();
  listen_to_long_waits(before);
  EXPECT_GE(lines.size(), 2u);
  EXPECT_LE(lines.size(), 3u) << "of waits within the limit";
  for (const std::string& line : lines) EXPECT_EQ(line, "process 1 on host1 (chip 1), which answers");
}

TEST(ProcessWorldTest, AProcessThatDoesNotComeIsNamed) {
  std::vector<std::unique_ptr<Endpoint>> endpoints = testing_support::joined_endpoints(2);
  ProcessWorld::Options options = one_chip_each(2);
  options.join_limit = std::chrono::milliseconds(100);
  options.hosts = {"host0", "host1"};
  const base::Problem problem =
      problem_of(Code::E3102, [&] { const ProcessWorld world(options, std::move(endpoints[0])); });
  EXPECT_EQ(problem.got, "waited 100 ms for process 1 on host1 (chip 1), which does not answer");
}

// Process 0 waits for 3, 3 for 2, and 2 for 1: all have waited as long, and one of them for the right one.
TEST(ProcessWorldTest, OfProcessesThatWaitForEachOtherTheSilentOneIsNamed) {
  std::vector<std::unique_ptr<Endpoint>> endpoints = testing_support::joined_endpoints(4);
  ProcessWorld::Options options = one_chip_each(4);
  options.join_limit = std::chrono::milliseconds(500);
  std::vector<std::string> said(endpoints.size());
  std::vector<std::thread> threads;
  for (const size_t process : {0, 2, 3})
    threads.emplace_back([&, process] {
      try {
        const ProcessWorld world(options, std::move(endpoints[process]));
      } catch (const base::Error& error) {
        said[process] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const size_t process : {0, 2, 3})
    EXPECT_NE(said[process].find("waited 500 ms for process 1 (chip 1), which does not answer"), std::string::npos)
        << process << ": " << said[process];
}

// A process that has nothing more to do may go; the others go on among themselves.
TEST(ProcessWorldTest, AProcessThatIsDoneMayGo) {
  std::vector<std::unique_ptr<ProcessWorld>> worlds = testing_support::process_worlds(one_chip_each(3));
  worlds[2].reset();
  std::vector<std::thread> threads;
  for (const int64_t chip : {0, 1})
    threads.emplace_back([&, chip] {
      Communicator& communicator = worlds[static_cast<size_t>(chip)]->communicator(chip);
      std::vector<float> buffer(512, 1.0f);
      communicator.run(sum_of(communicator.create_group({0, 1}), buffer), kHostThread);
      EXPECT_EQ(buffer[7], 2.0f);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace megacpp::collectives
