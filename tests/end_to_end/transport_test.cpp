// SPDX-License-Identifier: Apache-2.0
// What a transport may ask of a run: workspace for its calls, and chips that belong to several processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>

#include "megacpp/machine/collectives/transport.h"
#include "megacpp/machine/cpu/cpu_backend.h"
#include "tests/end_to_end/training_run.h"
#include "tests/support/errors.h"
#include "tests/support/process_fleet.h"
#include "tests/support/process_worlds.h"

namespace megacpp {
namespace {

using collectives::Call;
using collectives::Stream;
using collectives::Ticket;
using collectives::Transport;
using testing_support::Processes;
using testing_support::small_training_recipe;
using testing_support::TrainingRun;

constexpr int64_t kPerMember = 3000;  // bytes of workspace

bool reports(TrainingRun& run) {
  return std::ranges::count(run.executable().local_chips(), run.compiled().reporting_chip()) > 0;
}

// One chip's end of another transport, which uses its workspace from start to finish.
class WorkingCommunicator final : public collectives::Communicator {
 public:
  WorkingCommunicator(collectives::Communicator& inner, std::atomic<int64_t>& calls) : inner_(inner), calls_(calls) {}

  int64_t rank() const override { return inner_.rank(); }
  int64_t chips() const override { return inner_.chips(); }
  const collectives::Group& create_group(const std::vector<int64_t>& members) override {
    return inner_.create_group(members);
  }
  void reserve_messages(int64_t count) override { inner_.reserve_messages(count); }
  Ticket start(const Call& call, Stream stream) override {
    use_workspace(call);
    const Ticket ticket = inner_.start(call, stream);
    in_flight_[ticket.number] = &call;
    return ticket;
  }
  void finish(Ticket ticket, Stream stream) override {
    inner_.finish(ticket, stream);
    use_workspace(*in_flight_.at(ticket.number));
    in_flight_.erase(ticket.number);
  }
  void abort(const std::string& reason) override { inner_.abort(reason); }

 private:
  // Whatever else the plan had put there would be lost.
  void use_workspace(const Call& call) {
    if (collectives::is_point_to_point(call.kind)) return;
    ASSERT_NE(call.workspace, nullptr) << to_string(call);
    std::memset(call.workspace, 0xEE, static_cast<size_t>(kPerMember * call.group->size()));
    ++calls_;
  }

  collectives::Communicator& inner_;
  std::atomic<int64_t>& calls_;
  std::map<int64_t, const Call*> in_flight_;
};

class WorkingWorld final : public collectives::World {
 public:
  WorkingWorld(const collectives::WorldOptions& options, std::atomic<int64_t>& calls) : inner_(options) {
    for (const int64_t chip : inner_.local_chips())
      communicators_.push_back(std::make_unique<WorkingCommunicator>(inner_.communicator(chip), calls));
  }
  const collectives::Properties& properties() const override { return inner_.properties(); }
  int64_t chips() const override { return inner_.chips(); }
  const std::vector<int64_t>& local_chips() const override { return inner_.local_chips(); }
  collectives::Communicator& communicator(int64_t chip) override {
    return *communicators_.at(static_cast<size_t>(chip));
  }
  void abort(int64_t chip, const std::string& reason) override { inner_.abort(chip, reason); }
  bool has_failed() override { return inner_.has_failed(); }

 protected:
  std::vector<std::string> gather(const std::string& own) override { return {own}; }

 private:
  collectives::InprocWorld inner_;
  std::vector<std::unique_ptr<WorkingCommunicator>> communicators_;
};

// Counts its calls twice: when they start and when they are finished.
Transport working_transport(std::atomic<int64_t>& calls, int64_t per_member = kPerMember) {
  return {
      .properties = {.name = "working"},
      .doc = "wants workspace",
      .workspace_bytes = [per_member](const Call&, int64_t members) { return per_member * members; },
      .make = [&calls](
                  const collectives::WorldOptions& options) { return std::make_unique<WorkingWorld>(options, calls); }};
}

int64_t workspaces(const compile::Compiled& compiled) {
  int64_t count = 0;
  for (size_t p = 0; p < compiled.stages[0].programs.size(); ++p) {
    const ir::Graph& graph = compiled.stages[0].programs[p].graph;
    for (size_t n = 0; n < graph.nodes().size(); ++n)
      if (ops::op_def(graph.nodes()[n].op).is_collective)
        count += compiled.stages[0].memory.programs[p].workspace_offset[n] >= 0;
  }
  return count;
}

TEST(TransportTest, WorkspaceOfCollectivesIsPlannedAndHandedOver) {
  const recipe::Layout layout{.data_parallel = 2, .zero = 3};  // collectives in flight beside work
  TrainingRun plain(layout, collectives::inproc_transport());
  std::atomic<int64_t> calls = 0;
  TrainingRun working(layout, working_transport(calls));
  EXPECT_EQ(workspaces(plain.compiled()), 0);
  EXPECT_GT(workspaces(working.compiled()), 20);
  EXPECT_GE(working.compiled().largest().memory.total_bytes,
            plain.compiled().largest().memory.total_bytes + 2 * kPerMember);
  EXPECT_EQ(working.losses(), plain.losses()) << "nothing else is in the workspace while a call uses it";
  EXPECT_GT(calls, 100);
  const runtime::ChipMemory memory = working.executable().memory(0);
  EXPECT_EQ(memory.measured_peak_bytes, memory.planned_peak_bytes);
}

TEST(TransportTest, APlanForAnotherTransportIsRefused) {
  const recipe::Recipe recipe = small_training_recipe({.data_parallel = 2});
  const compile::Compiled compiled = compile::compile_training(plan::make_plan(recipe), runtime::cpu::cpu_target(1));
  std::atomic<int64_t> calls = 0;
  const base::Problem problem = testing_support::problem_of(
      base::Code::E9001, [&] { runtime::cpu::load(compiled, {.transport = working_transport(calls)}); });
  EXPECT_NE(problem.got.find("needs 6000 bytes of workspace and has 0 in the plan"), std::string::npos) << problem.got;
}

// However much of the arena is behind its workspace: those bytes are others'.
TEST(TransportTest, ACallThatNeedsAByteMoreThanItsPlanIsRefused) {
  std::atomic<int64_t> calls = 0;
  const recipe::Recipe recipe = small_training_recipe({.data_parallel = 2});
  const compile::Compiled compiled =
      compile::compile_training(plan::make_plan(recipe), runtime::cpu::cpu_target(1, working_transport(calls, 100)));
  const auto load = [&](int64_t per_member) {
    runtime::cpu::load(compiled, {.threads = 1, .transport = working_transport(calls, per_member)});
  };
  EXPECT_NO_THROW(load(100));
  EXPECT_NO_THROW(load(99));
  const base::Problem problem = testing_support::problem_of(base::Code::E9001, [&] { load(101); });
  EXPECT_NE(problem.got.find("needs 202 bytes of workspace and has 200 in the plan"), std::string::npos) << problem.got;
}

TEST(TransportTest, TwoProcessesTrainAsOneDoes) {
  for (const recipe::Layout& layout :
       {recipe::Layout{.data_parallel = 4, .zero = 3}, recipe::Layout{.data_parallel = 2, .pipeline_parallel = 2}}) {
    const std::vector<double> wanted = TrainingRun(layout, collectives::inproc_transport()).losses();
    Processes processes(2);
    std::atomic<int> reporting = 0;
    processes.run([&](size_t process) {
      TrainingRun run(layout, processes.transport(process));
      EXPECT_EQ(std::ssize(run.executable().local_chips()), 2);
      EXPECT_EQ(run.executable().chips(), 4);
      const std::vector<double> losses = run.losses();
      if (!reports(run)) {
        EXPECT_TRUE(losses.empty()) << "absent, not 0";
        return;
      }
      ++reporting;
      EXPECT_EQ(losses, wanted);
    });
    EXPECT_EQ(reporting, 1);
  }
}

// Tensors are read from other processes, or go through sockets, and every sum still has the order of one process.
TEST(TransportTest, ChipsOfSeveralProcessesTrainToTheSameBits) {
  for (const recipe::Layout& layout :
       {recipe::Layout{.data_parallel = 4, .zero = 3}, recipe::Layout{.data_parallel = 2, .tensor_parallel = 2},
        recipe::Layout{.data_parallel = 2, .pipeline_parallel = 2}}) {
    const std::vector<double> wanted = TrainingRun(layout, collectives::inproc_transport()).losses();
    for (const testing_support::FleetOptions& fleet :
         {testing_support::FleetOptions{.name = "two_processes", .processes = 2},
          testing_support::FleetOptions{.name = "three_hosts",
          .processes = 3,
          .deal = testing_support::Deal::like_cards,
          .hosts = testing_support::Hosts::each_own}}) {
      TrainingRun run(layout, testing_support::fleet_transport(fleet));
      EXPECT_EQ(run.losses(), wanted) << fleet.name;
      const runtime::ChipMemory memory = run.executable().memory(0);
      EXPECT_EQ(memory.measured_peak_bytes, memory.planned_peak_bytes) << fleet.name;
    }
  }
}

// Sums of a process's chips cross instead of what each holds: other bits, the same training, the same memory.
TEST(TransportTest, FastSumsTrainAsCloselyAndInThePlannedBytes) {
  for (const recipe::Layout& layout :
       {recipe::Layout{.data_parallel = 4, .zero = 3}, recipe::Layout{.data_parallel = 2, .tensor_parallel = 2}}) {
    const std::vector<double> wanted = TrainingRun(layout, collectives::inproc_transport()).losses();
    TrainingRun run(layout,
                    testing_support::fleet_transport(
                        {.name = "fast", .sums = collectives::Sums::fast, .hosts = testing_support::Hosts::each_own}));
    const std::vector<double> losses = run.losses();
    ASSERT_EQ(losses.size(), wanted.size());
    for (size_t step = 0; step < wanted.size(); ++step)
      EXPECT_NEAR(losses[step], wanted[step], 1e-4 * wanted[step]) << "step " << step;
    const runtime::ChipMemory memory = run.executable().memory(0);
    EXPECT_EQ(memory.measured_peak_bytes, memory.planned_peak_bytes);
  }
}

TEST(TransportTest, WhatIsSplitOverProcessesIsNotReadAsWhole) {
  Processes processes(2);
  processes.run([&](size_t process) {
    TrainingRun run({.data_parallel = 2, .zero = 3}, processes.transport(process));
    for (const compile::StateTensor& tensor : run.compiled().stages[0].state) {
      const bool is_split = tensor.sharding != ir::Sharding::replicated(tensor.whole.shape.size());
      if (!is_split || !tensor.kept) continue;
      const base::Problem problem =
          testing_support::problem_of(base::Code::E9001, [&] { run.state().read<float>(tensor.name); });
      EXPECT_NE(problem.got.find("split over chips of other processes"), std::string::npos) << problem.got;
      return;
    }
    FAIL() << "nothing is split";
  });
}

TEST(TransportTest, AProcessThatCannotLoadLeavesNobodyWaiting) {
  Processes processes(2);
  processes.run([&](size_t process) {
    const recipe::Layout layout{.data_parallel = 2};
    if (process == 1)
      testing_support::problem_of(base::Code::E2001, [&] { TrainingRun(layout, processes.transport(1), {0, 1}); });
    else
      testing_support::problem_of(base::Code::E3101, [&] { TrainingRun(layout, processes.transport(0)).losses(); });
  });
}

}  // namespace
}  // namespace megacpp
