// SPDX-License-Identifier: Apache-2.0
// What a transport may ask of a run: workspace for its calls, and chips that belong to several processes.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "megacpp/blocks/attention.h"
#include "megacpp/blocks/feed_forward.h"
#include "megacpp/collectives/transport.h"
#include "megacpp/compile/compile.h"
#include "megacpp/data/batches.h"
#include "megacpp/runtime/cpu/cpu_backend.h"
#include "megacpp/train/run_state.h"
#include "megacpp/train/train.h"
#include "tests/support/errors.h"
#include "tests/support/process_worlds.h"

namespace megacpp {
namespace {

using collectives::Call;
using collectives::Stream;
using collectives::Ticket;
using collectives::Transport;
using testing_support::Processes;

constexpr int64_t kPerMember = 3000;  // bytes

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

 protected:
  std::vector<std::string> gather(const std::string& own) override { return {own}; }

 private:
  collectives::InprocWorld inner_;
  std::vector<std::unique_ptr<WorkingCommunicator>> communicators_;
};

// Counts its calls twice: when they start and when they are finished.
Transport working_transport(std::atomic<int64_t>& calls) {
  return {
      .properties = {.name = "working"},
      .doc = "wants workspace",
      .workspace_bytes = [](const Call&, int64_t members) { return kPerMember * members; },
      .make = [&calls](
                  const collectives::WorldOptions& options) { return std::make_unique<WorkingWorld>(options, calls); }};
}

recipe::Recipe recipe_in(const recipe::Layout& layout) {
  recipe::Recipe recipe;
  recipe.name = "transport";
  recipe.model = {.name = "transport", .pattern = "AE", .depth = 4, .hidden = 32, .vocab = 256};
  recipe.model.config<blocks::Attention>() = {.heads = 4, .kv_heads = 2, .head_dim = 8};
  recipe.model.config<blocks::FeedForward>() = {.intermediate = 48};
  recipe.train = {.batch = 4, .sequence = 16, .micro_steps = 2, .steps = 3, .log_every = 1};
  recipe.layout = layout;
  return recipe;
}

// A process's part of a run on a transport.
class ProcessRun {
 public:
  ProcessRun(const recipe::Layout& layout, const Transport& transport, const std::vector<int64_t>& limits = {})
      : recipe_(recipe_in(layout)),
        compiled_(compile::compile_training(recipe_, runtime::cpu::cpu_target(1, transport))),
        executable_(runtime::cpu::load(compiled_, {.threads = 1, .transport = transport, .limits = limits})) {
    corpus_.document_begins = {0};
    for (size_t i = 0; i < 4096; ++i) corpus_.bytes.push_back(static_cast<uint8_t>('a' + i * i % 19));
    train::RunState(compiled_, *executable_).initialise_weights(7);
  }

  std::vector<double> losses() {
    const data::Batches batches(
        corpus_, {.batch = recipe_.train.batch, .sequence = recipe_.train.sequence, .micro_steps = 2, .seed = 7});
    std::vector<double> losses;
    for (const train::StepReport& report : train::train(recipe_, compiled_, batches, *executable_))
      losses.push_back(report.loss);
    return losses;
  }

  const compile::Compiled& compiled() const { return compiled_; }
  const runtime::Executable& executable() const { return *executable_; }
  train::RunState state() { return {compiled_, *executable_}; }
  bool reports() const { return std::ranges::count(executable_->local_chips(), compiled_.reporting_chip()) > 0; }

 private:
  recipe::Recipe recipe_;
  compile::Compiled compiled_;
  std::unique_ptr<runtime::Executable> executable_;
  data::TextCorpus corpus_;
};

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
  ProcessRun plain(layout, collectives::inproc_transport());
  std::atomic<int64_t> calls = 0;
  ProcessRun working(layout, working_transport(calls));
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
  const recipe::Recipe recipe = recipe_in({.data_parallel = 2});
  const compile::Compiled compiled = compile::compile_training(recipe, runtime::cpu::cpu_target(1));
  std::atomic<int64_t> calls = 0;
  const base::Problem problem = testing_support::problem_of(
      base::Code::E9001, [&] { runtime::cpu::load(compiled, {.transport = working_transport(calls)}); });
  EXPECT_NE(problem.got.find("has no workspace in the plan"), std::string::npos) << problem.got;
}

TEST(TransportTest, TwoProcessesTrainAsOneDoes) {
  for (const recipe::Layout& layout :
       {recipe::Layout{.data_parallel = 4, .zero = 3}, recipe::Layout{.data_parallel = 2, .pipeline_parallel = 2}}) {
    const std::vector<double> wanted = ProcessRun(layout, collectives::inproc_transport()).losses();
    Processes processes(2);
    std::atomic<int> reporting = 0;
    processes.run([&](size_t process) {
      ProcessRun run(layout, processes.transport(process));
      EXPECT_EQ(std::ssize(run.executable().local_chips()), 2);
      EXPECT_EQ(run.executable().chips(), 4);
      const std::vector<double> losses = run.losses();
      if (!run.reports()) return;
      ++reporting;
      EXPECT_EQ(losses, wanted);
    });
    EXPECT_EQ(reporting, 1);
  }
}

TEST(TransportTest, WhatIsSplitOverProcessesIsNotReadAsWhole) {
  Processes processes(2);
  processes.run([&](size_t process) {
    ProcessRun run({.data_parallel = 2, .zero = 3}, processes.transport(process));
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
      testing_support::problem_of(base::Code::E2001, [&] { ProcessRun(layout, processes.transport(1), {0, 1}); });
    else
      testing_support::problem_of(base::Code::E3101, [&] { ProcessRun(layout, processes.transport(0)).losses(); });
  });
}

}  // namespace
}  // namespace megacpp
