// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/run_index.h"

#include <algorithm>
#include <set>
#include <system_error>
#include <tuple>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/hash.h"
#include "megacpp/core/base/path.h"
#include "megacpp/evidence/receipt/store.h"
#include "megacpp/evidence/receipt/text.h"
#include "megacpp/evidence/sweep/sweep_file.h"
#include "megacpp/run/launch/runs_folder.h"

namespace megacpp::serve {
namespace {

using receipt::EndingKind;
using receipt::Receipt;

constexpr size_t kMostLogs = 32;  // that are followed at once

struct FoundRun {
  std::filesystem::path path;
  RunFiles files;
  std::filesystem::path sweep;    // that it is one of; empty: none
  int64_t last_start_beside = 0;  // of the runs of its sweep, of which it may be the only one
};

/// That the run at `path` is one of; empty: none.
std::filesystem::path sweep_of(const std::filesystem::path& path, const std::filesystem::path& folder) {
  return path.lexically_relative(folder).has_parent_path() ? path.parent_path().parent_path() : std::filesystem::path();
}

/// The one started last first; those of a sweep stand together, where the last of them would stand alone.
std::vector<FoundRun> runs_by_start(const std::filesystem::path& folder) {
  std::vector<FoundRun> runs;
  std::map<std::filesystem::path, int64_t> last_starts;  // of sweeps
  for (const std::filesystem::path& path : launch::runs_in(folder)) {
    runs.push_back({.path = path, .files = look_at(path), .sweep = sweep_of(path, folder)});
    int64_t& last = last_starts[runs.back().sweep];
    last = std::max(last, runs.back().files.started);
  }
  for (FoundRun& run : runs) run.last_start_beside = run.sweep.empty() ? run.files.started : last_starts.at(run.sweep);
  std::ranges::stable_sort(runs, [](const FoundRun& a, const FoundRun& b) {
    return std::tie(a.last_start_beside, a.sweep, a.files.started) >
           std::tie(b.last_start_beside, b.sweep, b.files.started);
  });
  return runs;
}

std::optional<double> speed_of(const receipt::Times& times) {
  for (const std::optional<receipt::Phase>& phase : {times.steady, times.warm_up})
    if (phase && phase->seconds > 0) return phase->tokens_per_second();
  return std::nullopt;
}

/// Of a process that is gone, or goes on: its receipt is the one that it began with, its log has the rest.
void add_last_report(RunSummary& summary, const std::filesystem::path& run) {
  const std::optional<train::StepReport> last = last_report(run / "log.jsonl");
  if (!last) return;
  summary.steps = last->step + 1;
  summary.loss = last->loss;
  summary.tokens_per_second = tokens_per_second(*last);
}

RunSummary summary_of(const std::filesystem::path& run, const Receipt& receipt) {
  RunSummary summary{.is_read = true};
  summary.ending = receipt.ending.kind;
  summary.started_at = receipt.ending.started_at;
  summary.model = receipt.header.model.name;
  summary.topology = receipt.header.hardware.topology;
  summary.steps = receipt.ending.steps;
  summary.requested_steps = receipt.ending.requested_steps;
  summary.loss = receipt.losses.last;
  summary.tokens_per_second = speed_of(receipt.times);
  summary.verdict = receipt::to_text(receipt.verdict);
  if (receipt.ending.kind == EndingKind::running) {
    add_last_report(summary, run);
    summary.verdict = "";
  }
  return summary;
}

/// What ceilings need.
Receipt outline_of(const Receipt& receipt, const RunSummary& summary) {
  Receipt outline;
  outline.run = receipt.run;
  outline.header = receipt.header;
  outline.ending = receipt.ending;
  outline.ending.steps = summary.steps;
  return outline;
}

RunSummary unreadable(std::string why) { return {.is_read = true, .problem = std::move(why)}; }

std::string live_stamp(const std::filesystem::path& run, const RunFiles& files) {
  return files.stamp + (is_live(run) ? "-live" : "");
}

SweepSummary summary_of_sweep(const std::filesystem::path& folder, std::string name) {
  SweepSummary summary{.name = std::move(name)};
  try {
    const std::filesystem::path file = folder / launch::kSweepFile;
    std::error_code ignored;
    if (std::filesystem::is_symlink(file, ignored)) {
      summary.problem = fmt::format("{} is no regular file", launch::kSweepFile);
    } else if (const std::optional<sweep::Sweep> sweep = sweep::read_sweep(folder)) {
      summary.axis = sweep::to_text(sweep->axis);
      summary.progress = sweep::progress_text(*sweep);
    }
  } catch (const base::Error& error) {
    summary.problem = problem_text(error);
  }
  return summary;
}

std::string stamp_of_all(const RunList& list) {
  std::string text;
  for (const SweepSummary& sweep : list.sweeps)
    text += fmt::format("{} {} {} {}\n", sweep.name, sweep.axis, sweep.progress, sweep.problem);
  for (const RunSummary& run : list.runs) text += run.name + " " + run.stamp + (run.is_read ? "\n" : " unread\n");
  return base::hash_text(text);
}

}  // namespace

RunIndex::Cached RunIndex::read(const std::filesystem::path& run, const RunFiles& files) {
  Cached cached;
  cached.stamp = files.stamp;
  try {
    if (files.problem.empty()) {
      const Receipt receipt = stored_receipt(run, files);
      cached.summary = summary_of(run, receipt);
      cached.outline = outline_of(receipt, cached.summary);
      cached.says_running = receipt.ending.kind == EndingKind::running;
    } else {
      cached.summary = unreadable(files.problem);
    }
  } catch (const base::Error& error) {
    cached.summary = unreadable(problem_text(error));
  }
  cached.summary.stamp = files.stamp;
  return cached;
}

// A process that is gone leaves no trace in the files.
RunSummary RunIndex::settled(const Cached& cached, const std::filesystem::path& run) {
  RunSummary summary = cached.summary;
  if (!cached.says_running) return summary;
  summary.ending = is_live(run) ? EndingKind::running : EndingKind::killed;
  summary.stamp += base::text_of(summary.ending);
  return summary;
}

RunList RunIndex::list(std::chrono::milliseconds budget) {
  const auto end = std::chrono::steady_clock::now() + budget;
  const std::vector<FoundRun> found = runs_by_start(folder_);
  RunList list;
  std::set<std::string> names;
  const std::lock_guard lock(cache_mutex_);
  for (const FoundRun& run : found) {
    const std::string name = name_of(run.path);
    names.insert(name);
    auto cached = cache_.find(name);
    const bool is_stale = cached == cache_.end() || cached->second.stamp != run.files.stamp;
    if (is_stale && std::chrono::steady_clock::now() < end)
      cached = cache_.insert_or_assign(name, read(run.path, run.files)).first;
    // One that changed after the budget was spent is shown as it was.
    list.runs.push_back(cached != cache_.end() ? settled(cached->second, run.path) : RunSummary());
    list.runs.back().name = name;
    if (!run.sweep.empty()) list.runs.back().sweep = name_of(run.sweep);
    if (cached == cache_.end()) ++list.unread;
  }
  for (const std::filesystem::path& sweep : launch::sweeps_in(folder_))
    list.sweeps.push_back(summary_of_sweep(sweep, name_of(sweep)));
  std::erase_if(cache_, [&](const auto& entry) { return !names.contains(entry.first); });
  list.stamp = stamp_of_all(list);
  return list;
}

std::vector<Receipt> RunIndex::outlines() const {
  const std::lock_guard lock(cache_mutex_);
  std::vector<Receipt> all;
  for (const auto& [name, cached] : cache_)
    if (cached.summary.problem.empty()) all.push_back(cached.outline);
  return all;
}

std::vector<metrics::MetricFamily> RunIndex::metric_families() {
  std::vector<FoundRun> found = runs_by_start(folder_);
  std::ranges::stable_sort(found, std::ranges::greater(), [](const FoundRun& run) { return run.files.logged; });
  std::vector<NamedRun> runs;
  for (const FoundRun& run : found) runs.push_back({name_of(run.path), run.path});
  return metric_logs_.families(runs);
}

std::string RunIndex::name_of(const std::filesystem::path& path) const {
  return path.lexically_relative(folder_).string();
}

std::optional<std::filesystem::path> RunIndex::find(const std::string& name) const {
  std::vector<std::filesystem::path> folders = {folder_};
  if (name.find('/') != std::string::npos) folders = launch::folders_of_runs(folder_);
  std::error_code ignored;
  for (const std::filesystem::path& folder : folders)
    for (const std::filesystem::path& entry : base::list_folder(folder))
      if (name_of(entry) == name && !std::filesystem::is_symlink(entry, ignored) && launch::is_run(entry)) return entry;
  return std::nullopt;
}

std::vector<LogPoint> RunIndex::points_of(const std::filesystem::path& run) {
  const std::string name = name_of(run);
  const std::lock_guard lock(logs_mutex_);
  if (logs_.size() >= kMostLogs && !logs_.contains(name)) logs_.clear();
  LogSeries& series = logs_[name];
  series.follow(run / "log.jsonl");
  return series.points();
}

std::optional<RunDetails> RunIndex::details(const std::string& name) {
  const std::optional<std::filesystem::path> run = find(name);
  if (!run) return std::nullopt;
  const RunFiles files = look_at(*run);
  RunDetails details{.stamp = live_stamp(*run, files), .problem = files.problem};
  if (!files.problem.empty()) return details;
  try {
    details.receipt = receipt::receipt_of(*run, receipt::Completion::not_stored);
  } catch (const base::Error& error) {
    details.problem = problem_text(error);
  }
  details.points = points_of(*run);
  return details;
}

std::optional<std::string> RunIndex::stamp_of(const std::string& name) const {
  const std::optional<std::filesystem::path> run = find(name);
  return run ? std::optional(live_stamp(*run, look_at(*run))) : std::nullopt;
}

}  // namespace megacpp::serve
