// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/campaign.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "tests/faults/case_folder.h"
#include "tests/faults/command.h"
#include "tests/faults/fault.h"
#include "tests/faults/judge.h"
#include "tests/faults/shell_run.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::faults {
namespace {

using testing_support::Ending;
using testing_support::TemporaryFolder;

struct Case {
  int64_t number;
  const Fault& fault;
  const Command& command;
  Injection injection;
  Folders folders;
};

std::string shell_line(const Injection& injection, const std::string& words, const Folders& folders) {
  return "export MEGACPP_CATALOG=" + folders.own + "/" + kCatalogFile + " MEGACPP_RUNS=" + folders.own + "/runs; " +
         injection.before + " " MEGACPP_PROGRAM " " + with_folders(words, folders) + " " + injection.after;
}

void count(const Ending& ending, Counts& counts) {
  if (testing_support::is_not_started(ending))
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

/// What ends a command that would go on for ever.
Injection with_an_end(Injection injection, const Command& command) {
  if (!command.until_stopped || !injection.signals.empty()) return injection;
  injection.signals = {SIGTERM};
  injection.pause = std::chrono::milliseconds(200);
  return injection;
}

/// How long it took from the first signal to the last. A command that has ended gets no more of them.
std::chrono::milliseconds send_signals(const Injection& injection, pid_t pid) {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> first, last;
  if (!injection.signals.empty()) wait_for_main(pid);
  for (const int signal : injection.signals) {
    if (has_ended_within(pid, last ? injection.gap : injection.pause)) break;
    ::kill(pid, signal);
    last = Clock::now();
    if (!first) first = last;
  }
  return first ? std::chrono::ceil<std::chrono::milliseconds>(*last - *first) : std::chrono::milliseconds(0);
}

// Those of a folder but for the catalog, by name.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && !entry.is_symlink() && !entry.path().filename().string().starts_with(kCatalogFile))
      files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

void shorten_file(const Injection& injection, const Folders& folders, pid_t pid) {
  if (!injection.shortening) return;
  const std::vector<std::filesystem::path> files = files_below(folders.shared);
  const std::filesystem::path& file = files[static_cast<size_t>(injection.shortening->file) % files.size()];
  const auto bytes = std::filesystem::file_size(file) * static_cast<uintmax_t>(injection.shortening->percent) / 100;
  wait_for_main(pid);
  std::this_thread::sleep_for(injection.pause);
  std::error_code gone;  // by the command
  std::filesystem::resize_file(file, bytes, gone);
}

// What a line does not say.
std::string surroundings_text(const Injection& injection) {
  std::string text;
  if (injection.disk)
    text = injection.disk->read_only ? "on a read-only disk"
                                     : "on a disk with " + std::to_string(injection.disk->free_kib) + " KiB free";
  std::chrono::milliseconds pause = injection.pause;
  for (const int signal : injection.signals) {
    text += (text.empty() ? "" : ", then ") + std::string("kill -") + std::to_string(signal) + " after " +
            std::to_string(pause.count()) + " ms";
    pause = injection.gap;
  }
  if (injection.shortening)
    text += "file " + std::to_string(injection.shortening->file) + " of its own copy of the shared folder cut to " +
            std::to_string(injection.shortening->percent) + " % after " + std::to_string(injection.pause.count()) +
            " ms";
  return text;
}

class Campaign {
 public:
  explicit Campaign(const CampaignOptions& options) : options_(options) {
    for (const Fault& fault : all_faults()) {
      if (fault.is_possible())
        faults_.push_back(&fault);
      else
        result_.left_out.push_back({fault.name, "not possible here"});
    }
    for (const Command& command : all_commands()) {
      if (const std::string why_not = command.why_not(); !why_not.empty())
        result_.left_out.push_back({command.name, why_not});
      else
        commands_.push_back(&command);
    }
    // What a launch measures of this machine is kept here for all cases, and the user's own stays as it is.
    ::setenv("XDG_CACHE_HOME", (root_ / "cache").c_str(), 1);
    for (const char* allowed : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) ::setenv(allowed, "1", 1);
    std::filesystem::create_directory(shared_);
    for (const Preparation& preparation : preparations()) prepare(preparation);
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
  // Without what cases read there is nothing to be judged.
  void prepare(const Preparation& preparation) const {
    const Folders folders{.own = shared_, .shared = shared_};
    const Ending ending = run_shell({.line = shell_line({}, preparation.words, folders),
                                     .folder = root_.path().string(),
                                     .name = "prepare",
                                     .time_limit = std::chrono::seconds(60)},
                                    [](pid_t) {});
    if (ending.status != preparation.status || ending.signal != 0 || ending.hung)
      throw std::runtime_error("cannot prepare the cases: megacpp " + preparation.words + "\n" + ending.err);
  }

  void run_case(int64_t number) {
    Draw draw(options_.seed, static_cast<uint64_t>(number));
    const Fault& fault = *draw.one_of(faults_);
    const Injection drawn = fault.inject(draw);
    const Command& command = drawn_command(draw, drawn);
    const std::string folder = (root_ / std::to_string(number)).string();
    const Injection injection = with_an_end(drawn, command);
    const std::string read = injection.shortening ? folder + "/shared" : shared_;
    const Case one{number, fault, command, injection, {.own = folder, .shared = read}};
    try {
      const CaseFolder own(folder, std::filesystem::path(shared_) / kCatalogFile, one.injection.disk);
      constexpr auto kAll = std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks;
      if (injection.shortening) std::filesystem::copy(shared_, read, kAll);
      launch_all(one);
      own.lift_fault();
      list_catalog(one);
    } catch (const std::system_error& error) {
      record({.number = number, .fault = fault.name, .breaches = {error.what()}});
    }
    const std::lock_guard lock(mutex_);
    ++result_.by_fault[fault.name].cases;
  }

  const Command& drawn_command(Draw& draw, const Injection& injection) const {
    const bool is_signal_alone = !injection.signals.empty() && injection.launches == 1;
    for (;;) {
      const Command& command = *draw.one_of(commands_);
      if (!command.has_launcher || is_signal_alone) return command;
    }
  }

  void launch_all(const Case& one) {
    std::vector<std::thread> launches;
    for (int i = 0; i < one.injection.launches; ++i) launches.emplace_back([&, i] { launch(one, std::to_string(i)); });
    for (std::thread& each : launches) each.join();
  }

  void launch(const Case& one, const std::string& name) {
    const std::string line = shell_line(one.injection, one.command.words, one.folders);
    std::chrono::milliseconds apart{0};
    const Ending ending = run_shell(
        {line, root_.path().string(), std::to_string(one.number) + "." + name, options_.time_limit}, [&](pid_t pid) {
          apart = send_signals(one.injection, pid);
          shorten_file(one.injection, one.folders, pid);
        });
    std::vector<std::string> breaches = judge_command(one.injection, one.command, ending);
    if (is_one_request(one.injection, apart))
      std::ranges::move(judge_run(std::filesystem::path(one.folders.own) / kRunFolder), std::back_inserter(breaches));
    record({.number = one.number,
            .fault = one.fault.name,
            .line = line,
            .surroundings = surroundings_text(one.injection),
            .breaches = std::move(breaches),
            .err = ending.err});
    const std::lock_guard lock(mutex_);
    count(ending, result_.by_fault[one.fault.name]);
  }

  // Where the command ran, and at the first attempt: no fault may leave a catalog that needs mending.
  void list_catalog(const Case& one) {
    const std::string line = shell_line({}, "catalog list --json", one.folders);
    const Ending ending = run_shell(
        {line, root_.path().string(), std::to_string(one.number) + ".catalog", options_.time_limit}, [](pid_t) {});
    record({.number = one.number,
            .fault = one.fault.name,
            .line = line,
            .surroundings = "after: megacpp " + with_folders(one.command.words, one.folders),
            .breaches = judge_catalog(ending),
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
  const std::string shared_ = (root_ / "shared").string();
  std::vector<const Fault*> faults_;
  std::vector<const Command*> commands_;
  std::mutex mutex_;
  CampaignResult result_;
};

}  // namespace

CampaignResult run_campaign(const CampaignOptions& options) { return Campaign(options).run(); }

}  // namespace megacpp::faults
