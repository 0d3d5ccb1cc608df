// SPDX-License-Identifier: Apache-2.0
// A mesh over several processes: each owns some chips, which are its threads, and exchanges with those of the others
// over an endpoint (process_mover.h). Collectives among chips of one process never leave it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/engine/call_engine.h"
#include "megacpp/machine/collectives/processes/endpoint.h"
#include "megacpp/machine/collectives/processes/process_mover.h"
#include "megacpp/machine/collectives/world.h"

namespace megacpp::collectives {

class ProcessWorld final : public World {
 public:
  struct Options {
    Properties properties;        // without a fixed order of sums: Sums::fast
    std::vector<int64_t> owners;  // the process of every chip; each has one, process 0 chip 0
    std::chrono::milliseconds wait_limit{};
    std::optional<std::chrono::milliseconds> agreement_limit = {};      // as WorldOptions has it
    std::chrono::milliseconds answer_limit = std::chrono::minutes(10);  // the same
    std::chrono::milliseconds join_limit = std::chrono::minutes(10);    // the same
    std::vector<std::string> hosts = {};  // by process, where they are known; else they are asked for
    bool reads_memory = true;             // of processes on the same host, where the kernel allows it
  };
  /// Waits for all other processes to do the same.
  ProcessWorld(const Options& options, std::unique_ptr<Endpoint> endpoint);

  const Properties& properties() const override { return properties_; }
  int64_t chips() const override { return engine_.chips(); }
  const std::vector<int64_t>& local_chips() const override { return engine_.local(); }
  Communicator& communicator(int64_t chip) override { return engine_.at(chip); }
  void abort(int64_t chip, const std::string& reason) override { communicator(chip).abort(reason); }
  bool has_failed() override { return engine_.has_failed(); }
  std::optional<std::string> silent_successor(std::chrono::milliseconds limit) override {
    return mover_.silent_successor(limit);
  }
  int64_t process() const override { return process_; }
  const std::vector<std::string>& hosts() const override { return hosts_; }
  std::string path_of_tensors() const override { return path_of_tensors_; }

 protected:
  std::vector<std::string> gather(const std::string& own) override {
    constexpr std::chrono::milliseconds kShortestSilence(1000);  // of a process that is busy
    const auto silence = std::min(answer_limit_, std::max(agreement_limit_, kShortestSilence));
    return mover_.gather(own, {.limit = agreement_limit_, .silence = silence});
  }

 private:
  const Properties properties_;
  const int64_t process_;
  const std::chrono::milliseconds agreement_limit_;
  const std::chrono::milliseconds answer_limit_;
  CallEngine engine_;
  std::vector<std::string> hosts_;
  std::string path_of_tensors_;
  ProcessMover mover_;  // ends before the chips whose buffers it moves
};

}  // namespace megacpp::collectives
