// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/sweep/sweep_file.h"

#include <cstdint>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/record_from_json.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/run/launch/runs_folder.h"

namespace megacpp::sweep {

// A line of the file (base/record.h).
struct TrialLine {
  int64_t value = -1;
  int64_t repeat = -1;
  std::string run = {};
  int64_t status = 0;
  std::string error = {};
};

struct SweepLines {
  std::string axis = {};
  std::vector<std::string> values = {};
  int64_t repeats = 0;
  std::vector<TrialLine> trials = {};
};

template <typename Visit, base::Is<TrialLine> Self>
void visit_fields(const Visit& visit, Self& line) {
  visit("value", line.value, "of the axis, from 0");
  visit("repeat", line.repeat, "from 0");
  visit("run", line.run, "folder in runs/");
  visit("status", line.status, "of the command");
  visit("error", line.error);
}

template <typename Visit, base::Is<SweepLines> Self>
void visit_fields(const Visit& visit, Self& lines) {
  visit("axis", lines.axis, "a recipe key");
  visit("values", lines.values);
  visit("repeats", lines.repeats, "runs of each value");
  visit("trials", lines.trials, "in the order they were run");
}

namespace {

[[noreturn]] void refuse_file(const std::filesystem::path& file, std::string got) {
  base::raise(base::Code::E1008, {.where = file.string(),
                                  .got = std::move(got),
                                  .wanted = "what a sweep has written",
                                  .next = "name another folder with --dir, or remove this one"});
}

TrialRecord trial_of(const TrialLine& line, const Sweep& sweep, const std::filesystem::path& file) {
  const auto is_below = [](int64_t number, size_t end) { return number >= 0 && static_cast<size_t>(number) < end; };
  if (!is_below(line.value, sweep.axis.values.size())) refuse_file(file, "a run of a value that is not there");
  if (!is_below(line.repeat, kMostRepeats)) refuse_file(file, "a run without a repeat that may be");
  if (!is_below(line.status, 256) || line.run.empty()) refuse_file(file, "a run without a folder or an exit status");
  return {.trial = {.value = static_cast<size_t>(line.value), .repeat = static_cast<size_t>(line.repeat)},
          .run = line.run,
          .status = static_cast<int>(line.status),
          .error = line.error};
}

}  // namespace

void write_sweep(const Sweep& sweep) {
  SweepLines lines{.axis = sweep.axis.key, .values = sweep.axis.values, .repeats = static_cast<int64_t>(sweep.repeats)};
  for (const TrialRecord& record : sweep.trials)
    lines.trials.push_back({.value = static_cast<int64_t>(record.trial.value),
                            .repeat = static_cast<int64_t>(record.trial.repeat),
                            .run = record.run,
                            .status = record.status,
                            .error = record.error});
  base::write_file_atomically(sweep.folder / launch::kSweepFile, base::to_text(base::record_json(lines), 2) + "\n");
}

std::optional<Sweep> read_sweep(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / launch::kSweepFile;
  if (!base::exists(file)) return std::nullopt;
  const base::Json json = base::parse_json(base::read_file(file), base::Code::E1008, file.string());
  SweepLines lines;
  const auto refuse = [&](const std::string& path, std::string_view wanted) {
    refuse_file(file, (path.empty() ? "a value" : path) + " that is not " + std::string(wanted));
  };
  base::read_record(json, lines, "", {.on_mismatch = refuse});
  if (lines.axis.empty() || lines.values.empty()) refuse_file(file, "no axis, or none with values");
  if (lines.repeats < 1 || lines.repeats > static_cast<int64_t>(kMostRepeats))
    refuse_file(file, std::to_string(lines.repeats) + " repeats");
  Sweep sweep{.folder = folder,
              .axis = {.key = lines.axis, .values = lines.values},
              .repeats = static_cast<size_t>(lines.repeats)};
  for (const TrialLine& line : lines.trials) sweep.trials.push_back(trial_of(line, sweep, file));
  return sweep;
}

}  // namespace megacpp::sweep
