// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/campaign.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>

#include "tests/faults/fault.h"
#include "tests/faults/shell_run.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::faults {
namespace {

using testing_support::Ending;
using testing_support::TemporaryFolder;

struct Case {
  const Fault& fault;
  const Command& command;
  Injection injection;
  std::string folder;
};

std::string shell_line(const Case& one, std::string words) {
  for (size_t at = words.find("@/"); at != std::string::npos; at = words.find("@/")) words.replace(at, 1, one.folder);
  return "export MEGACPP_CATALOG=" + one.folder + "/catalog.sqlite MEGACPP_RUNS=" + one.folder + "/runs; " +
         one.injection.before + " " MEGACPP_PROGRAM " " + words + " " + one.injection.after;
}

// A process whose libraries could not be loaded never was megacpp.
bool is_not_started(const Ending& ending) {
  constexpr int kLoaderStatus = 127;
  return ending.status == kLoaderStatus && ending.err.find("error while loading shared libraries") != std::string::npos;
}

std::vector<std::string> judge(const Case& one, Ending ending) {
  const Injection& injection = one.injection;
  const bool was_killed = std::ranges::count(injection.signals, SIGKILL) > 0;
  if (is_not_started(ending) || (was_killed && ending.signal == SIGKILL)) return {};
  ending.json = one.command.json && !injection.hides_stdout;
  if (!injection.hides_stderr || ending.hung || ending.signal != 0) return testing_support::breaches_of(ending);
  const bool is_documented = ending.status <= 3 || ending.status == base::kInterruptedStatus;
  return is_documented ? std::vector<std::string>{} : std::vector{"status " + std::to_string(ending.status)};
}

void count(const Ending& ending, Counts& counts) {
  if (is_not_started(ending))
    ++counts.not_started;
  else if (ending.signal == SIGKILL)
    ++counts.killed;
  else if (ending.status == base::kInterruptedStatus)
    ++counts.stopped;
  else if (ending.status == 0)
    ++counts.completed;
  else
    ++counts.refused;
}

void send_signals(const Injection& injection, pid_t pid) {
  if (injection.signals.empty()) return;
  wait_for_main(pid);
  for (const int signal : injection.signals) {
    std::this_thread::sleep_for(injection.pause);
    ::kill(pid, signal);
  }
}

std::string signals_text(const Injection& injection) {
  std::string text;
  for (const int signal : injection.signals)
    text += (text.empty() ? "" : ", then ") + std::string("kill -") + std::to_string(signal) + " after " +
            std::to_string(injection.pause.count()) + " ms";
  return text;
}

class Campaign {
 public:
  explicit Campaign(const CampaignOptions& options) : options_(options) {
    // What a launch measures of this machine is kept here for all cases, and the user's own stays as it is.
    ::setenv("XDG_CACHE_HOME", (root_ / "cache").c_str(), 1);
    run_shell({.line = "exec " MEGACPP_PROGRAM " hw measure",
               .folder = root_.path().string(),
               .name = "measure",
               .time_limit = std::chrono::seconds(60)},
              [](pid_t) {});
    for (const Fault& fault : all_faults()) {
      if (fault.is_possible())
        faults_.push_back(&fault);
      else
        result_.left_out.push_back(fault.name);
    }
  }

  CampaignResult run() {
    const int64_t first = options_.only_case.value_or(0), end = options_.only_case ? first + 1 : options_.cases;
    std::atomic<int64_t> next{first};
    std::vector<std::thread> workers;
    for (int i = 0; i < options_.jobs; ++i)
      workers.emplace_back([&] {
        for (int64_t number = next++; number < end; number = next++) run_case(number);
      });
    for (std::thread& worker : workers) worker.join();
    std::ranges::sort(result_.findings, {}, &Finding::number);
    return std::move(result_);
  }

 private:
  void run_case(int64_t number) {
    Draw draw(options_.seed, static_cast<uint64_t>(number));
    const std::string folder = (root_ / std::to_string(number)).string();
    std::filesystem::create_directory(folder);
    const Fault& fault = *draw.one_of(faults_);
    const Command& command = draw.one_of(all_commands());
    const Case one{fault, command, fault.inject(draw, folder), folder};
    const std::string line = shell_line(one, command.words);
    std::vector<std::thread> launches;
    for (int i = 0; i < one.injection.launches; ++i)
      launches.emplace_back([&, i] { launch(number, one, line, std::to_string(i)); });
    for (std::thread& each : launches) each.join();
    read_catalog(number, one);
    std::filesystem::remove_all(folder);
    const std::lock_guard lock(mutex_);
    ++result_.by_fault[fault.name].cases;
  }

  void launch(int64_t number, const Case& one, const std::string& line, const std::string& name) {
    const Ending ending =
        run_shell({line, root_.path().string(), std::to_string(number) + "." + name, options_.time_limit},
                  [&](pid_t pid) { send_signals(one.injection, pid); });
    record({.number = number,
            .fault = one.fault.name,
            .line = line,
            .signals = signals_text(one.injection),
            .breaches = judge(one, ending),
            .err = ending.err});
    const std::lock_guard lock(mutex_);
    count(ending, result_.by_fault[one.fault.name]);
  }

  // After any fault the catalog is one that commands read. Where it was being made, it is none yet, and the next launch
  // fills it.
  void read_catalog(int64_t number, const Case& one) {
    const Case check{one.fault, one.command, {}, one.folder};
    const std::string list = shell_line(check, "catalog list --json");
    const auto run = [&](const std::string& line) {
      return run_shell({line, root_.path().string(), std::to_string(number) + ".catalog", options_.time_limit},
                       [](pid_t) {});
    };
    Ending ending = run(list);
    if (ending.status != 0) {
      run(shell_line(check, all_commands().front().words));
      ending = run(list);
    }
    ending.json = true;
    std::vector<std::string> breaches = testing_support::breaches_of(ending);
    if (ending.status != 0) breaches.push_back("afterwards the catalog cannot be read");
    record({.number = number,
            .fault = one.fault.name,
            .line = list,
            .signals = {},
            .breaches = breaches,
            .err = ending.err});
  }

  void record(Finding finding) {
    if (finding.breaches.empty()) return;
    const std::lock_guard lock(mutex_);
    ++result_.by_fault[finding.fault].findings;
    result_.findings.push_back(std::move(finding));
  }

  const CampaignOptions options_;
  const TemporaryFolder root_;
  std::vector<const Fault*> faults_;
  std::mutex mutex_;
  CampaignResult result_;
};

}  // namespace

CampaignResult run_campaign(const CampaignOptions& options) { return Campaign(options).run(); }

}  // namespace megacpp::faults
