// SPDX-License-Identifier: Apache-2.0
#include "megacpp/serve/run_index.h"

#include <algorithm>
#include <set>
#include <utility>

#include "megacpp/base/error.h"
#include "megacpp/base/hash.h"
#include "megacpp/base/path.h"
#include "megacpp/launch/run_directory.h"
#include "megacpp/receipt/store.h"
#include "megacpp/receipt/text.h"

namespace megacpp::serve {
namespace {

using receipt::EndingKind;
using receipt::Receipt;

constexpr size_t kMostLogs = 32;  // that are followed at once

struct FoundRun {
  std::filesystem::path path;
  RunFiles files;
};

/// The one started last first.
std::vector<FoundRun> runs_by_start(const std::filesystem::path& folder) {
  std::vector<FoundRun> runs;
  for (const std::filesystem::path& path : launch::runs_in(folder)) runs.push_back({path, look_at(path)});
  std::ranges::stable_sort(runs, std::ranges::greater(), [](const FoundRun& run) { return run.files.started; });
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
  RunSummary summary{.name = run.filename().string(), .is_read = true};
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

RunSummary unreadable(const std::filesystem::path& run, std::string why) {
  return {.name = run.filename().string(), .is_read = true, .problem = std::move(why)};
}

std::string live_stamp(const std::filesystem::path& run, const RunFiles& files) {
  return files.stamp + (is_live(run) ? "-live" : "");
}

std::string stamp_of_all(const RunList& list) {
  std::string text;
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
      cached.summary = unreadable(run, files.problem);
    }
  } catch (const base::Error& error) {
    cached.summary = unreadable(run, problem_text(error));
  }
  cached.summary.stamp = files.stamp;
  return cached;
}

// A process that is gone leaves no trace in the files.
RunSummary RunIndex::settled(const Cached& cached, const std::filesystem::path& run) {
  RunSummary summary = cached.summary;
  if (!cached.says_running) return summary;
  summary.ending = is_live(run) ? EndingKind::running : EndingKind::killed;
  summary.stamp += receipt::ending_name(summary.ending);
  return summary;
}

RunList RunIndex::list(std::chrono::milliseconds budget) {
  const auto end = std::chrono::steady_clock::now() + budget;
  const std::vector<FoundRun> found = runs_by_start(folder_);
  RunList list;
  std::set<std::string> names;
  const std::lock_guard lock(cache_mutex_);
  for (const FoundRun& run : found) {
    const std::string name = run.path.filename().string();
    names.insert(name);
    auto cached = cache_.find(name);
    const bool is_stale = cached == cache_.end() || cached->second.stamp != run.files.stamp;
    if (is_stale && std::chrono::steady_clock::now() < end)
      cached = cache_.insert_or_assign(name, read(run.path, run.files)).first;
    // One that changed after the budget was spent is shown as it was.
    if (cached != cache_.end()) {
      list.runs.push_back(settled(cached->second, run.path));
    } else {
      list.runs.push_back({.name = name});
      ++list.unread;
    }
  }
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
  std::vector<std::filesystem::path> paths;
  for (const FoundRun& run : found) paths.push_back(run.path);
  return metric_logs_.families(paths);
}

std::optional<std::filesystem::path> RunIndex::find(const std::string& name) const {
  std::error_code ignored;
  for (const std::filesystem::path& entry : base::list_folder(folder_))
    if (entry.filename().string() == name)
      return !std::filesystem::is_symlink(entry, ignored) && launch::is_run(entry) ? std::optional(entry)
                                                                                   : std::nullopt;
  return std::nullopt;
}

std::vector<LogPoint> RunIndex::points_of(const std::filesystem::path& run) {
  const std::string name = run.filename().string();
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
