// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/json.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/path_flag.h"
#include "megacpp/cli/runs_words.h"
#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/evidence/metrics/csv.h"
#include "megacpp/evidence/metrics/event_file.h"
#include "megacpp/run/launch/run_directory.h"
#include "megacpp/run/train/step_log.h"

namespace megacpp::cli {
namespace {

struct RunsExportFlags {
  std::string run;
  std::string csv;          // file; empty: none
  std::string tensorboard;  // folder; empty: none
  bool json = false;
};

int export_run(const RunsExportFlags& flags) {
  MEGACPP_REQUIRE(!flags.csv.empty() || !flags.tensorboard.empty(), E1007,
                  {.where = "runs export",
                   .got = "neither --csv nor --tensorboard",
                   .wanted = "one of them, or both",
                   .next = "run: megacpp runs export --help"});
  const std::filesystem::path run = base::canonical(launch::find_run(flags.run));
  const std::vector<train::StepReport> reports = train::read_log(run / "log.jsonl").reports;
  Json written = {{"run", run.string()}, {"logged_steps", reports.size()}, {"csv", Json()}, {"tensorboard", Json()}};
  if (!flags.csv.empty()) {
    base::write_file_atomically(flags.csv, metrics::csv_text(reports));
    written["csv"] = flags.csv;
  }
  if (!flags.tensorboard.empty())
    written["tensorboard"] =
        metrics::write_event_file(std::filesystem::path(flags.tensorboard) / run.filename(), reports).string();
  if (flags.json) {
    print_json(written);
    return 0;
  }
  for (const char* kind : {"csv", "tensorboard"})
    if (!written.at(kind).is_null())
      print_out("{:<12} {} ({})\n", kind, written.at(kind).get<std::string>(),
                base::counted(std::ssize(reports), "logged step"));
  return 0;
}

}  // namespace

Command runs_export_word() {
  return {.name = "export",
          .summary = "the log of a run for others' tools: CSV, TensorBoard",
          .example =
              "megacpp runs export latest --csv log.csv\n"
              "  megacpp runs export latest --tensorboard events; tensorboard --logdir events",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<RunsExportFlags>();
            app.add_option("run", flags->run, "a run directory, or latest")->required()->type_name("DIR");
            declare_written_path(app, "--csv", flags->csv, "write a line for each logged step")->type_name("FILE");
            declare_written_path(app, "--tensorboard", flags->tensorboard,
                                 "write an event file into the folder of this name, below it in one named as the run")
                ->type_name("DIR");
            app.add_flag("--json", flags->json, "print JSON");
            return [flags] { return export_run(*flags); };
          }};
}

}  // namespace megacpp::cli
