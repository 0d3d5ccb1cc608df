// SPDX-License-Identifier: Apache-2.0
// The processes of a run as threads of one process: each has worlds of its own, in which an equal share of the chips is
// local. The chips of all of them are those of one in-process world.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/inproc/inproc_world.h"
#include "megacpp/machine/collectives/transport.h"

namespace megacpp::testing_support {

/// What the worlds of all processes share.
class SharedWorld {
 public:
  SharedWorld(size_t processes, const collectives::WorldOptions& options)
      : chips(options), wait_limit_(options.wait_limit), said_(processes) {}

  std::vector<std::string> gather(size_t process, const std::string& own) {
    std::unique_lock lock(mutex_);
    chips.agree_any("alive", false);  // E3101 after an abort
    said_[process] = own;
    const int64_t round = round_;
    if (++arrived_ == said_.size()) {
      gathered_ = said_;
      arrived_ = 0;
      ++round_;
      all_here_.notify_all();
    }
    const auto deadline = std::chrono::steady_clock::now() + wait_limit_;
    while (round_ == round) {
      all_here_.wait_for(lock, std::chrono::milliseconds(2));
      if (round_ == round) chips.agree_any("alive", false);
      if (round_ == round && std::chrono::steady_clock::now() >= deadline) {
        chips.abort(0, "waited too long for a process");
        base::raise(base::Code::E3102, {.where = "process " + std::to_string(process), .got = "waited too long"});
      }
    }
    return gathered_;
  }

  collectives::InprocWorld chips;

 private:
  const std::chrono::milliseconds wait_limit_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  int64_t round_ = 0;                         // of agreements, guarded by mutex_ like all below
  std::vector<std::string> said_, gathered_;  // by process
  size_t arrived_ = 0;
};

class ProcessWorld final : public collectives::World {
 public:
  ProcessWorld(std::shared_ptr<SharedWorld> shared, size_t process, size_t processes)
      : shared_(std::move(shared)), process_(process) {
    const int64_t share = shared_->chips.chips() / static_cast<int64_t>(processes);
    for (int64_t i = 0; i < share; ++i) local_chips_.push_back(static_cast<int64_t>(process) * share + i);
  }

  const collectives::Properties& properties() const override { return shared_->chips.properties(); }
  int64_t chips() const override { return shared_->chips.chips(); }
  const std::vector<int64_t>& local_chips() const override { return local_chips_; }
  collectives::Communicator& communicator(int64_t chip) override {
    MEGACPP_CHECK(std::ranges::find(local_chips_, chip) != local_chips_.end()) << "chip " << chip << " is not local";
    return shared_->chips.communicator(chip);
  }
  void abort(int64_t chip, const std::string& reason) override { communicator(chip).abort(reason); }
  bool has_failed() override { return shared_->chips.has_failed(); }
  int64_t process() const override { return static_cast<int64_t>(process_); }

 protected:
  std::vector<std::string> gather(const std::string& own) override { return shared_->gather(process_, own); }

 private:
  std::shared_ptr<SharedWorld> shared_;  // with the worlds of the other processes
  size_t process_;
  std::vector<int64_t> local_chips_;
};

/// Where processes find each other: the n-th worlds that they make belong together.
class Processes {
 public:
  explicit Processes(size_t count) : made_(count) {}
  size_t count() const { return made_.size(); }

  /// As `process` has it. The record must not outlive this.
  collectives::Transport transport(size_t process) {
    collectives::Transport record = collectives::inproc_transport();
    record.make = [this, process](const collectives::WorldOptions& options) -> std::unique_ptr<collectives::World> {
      const std::lock_guard lock(mutex_);
      const size_t n = made_[process]++;
      if (n == worlds_.size()) worlds_.push_back(std::make_shared<SharedWorld>(count(), options));
      return std::make_unique<ProcessWorld>(worlds_[n], process, count());
    };
    return record;
  }

  /// body(process) on a thread for each; the first exception is thrown again once all are done.
  template <typename Body>
  void run(const Body& body) {
    std::vector<std::exception_ptr> failures(count());
    std::vector<std::thread> threads;
    for (size_t process = 0; process < count(); ++process)
      threads.emplace_back([&, process] {
        try {
          body(process);
        } catch (...) {
          failures[process] = std::current_exception();
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& failure : failures)
      if (failure) std::rethrow_exception(failure);
  }

 private:
  std::mutex mutex_;
  std::vector<size_t> made_;                          // by process
  std::vector<std::shared_ptr<SharedWorld>> worlds_;  // each shared by the worlds of all processes
};

}  // namespace megacpp::testing_support
