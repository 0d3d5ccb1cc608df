// SPDX-License-Identifier: Apache-2.0
// Cases drawn from the tables, run and judged (judge.h): every command ends by itself and in time, keeps the error
// contract, and leaves a catalog that the next command reads and that has lost nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace megacpp::faults {

struct CampaignOptions {
  int64_t cases = 60;
  uint64_t seed = 1;
  int jobs = 1;
  std::optional<int64_t> only_case;  // one case again
  std::chrono::seconds time_limit{10};
};

/// How commands ended under one fault.
struct Counts {
  int64_t cases = 0;
  int64_t completed = 0;
  int64_t refused = 0;      // with an error of the contract
  int64_t stopped = 0;      // with the status of a stop
  int64_t killed = 0;       // by SIGKILL, which the case sent
  int64_t not_started = 0;  // the system's loader had too little memory or too few files
  int64_t findings = 0;
};

struct Finding {
  int64_t number = 0;  // of the case
  std::string fault = {};
  std::string line = {};          // as it is typed
  std::string surroundings = {};  // what the line does not say: signals, the disk
  std::vector<std::string> breaches = {};
  std::string err = {};
};

/// A fault or a command.
struct LeftOut {
  std::string name = {};
  std::string reason = {};
};

struct CampaignResult {
  std::map<std::string, Counts> by_fault;
  std::vector<Finding> findings;  // in the order of cases
  std::vector<LeftOut> left_out;  // what this machine does not allow
};

/// Throws std::runtime_error where the commands that prepare the cases fail.
CampaignResult run_campaign(const CampaignOptions& options);

}  // namespace megacpp::faults
