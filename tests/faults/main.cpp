// SPDX-License-Identifier: Apache-2.0
// Faults against commands, each in a process of its own: a table of how they ended, and every finding with the line
// that shows it again. The exit status is 1 where there are findings.
#include <stdexcept>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "tests/faults/campaign.h"

namespace {

using megacpp::faults::CampaignResult;
using megacpp::faults::Counts;
using megacpp::faults::Finding;

void print_counts(const CampaignResult& result) {
  fmt::print("{:<16}{:>8}{:>11}{:>9}{:>9}{:>8}{:>13}{:>10}\n", "fault", "cases", "completed", "refused", "stopped",
             "killed", "not started", "findings");
  for (const auto& [fault, counts] : result.by_fault)
    fmt::print("{:<16}{:>8}{:>11}{:>9}{:>9}{:>8}{:>13}{:>10}\n", fault, counts.cases, counts.completed, counts.refused,
               counts.stopped, counts.killed, counts.not_started, counts.findings);
  for (const auto& [name, reason] : result.left_out) fmt::print("{:<16} left out: {}\n", name, reason);
}

void print_finding(const Finding& finding, uint64_t seed) {
  fmt::print("\nfinding: --seed {} --case {} ({})\n  {}\n", seed, finding.number, finding.fault, finding.line);
  if (!finding.surroundings.empty()) fmt::print("  {}\n", finding.surroundings);
  for (const std::string& breach : finding.breaches) fmt::print("  - {}\n", breach);
  if (!finding.err.empty()) fmt::print("{}\n", finding.err.substr(0, 2000));
}

}  // namespace

int main(int argc, char** argv) try {
  megacpp::faults::CampaignOptions options;
  int64_t limit = options.time_limit.count();
  CLI::App app("Faults against megacpp's commands: signals, full disks, limits, launches at once.");
  app.add_option("--cases", options.cases, "drawn from the table of faults and that of commands")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "the same seed draws the same cases");
  app.add_option("--jobs", options.jobs, "cases at once")->check(CLI::PositiveNumber);
  app.add_option("--case", options.only_case, "only this one, by its number");
  app.add_option("--time-limit", limit, "seconds after which a command hangs")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  options.time_limit = std::chrono::seconds(limit);
  const auto start = std::chrono::steady_clock::now();
  const CampaignResult result = megacpp::faults::run_campaign(options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  print_counts(result);
  for (const Finding& finding : result.findings) print_finding(finding, options.seed);
  fmt::print("\ntotal: {} cases, {:.0f} seconds, {} findings\n", options.only_case ? 1 : options.cases, seconds.count(),
             result.findings.size());
  return result.findings.empty() ? 0 : 1;
} catch (const std::runtime_error& error) {
  fmt::print(stderr, "fault_cases: {}\n", error.what());
  return 2;
}
