// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/report/run_record.h"

#include <cstdint>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/path.h"
#include "megacpp/evidence/compare/sides.h"
#include "megacpp/evidence/receipt/store.h"
#include "megacpp/run/launch/runs_folder.h"
#include "megacpp/run/train/step_log.h"

namespace megacpp::report {
namespace {

FileProblem problem_of(const base::Error& error) {
  FileProblem problem{.where = error.problem().where, .what = "", .next = error.problem().next};
  problem.what =
      fmt::format("{} {}: {}", base::code_name(error.code()), base::code_title(error.code()), error.problem().got);
  problem.error = error;
  return problem;
}

/// What reading ends with, as a problem; defects of ours stay errors.
void read_or_note(RunRecord& run, const std::function<void()>& read) {
  try {
    read();
  } catch (const base::Error& error) {
    if (base::class_of(error.code()) == base::ErrorClass::internal) throw;
    run.problems.push_back(problem_of(error));
  }
}

std::string folder_name_of(const std::filesystem::path& path) {
  const std::filesystem::path whole = base::exists(path) ? base::canonical(path) : path;
  const std::filesystem::path named = whole.filename() == receipt::kReceiptFile ? whole.parent_path() : whole;
  return named.has_filename() ? named.filename().string() : path.string();
}

/// The log beside a receipt; nothing where a receipt stands alone under a name of its own.
std::filesystem::path log_of(const std::filesystem::path& path) {
  if (base::is_folder(path)) return path / "log.jsonl";
  return path.filename() == receipt::kReceiptFile ? path.parent_path() / "log.jsonl" : std::filesystem::path();
}

/// Whether its receipt says that steps were made, which a log should have.
bool has_steps(const RunRecord& run) {
  return run.receipt && run.receipt->ending.steps > run.receipt->ending.first_step;
}

void read_log_of(RunRecord& run) {
  const std::filesystem::path file = log_of(run.path);
  FileProblem problem{.where = file.empty() ? run.path.string() : file.string(), .what = "", .next = ""};
  if (file.empty() || !base::exists(file)) {
    problem.what = "no log of its steps: loss and throughput are not drawn";
    problem.next = "name the run directory that has its log.jsonl";
    if (has_steps(run)) run.problems.push_back(std::move(problem));
    return;
  }
  train::StepLog log = train::read_log(file);
  run.log = std::move(log.reports);
  const int64_t lines = log.broken_lines + static_cast<int64_t>(run.log.size());
  problem.what = fmt::format("{} of {} lines are broken or half-written, and left out", log.broken_lines, lines);
  problem.next = "nothing is to be done: a killed process or a full disk leaves such lines";
  if (log.broken_lines > 0) run.problems.push_back(std::move(problem));
}

RunRecord read_run(const std::filesystem::path& path) {
  RunRecord run{.name = path.string(), .path = path};
  read_or_note(run, [&] { run.name = folder_name_of(path); });
  if (!run.problems.empty()) return run;
  read_or_note(run, [&] { run.receipt = receipt::receipt_of(path); });
  if (base::exists(path)) read_or_note(run, [&] { read_log_of(run); });
  return run;
}

void make_names_distinct(std::vector<RunRecord>& runs) {
  std::map<std::string, int> counts, used;
  for (const RunRecord& run : runs) ++counts[run.name];
  for (RunRecord& run : runs) {
    if (counts[run.name] > 1) run.name = run.path.string();
    if (const int times = ++used[run.name]; times > 1) run.name += fmt::format(" ({})", times);
    if (run.receipt) run.receipt->run = run.name;
  }
}

}  // namespace

std::vector<RunRecord> read_runs(const std::vector<std::string>& named,
                                 const std::function<void(const std::filesystem::path&)>& on_run) {
  std::vector<RunRecord> runs;
  for (const std::string& name : named) {
    std::vector<std::filesystem::path> found;
    RunRecord unread{.name = name, .path = name};
    read_or_note(unread, [&] { found = compare::runs_at(launch::path_named(name)); });
    if (!unread.problems.empty()) {
      runs.push_back(std::move(unread));
      continue;
    }
    for (const std::filesystem::path& run : found) {
      if (on_run) on_run(run);
      runs.push_back(read_run(run));
    }
  }
  make_names_distinct(runs);
  return runs;
}

}  // namespace megacpp::report
