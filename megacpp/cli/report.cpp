// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/compare_report.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/path_flag.h"
#include "megacpp/cli/progress_line.h"
#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/output_path.h"
#include "megacpp/evidence/receipt/text.h"
#include "megacpp/evidence/report/run_page.h"
#include "megacpp/evidence/report/run_record.h"

namespace megacpp::cli {
namespace {

struct ReportFlags {
  std::vector<std::string> runs;
  std::string out = "report.html";
  bool json = false;
};

std::vector<report::RunRecord> read_with_progress(const std::vector<std::string>& named) {
  ProgressLine progress("report");
  size_t done = 0;
  return report::read_runs(named, [&](const std::filesystem::path& run) {
    if (progress.is_due()) progress.print(fmt::format("{} read, now {}", base::counted(done, "run"), run.string()));
    ++done;
  });
}

void print_problems(const std::vector<report::RunRecord>& runs) {
  for (const report::RunRecord& run : runs)
    for (const report::FileProblem& problem : run.problems)
      print_err("skipped   {}: {}\n", problem.where, problem.what);
}

/// With nothing to show, the first error is the command's.
void require_content(const std::vector<report::RunRecord>& runs) {
  if (!std::ranges::all_of(runs, &report::RunRecord::is_empty)) return;
  for (const report::RunRecord& run : runs)
    for (const report::FileProblem& problem : run.problems)
      if (problem.error) throw *problem.error;
}

Json reported_run_json(const report::RunRecord& run) {
  Json problems = Json::array();
  for (const report::FileProblem& problem : run.problems)
    problems.push_back(Json{{"file", problem.where}, {"problem", problem.what}, {"next", problem.next}});
  Json json = {{"name", run.name}, {"path", run.path.string()}, {"logged_steps", run.log.size()},
               {"ending", Json()}, {"verdict", Json()},         {"problems", std::move(problems)}};
  if (run.receipt) {
    json["ending"] = std::string(base::text_of(run.receipt->ending.kind));
    json["verdict"] = receipt::to_text(run.receipt->verdict);
  }
  return json;
}

int run_report(const ReportFlags& flags) {
  for (const std::string& named : flags.runs)
    MEGACPP_REQUIRE(!named.empty(), E1008,
                    {.where = "an empty path",
                     .got = "no run",
                     .wanted = "run directories, receipts or folders of runs",
                     .next = "see: megacpp runs list"});
  base::require_writable(flags.out);
  const std::vector<report::RunRecord> runs = read_with_progress(flags.runs);
  print_problems(runs);
  require_content(runs);
  const std::vector<compare::Comparison> comparisons = report::comparisons_of(runs);
  const std::string page = report::run_page(runs, comparisons);
  base::write_file_atomically(flags.out, page);
  if (!flags.json) {
    print_out("{}\n", flags.out);
    return 0;
  }
  Json object = {{"page", flags.out}, {"bytes", page.size()}, {"runs", Json::array()}, {"comparisons", Json::array()}};
  for (const report::RunRecord& run : runs) object["runs"].push_back(reported_run_json(run));
  for (const compare::Comparison& comparison : comparisons)
    object["comparisons"].push_back(runs_comparison_json(comparison));
  print_json(object);
  return 0;
}

}  // namespace

Command report_command() {
  return {
      .name = "report",
      .summary = "runs as one HTML page that needs nothing else: pictures, receipts, and what their comparison allows",
      .example =
          "megacpp report latest\n"
          "  megacpp report runs/nam52-tiny-20261116T214512Z --out nam52-tiny.html\n"
          "  megacpp report runs/one-chip runs/two-chips --out chips.html",
      .declare = [](CLI::App& app) -> std::function<int()> {
        auto flags = std::make_shared<ReportFlags>();
        app.add_option("runs", flags->runs, "run directories, receipts, folders of runs, or latest")
            ->required()
            ->type_name("RUN");
        declare_written_path(app, "--out", flags->out, "the page; without: report.html in the current folder")
            ->type_name("FILE");
        app.add_flag("--json", flags->json, "print what the page is made of as JSON");
        return [flags] { return run_report(*flags); };
      }};
}

}  // namespace megacpp::cli
