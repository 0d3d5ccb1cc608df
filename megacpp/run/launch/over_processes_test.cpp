// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/over_processes.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <new>
#include <stdexcept>
#include <utility>

#include "tests/support/errors.h"
#include "tests/support/process_worlds.h"

namespace megacpp::launch {
namespace {

// As a launcher leaves them to a process.
class OverProcessesTest : public testing::Test {
 protected:
  void TearDown() override { set_launcher(nullptr, nullptr); }

  static void set_launcher(const char* process, const char* processes) {
    for (const auto& [name, value] : {std::pair("PMI_RANK", process), std::pair("PMI_SIZE", processes)})
      value == nullptr ? ::unsetenv(name) : ::setenv(name, value, /*overwrite=*/1);
  }

  /// How on_all_processes() ends on each of three processes.
  static std::vector<base::Error> errors_of(const std::function<void(size_t process)>& body) {
    testing_support::Processes processes(3);
    std::vector<base::Error> errors(3, base::Error(base::Code::E9001, {}));
    processes.run([&](size_t process) {
      const auto world = processes.transport(process).make({.chips = 3, .wait_limit = std::chrono::seconds(60)});
      errors[process] = testing_support::error_of([&] { on_all_processes(*world, "data", [&] { body(process); }); });
    });
    return errors;
  }

  const ir::Mesh mesh_ = ir::Mesh({{"data", 2}, {"model", 2}});
  recipe::Recipe recipe_;
};

TEST_F(OverProcessesTest, AProcessAloneSpeaksAndNeedsNothing) {
  EXPECT_TRUE(is_first_process());
  EXPECT_EQ(processes_text(mesh_), "");
  recipe_.backend = "xla";
  EXPECT_NO_THROW(require_over_processes(recipe_));
  recipe_.layout.collectives = recipe::CollectiveSums::fast;
  EXPECT_EQ(transport_for(recipe_).properties.name, "inproc");
  EXPECT_TRUE(transport_for(recipe_).properties.has_fixed_order_sums) << "of one process they are exact";
  EXPECT_EQ(from_first_process("run", [] { return std::string("runs/a"); }), "runs/a");
}

TEST_F(OverProcessesTest, TheFirstOfSeveralSpeaks) {
  set_launcher("0", "2");
  EXPECT_TRUE(is_first_process());
  EXPECT_EQ(processes_text(mesh_), "2, started by mpiexec of MPICH; model inside a process; data across");
  set_launcher("1", "2");
  EXPECT_FALSE(is_first_process());
  recipe_.backend = "cpu";
  recipe_.layout.data_parallel = 2;
  EXPECT_NO_THROW(require_over_processes(recipe_));
  recipe_.layout.data_parallel = 3;
  EXPECT_EQ(testing_support::problem_of(base::Code::E1007, [&] { require_over_processes(recipe_); }).got,
            "2 processes for 3 chips");
}

TEST_F(OverProcessesTest, ABackendSaysHowManyChipsAProcessHas) {
  recipe_.backend = "cuda";
  recipe_.layout.data_parallel = 4;
  set_launcher("0", "2");
  const base::Problem problem =
      testing_support::problem_of(base::Code::E1505, [&] { require_over_processes(recipe_); });
  EXPECT_EQ(problem.got, "2 processes for 4 chips on backend cuda");
  EXPECT_EQ(problem.wanted, "one chip in each process, or all in one");
  EXPECT_EQ(problem.next, "start 4 processes, or one");
  set_launcher("0", "4");
  EXPECT_NO_THROW(require_over_processes(recipe_));
  set_launcher("0", "1");
  EXPECT_NO_THROW(require_over_processes(recipe_));
}

TEST_F(OverProcessesTest, TheRecipeSaysHowProcessesAdd) {
  set_launcher("0", "2");
  EXPECT_EQ(transport_for(recipe_).properties.name, "mpi");
  EXPECT_TRUE(transport_for(recipe_).properties.has_fixed_order_sums);
  recipe_.layout.collectives = recipe::CollectiveSums::fast;
  EXPECT_EQ(transport_for(recipe_).properties.name, "mpi");
  EXPECT_FALSE(transport_for(recipe_).properties.has_fixed_order_sums);
}

TEST_F(OverProcessesTest, ChipsArePlacedOnHosts) {
  const std::vector<ProcessPlace> places = process_places(mesh_, {"node7", "node8"});
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[1].host, "node8");
  EXPECT_EQ(places[1].chips, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(hosts_text(places), "node7: chips 0, 1; node8: chips 2, 3");
  EXPECT_EQ(hosts_text(process_places(mesh_, {"a", "a", "b", "b"})), "a: chips 0, 1; b: chips 2, 3");
  EXPECT_TRUE(process_places(mesh_, {}).empty());
  EXPECT_EQ(host_text(places, 2), " on node8, process 1");
  EXPECT_EQ(host_text({}, 2), "");
}

TEST_F(OverProcessesTest, WhatOneProcessCannotReadEndsAll) {
  const std::vector<base::Error> errors = errors_of([](size_t process) {
    if (process == 1) base::raise(base::Code::E1008, {.where = "corpus.txt", .got = "no such file"});
  });
  EXPECT_EQ(errors[1].code(), base::Code::E1008);
  for (const size_t other : {size_t{0}, size_t{2}}) {
    EXPECT_EQ(errors[other].code(), base::Code::E3101);
    EXPECT_EQ(errors[other].problem().got, "process 1: E1008 corpus.txt: no such file");
    EXPECT_EQ(errors[other].exit_status(), errors[1].exit_status()) << "whichever a launcher looks at";
  }
  bool is_called = false;
  on_all_processes("data", std::chrono::seconds(5), [&] { is_called = true; });
  EXPECT_TRUE(is_called) << "a process alone";
}

// A launcher ends with the status of any process: a supervisor must not try again what would fail again.
TEST_F(OverProcessesTest, TheGravestErrorOfAllDecidesHowEachEnds) {
  const std::vector<base::Error> errors = errors_of([](size_t process) {
    if (process == 0) base::raise(base::Code::E3001, {.where = "run", .got = "disk full"});
    if (process == 1) base::raise(base::Code::E1008, {.where = "corpus.txt", .got = "no such file"});
  });
  EXPECT_EQ(errors[0].code(), base::Code::E3001);
  EXPECT_EQ(errors[1].code(), base::Code::E1008);
  EXPECT_EQ(errors[2].code(), base::Code::E3101);
  for (const base::Error& error : errors)
    EXPECT_EQ(error.exit_status(), base::exit_status(base::ErrorClass::user)) << error.what();
}

// As a library or the system raises them: a defect (70), and memory of the host (3).
TEST_F(OverProcessesTest, ErrorsThatAreNoneOfOursDecideTheStatusOfAllToo) {
  testing_support::Processes processes(3);
  std::vector<int> statuses(3);
  processes.run([&](size_t process) {
    const auto world = processes.transport(process).make({.chips = 3, .wait_limit = std::chrono::seconds(60)});
    try {
      on_all_processes(*world, "data", [&] {
        if (process == 0) throw std::bad_alloc();
        if (process == 1) throw std::runtime_error("a library");
      });
    } catch (const base::Error& error) {
      statuses[process] = error.exit_status();
      EXPECT_EQ(error.code(), process == 0 ? base::Code::E2005 : base::Code::E3101) << error.what();
    } catch (const std::runtime_error& error) {
      statuses[process] = base::exit_status(base::ErrorClass::internal);
      EXPECT_EQ(error.what(), std::string("a library"));
    }
  });
  EXPECT_EQ(statuses, std::vector<int>(3, base::exit_status(base::ErrorClass::internal)));
}

TEST_F(OverProcessesTest, AStartWaitsForWhoAnswersAndForNobodyElse) {
  const collectives::WorldOptions world = world_of_start(3, std::chrono::seconds(5));
  EXPECT_EQ(world.chips, 3);
  EXPECT_EQ(world.agreement_limit.value_or(world.wait_limit), std::chrono::hours(1)) << "one that hangs answers too";
  EXPECT_EQ(world_of_start(3, std::chrono::minutes(10)).wait_limit, std::chrono::minutes(100));
  EXPECT_EQ(world.answer_limit, std::chrono::seconds(5));
  EXPECT_EQ(world.join_limit, std::chrono::seconds(5)) << "whatever the usual limit is";
}

TEST_F(OverProcessesTest, ABackendOfOneProcessIsRefused) {
  set_launcher("0", "2");
  recipe_.backend = "xla";
  const base::Problem problem =
      testing_support::problem_of(base::Code::E1505, [this] { require_over_processes(recipe_); });
  EXPECT_NE(problem.got.find("2 processes for backend xla"), std::string::npos) << problem.got;
  EXPECT_NE(problem.next.find("take the cuda or tpu plugin"), std::string::npos) << problem.next;
}

}  // namespace
}  // namespace megacpp::launch
