// SPDX-License-Identifier: Apache-2.0
// XLA over two processes that share one GPU, as two hosts would have one each: they train with the losses of one
// process. Skipped, with the reason, where there is no GPU or no plugin of CUDA. Every run is a process of its own:
// this one never wakes the GPU.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/machine/collectives/processes/process_world.h"
#include "megacpp/machine/collectives/transport.h"
#include "megacpp/machine/plugins/plugin_places.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/launch/launch.h"
#include "megacpp/run/launch/training.h"
#include "tests/support/errors.h"
#include "tests/support/socket_endpoint.h"
#include "tests/support/temporary_folder.h"

namespace megacpp {
namespace {

constexpr int64_t kProcesses = 2;
constexpr size_t kWorlds = 8;  // that a training makes, at most
constexpr double kTolerance = 2e-3;
constexpr std::chrono::seconds kProcessLimit(180);

using Endpoints = std::vector<std::unique_ptr<collectives::Endpoint>>;

/// The worlds of one process over sockets that were made before it was forked; the n-th worlds of all belong together.
class SocketWorlds {
 public:
  SocketWorlds(std::vector<Endpoints>& sets, size_t process) {
    for (Endpoints& set : sets) {
      endpoints_.push_back(std::move(set[process]));
      set.clear();  // a process that ends is seen only where nobody else has its sockets
    }
  }

  collectives::Transport transport() {
    collectives::Transport record = collectives::inproc_transport();
    record.make = [this](const collectives::WorldOptions& options) -> std::unique_ptr<collectives::World> {
      MEGACPP_CHECK(made_ < endpoints_.size()) << "more worlds than there are sockets for";
      collectives::ProcessWorld::Options own;
      own.properties = {.name = "sockets", .has_fixed_order_sums = true};
      own.wait_limit = options.wait_limit;
      for (int64_t chip = 0; chip < options.chips; ++chip) own.owners.push_back(chip * kProcesses / options.chips);
      return std::make_unique<collectives::ProcessWorld>(own, std::move(endpoints_[made_++]));
    };
    return record;
  }

 private:
  Endpoints endpoints_;
  size_t made_ = 0;
};

recipe::Recipe gpu_recipe(int64_t data_parallel) {
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml",
                      std::vector<std::string>{"backend=xla", "xla.plugin=cuda", "train.steps=6", "train.log_every=1",
                                               "train.wait_limit=40", "xla.cache=off",
                                               "layout.data_parallel=" + std::to_string(data_parallel)});
}

/// "4.123 4.100 ...", one loss a step. A step that hangs ends the process by `on_hang`.
std::string losses_of(launch::Launch& launch, const std::function<void(const base::Error&)>& on_hang) {
  const data::TextCorpus corpus =
      data::load_text(std::vector<std::string>{std::string(MEGACPP_SOURCE_DIR) + "/LICENSE"});
  launch.prepare();
  std::ostringstream text;
  text.precision(9);
  launch::TrainingOptions options;
  options.start.on_hang = on_hang;
  const launch::Trained trained = launch::run_training(launch, corpus, options);
  for (const train::StepReport& report : trained.reports) text << report.loss.value_or(-1) << " ";
  return text.str();
}

class XlaProcessesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists("/dev/nvidia0")) GTEST_SKIP() << "no GPU: no /dev/nvidia0";
    try {
      runtime::plugins::find_plugin(runtime::plugins::PluginKind::cuda);
    } catch (const base::Error& error) {
      GTEST_SKIP() << error.problem().got;
    }
  }

  /// Forks; what `work` returns, or the error it ends with, is in a file once the process has ended.
  pid_t begin(const std::string& name, const std::function<std::string()>& work) const {
    const pid_t child = ::fork();
    if (child != 0) return child;
    try {
      leave(name, work(), 0);
    } catch (const std::exception& error) {
      leave(name, error.what(), 1);
    }
  }

  [[noreturn]] void leave(const std::string& name, const std::string& said, int status) const {
    base::write_file_atomically(folder_ / name, said);
    ::_exit(status);
  }

  /// As a run by the command line is ended.
  std::function<void(const base::Error&)> end_hung(const std::string& name) const {
    return [this, name](const base::Error& error) { leave(name, error.what(), 1); };
  }

  /// Of a process that has ended, or is killed because it does not.
  static int ending_of(pid_t child) {
    const auto end = std::chrono::steady_clock::now() + kProcessLimit;
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > end) ::kill(child, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return status;
  }

  std::string end(pid_t child, const std::string& name) const {
    const int status = ending_of(child);
    const bool has_said = std::filesystem::exists(folder_ / name);
    const std::string said = has_said ? base::read_file(folder_ / name) : "nothing";
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << name << " ended with " << status << ": " << said;
    return said;
  }

  static std::vector<double> numbers_in(const std::string& text) {
    std::istringstream stream(text);
    std::vector<double> numbers;
    for (double number = 0; stream >> number;) numbers.push_back(number);
    return numbers;
  }

  const testing_support::TemporaryFolder folder_;
};

TEST_F(XlaProcessesTest, TwoTrainWithTheLossesOfOne) {
  const std::vector<double> alone = numbers_in(end(begin("alone",
                                                         [this] {
                                                           launch::Launch launch(gpu_recipe(1), {.none = true});
                                                           return losses_of(launch, end_hung("alone"));
                                                         }),
                                                   "alone"));
  ASSERT_EQ(alone.size(), 6u);

  std::vector<Endpoints> sets;
  for (size_t i = 0; i < kWorlds; ++i) sets.push_back(testing_support::joined_endpoints(kProcesses));
  std::vector<pid_t> children;
  for (size_t process = 0; process < kProcesses; ++process)
    children.push_back(begin(std::to_string(process), [this, &sets, process] {
      const std::string number = std::to_string(process);
      ::setenv("CUDA_VISIBLE_DEVICES", "0", 1);
      SocketWorlds worlds(sets, process);
      launch::Launch launch(gpu_recipe(kProcesses), {.none = true}, launch::no_log,
                            {.transport = worlds.transport(), .machine = [number] { return "machine " + number; }});
      return losses_of(launch, end_hung(number));
    }));
  sets.clear();
  for (size_t process = 0; process < kProcesses; ++process) {
    const std::vector<double> losses = numbers_in(end(children[process], std::to_string(process)));
    ASSERT_EQ(losses.size(), alone.size()) << "process " << process;
    for (size_t step = 0; step < alone.size(); ++step)
      EXPECT_NEAR(losses[step], alone[step], kTolerance * alone[step]) << "process " << process << ", step " << step;
  }
}

}  // namespace
}  // namespace megacpp
