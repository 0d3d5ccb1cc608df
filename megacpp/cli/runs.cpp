// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/runs_words.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/utf8.h"
#include "megacpp/evidence/receipt/store.h"
#include "megacpp/evidence/receipt/text.h"
#include "megacpp/evidence/sweep/sweep_file.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/checkpoint/reader.h"
#include "megacpp/run/launch/run_directory.h"
#include "megacpp/run/launch/runs_folder.h"

namespace megacpp::cli {
namespace {

struct RunsFlags {
  std::string folder;
  bool json = false;
};

/// The metrics of a line of a log; null where a full disk or a killed process left a part of one.
Json metrics_of(const std::string& line) {
  try {
    Json metrics = base::parse_json(line, base::Code::E1204, "log.jsonl");
    return metrics.is_object() ? metrics : Json();
  } catch (const base::Error&) {
    return {};
  }
}

/// Those of the last sound line of a run's log; null without one.
Json last_metrics(const std::filesystem::path& run) {
  const std::filesystem::path file = run / "log.jsonl";
  if (!base::exists(file)) return {};
  const std::string text = base::read_file(file);
  for (size_t end = text.rfind('\n'); end != std::string::npos;) {
    const size_t before = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
    const size_t begin = before == std::string::npos ? 0 : before + 1;
    if (Json metrics = metrics_of(text.substr(begin, end - begin)); !metrics.is_null()) return metrics;
    end = before;
  }
  return {};
}

/// How the run ended and whether its figures may be compared; the error of a receipt that cannot be read.
Json receipt_json(const std::filesystem::path& run) {
  try {
    const receipt::Receipt read = receipt::receipt_of(run);
    return {{"ending", std::string(base::text_of(read.ending.kind))},
            {"comparable", read.verdict.is_comparable()},
            {"verdict", receipt::to_text(read.verdict)}};
  } catch (const base::Error& error) {
    return {{"error", error_json(error)}};
  }
}

std::string ending_text(const Json& run) {
  const Json& read = run.at("receipt");
  if (const Json* const error = base::find_member(read, "error"))
    return fmt::format("receipt: error {} {}", error->at("code").get<std::string>(),
                       error->at("got").get<std::string>());
  return read.at("ending").get<std::string>();
}

Json run_json(const std::filesystem::path& run) {
  const recipe::Recipe recipe = recipe::load(run / "recipe.yaml");
  const checkpoint::Store store(run / "checkpoints");
  const std::optional<std::filesystem::path> latest = store.latest();
  return {{"run", run.string()},
          {"name", recipe.name},
          {"steps", recipe.train.steps},
          {"checkpoints", store.steps()},
          {"latest", latest ? Json(latest->filename().string()) : Json()},
          {"running", launch::is_in_use(run)},
          {"receipt", receipt_json(run)},
          {"last", last_metrics(run)}};
}

/// One that cannot be read hides no other.
Json run_json_or_error(const std::filesystem::path& run) {
  try {
    return run_json(run);
  } catch (const base::Error& error) {
    return {{"run", run.string()}, {"error", error_json(error)}};
  }
}

std::string loss_text(const Json& last) {
  const Json* const loss = base::find_member(last, "loss");
  const std::optional<double> value = loss != nullptr ? base::as_number(*loss) : std::nullopt;
  return value ? fmt::format("{:.4f}", *value) : "";
}

std::string done_text(const Json& run) {
  const Json* const step = base::find_member(run.at("last"), "step");
  const int64_t done = step != nullptr ? base::as_integer(*step).value_or(-1) + 1 : 0;
  return fmt::format("{}/{}", done, run.at("steps").get<int64_t>());
}

std::string error_row_text(const std::string& name, const Json& error) {
  return fmt::format("{:<50} error {} {}: {}\n", name, error.at("code").get<std::string>(),
                     base::printable_in_line(error.at("where").get<std::string>()),
                     base::printable_in_line(error.at("got").get<std::string>()));
}

std::string row_text(const Json& run) {
  const std::string name = base::printable_in_line(run.at("run").get<std::string>());
  if (const Json* const error = base::find_member(run, "error")) return error_row_text(name, *error);
  return fmt::format("{:<50} {:>13} steps  loss {:>8}  {}{}\n", name, done_text(run), loss_text(run.at("last")),
                     run.at("latest").is_null() ? "no checkpoint" : run.at("latest").get<std::string>(),
                     run.at("running").get<bool>() ? ", running" : ", " + base::printable_in_line(ending_text(run)));
}

/// What a sweep varies, and how far it is; one that cannot be read hides no other.
Json sweep_json_or_error(const std::filesystem::path& folder) {
  try {
    const sweep::Sweep sweep = sweep::read_sweep(folder).value();
    return {{"sweep", folder.string()},
            {"axis", sweep::to_text(sweep.axis)},
            {"progress", sweep::progress_text(sweep)},
            {"done", sweep.trials.size()},
            {"left", sweep::runs_left(sweep)}};
  } catch (const base::Error& error) {
    return {{"sweep", folder.string()}, {"error", error_json(error)}};
  }
}

std::string sweep_row_text(const Json& sweep) {
  const std::string name = base::printable_in_line(sweep.at("sweep").get<std::string>());
  if (const Json* const error = base::find_member(sweep, "error")) return error_row_text(name, *error);
  return fmt::format("{:<50} sweep of {}, {}\n", name, base::printable_in_line(sweep.at("axis").get<std::string>()),
                     sweep.at("progress").get<std::string>());
}

/// Each sweep stands above its runs.
void print_rows(const Json& runs, const Json& sweeps) {
  std::map<std::filesystem::path, const Json*> by_folder;  // where its runs are
  for (const Json& sweep : sweeps) by_folder[launch::runs_of_sweep(sweep.at("sweep").get<std::string>())] = &sweep;
  for (const Json& run : runs) {
    const auto sweep = by_folder.find(std::filesystem::path(run.at("run").get<std::string>()).parent_path());
    if (sweep != by_folder.end() && sweep->second != nullptr)
      write_output(sweep_row_text(*std::exchange(sweep->second, nullptr)));
    write_output(row_text(run));
  }
  for (const auto& [folder, sweep] : by_folder)
    if (sweep != nullptr) write_output(sweep_row_text(*sweep));
}

int list_runs(const RunsFlags& flags) {
  const std::filesystem::path folder =
      flags.folder.empty() ? launch::runs_folder() : std::filesystem::path(flags.folder);
  Json runs = Json::array(), sweeps = Json::array();
  for (const std::filesystem::path& run : launch::runs_in(folder)) runs.push_back(run_json_or_error(run));
  for (const std::filesystem::path& sweep : launch::sweeps_in(folder)) sweeps.push_back(sweep_json_or_error(sweep));
  if (flags.json) {
    print_json({{"folder", folder.string()}, {"runs", runs}, {"sweeps", sweeps}});
    return 0;
  }
  if (runs.empty() && sweeps.empty())
    print_err("no runs in {}; name another folder, or set MEGACPP_RUNS to it\n", folder.string());
  print_rows(runs, sweeps);
  return 0;
}

int show_run(const RunsFlags& flags) {
  const std::filesystem::path run = launch::find_run(flags.folder);
  Json json = run_json(run);
  json["recipe"] = base::read_file(run / "recipe.yaml");
  if (flags.json) {
    print_json(json);
    return 0;
  }
  print_out("run          {}{}\nending       {}\nsteps        {}\nloss         {}\nlatest       {}\ncheckpoints ",
            run.string(), json.at("running").get<bool>() ? " (running)" : "", ending_text(json), done_text(json),
            loss_text(json.at("last")), json.at("latest").is_null() ? "none" : json.at("latest").get<std::string>());
  for (const Json& step : json.at("checkpoints")) print_out(" {}", step.get<int64_t>());
  write_output("\n\n" + json.at("recipe").get<std::string>());
  return 0;
}

Command list_word() {
  return {.name = "list",
          .summary = "runs with their steps, loss and newest checkpoint",
          .example = "megacpp runs list",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<RunsFlags>();
            app.add_option("folder", flags->folder, "where runs are; without: runs, or what MEGACPP_RUNS names")
                ->type_name("DIR");
            app.add_flag("--json", flags->json, "print JSON");
            return [flags] { return list_runs(*flags); };
          }};
}

Command show_word() {
  return {.name = "show",
          .summary = "one run: where it is, its checkpoints, its recipe",
          .example = "megacpp runs show latest",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<RunsFlags>();
            app.add_option("run", flags->folder, "a run directory, or latest")->required()->type_name("DIR");
            app.add_flag("--json", flags->json, "print JSON");
            return [flags] { return show_run(*flags); };
          }};
}

}  // namespace

Command runs_command() {
  return {.name = "runs",
          .summary = "what training runs left in their directories",
          .example = "megacpp runs list",
          .declare = [](CLI::App& app) {
            return declare_words(app, {list_word(), show_word(), runs_export_word()});
          }};
}

}  // namespace megacpp::cli
