// SPDX-License-Identifier: Apache-2.0
// Runs cases in processes of their own, several at once, and reports every case that dies, hangs or is judged a
// finding, with its input. A process that ends so is replaced and goes on with the next case.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/fuzz/target.h"

namespace megacpp::fuzz {

/// Inputs of one target: those of its corpus as they are, then `mutations` changed ones.
struct Assignment {
  const Target* target = nullptr;
  std::vector<Input> corpus = {};
  uint64_t mutations = 0;
};

struct Finding {
  std::string target = {};
  std::string text = {};  // what happened; the first line tells kinds apart
  Input input = {};
};

struct TargetReport {
  std::string name = {};
  uint64_t cases = 0;
  uint64_t accepted = 0;
  double seconds = 0;  // of all its processes together
  std::chrono::milliseconds slowest{0};
  size_t findings = 0;  // kinds
};

struct CampaignReport {
  std::vector<TargetReport> targets = {};
  std::vector<Finding> findings = {};  // one of each kind
};

struct CampaignOptions {
  uint64_t seed = 1;
  size_t jobs = 1;
  std::chrono::milliseconds total_limit = std::chrono::hours(24 * 365);  // then no more cases are begun
  size_t most_findings = 20;                                             // of a target; then it is left
  std::function<void(const Finding&)> on_finding = [](const Finding&) {};
};

CampaignReport run_campaign(const std::vector<Assignment>& assignments, const CampaignOptions& options);

/// One target after the other, each with all jobs and the whole of the time limit.
CampaignReport run_in_turn(const std::vector<Assignment>& assignments, const CampaignOptions& options);

/// The files of a folder, sorted by name; none where there is no such folder.
std::vector<Input> read_corpus(const std::filesystem::path& folder);

}  // namespace megacpp::fuzz
