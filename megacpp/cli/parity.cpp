// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/parity.h"
#include "megacpp/program/recipe/parse.h"

#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/pass_flags.h"
#include "megacpp/cli/recipe_flags.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/suggest.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/program/recipe/schema.h"

namespace megacpp::cli {
namespace {

constexpr const char* kThreadsKey = "train.threads";
constexpr const char* kBackendKey = "backend";
constexpr const char* kXlaKeys = "xla.";
constexpr const char* kLayoutKeys = "layout.";

struct ParityFlags {
  std::string file;
  std::vector<std::string> overrides;
  std::vector<std::string> without;
  bool json = false;
};

// A misspelt section is not one of these keys, but most likely meant to be.
std::string suggestion(const std::string& key) {
  std::vector<std::string> known = {kThreadsKey};
  for (const recipe::Key& each : recipe::keys())
    if (each.path.starts_with(kLayoutKeys)) known.push_back(each.path);
  const std::string section = std::string(kLayoutKeys) + key.substr(key.find('.') + 1);
  const bool is_key = recipe::find_key(section) != nullptr;
  return is_key ? "did you mean '" + section + "'?"
                : base::did_you_mean(key, known, fmt::format("see {}* in megacpp keys", kLayoutKeys));
}

// The golden file says what the model is; only how it runs can be set.
recipe::Recipe settings_of(const std::vector<std::string>& overrides) {
  for (const std::string& override : overrides) {
    const std::string key = override.substr(0, override.find('='));
    MEGACPP_REQUIRE(
        key == kThreadsKey || key == kBackendKey || key.rfind(kLayoutKeys, 0) == 0 || key.rfind(kXlaKeys, 0) == 0,
        E1001,
        {.where = "--set " + override,
         .got = "'" + key + "'",
         .wanted = fmt::format("{}, {}, {}* or {}*: the model itself comes from the golden file", kThreadsKey,
                               kBackendKey, kLayoutKeys, kXlaKeys),
         .next = suggestion(key)});
  }
  recipe::Recipe settings;
  recipe::apply_overrides(settings, overrides);
  return settings;
}

void print_table(const train::ParityReport& report) {
  print_out("{} pattern {}\n", report.model_class, report.pattern);
  print_out("{:<58} {:>12} {:>12} {:>9}  {}\n", "tensor", "max abs", "relative", "allowed", "");
  for (const train::ParityRow& row : report.rows)
    print_out("{:<58} {:>12.3e} {:>12.3e} {:>9.0e}  {}\n", row.name, row.max_abs_error, row.relative_error,
              row.tolerance, row.passed ? "ok" : "OVER");
}

void print_report_json(const train::ParityReport& report) {
  Json rows = Json::array();
  for (const train::ParityRow& row : report.rows)
    rows.push_back(Json{{"name", row.name},
                        {"max_abs_error", row.max_abs_error},
                        {"relative_error", row.relative_error},
                        {"tolerance", row.tolerance},
                        {"passed", row.passed}});
  print_json({{"class", report.model_class}, {"pattern", report.pattern}, {"passed", report.passed()}, {"rows", rows}});
}

// The table is printed either way; the error ends the command after that.
void require_match(const std::string& file, const train::ParityReport& report) {
  size_t over = 0;
  const train::ParityRow* worst = nullptr;
  for (const train::ParityRow& row : report.rows) {
    if (row.passed) continue;
    ++over;
    if (worst == nullptr || !(row.relative_error <= worst->relative_error)) worst = &row;
  }
  print_err("{} of {} tensors within tolerance\n", report.rows.size() - over, report.rows.size());
  MEGACPP_REQUIRE(over == 0, E1303,
                  {.where = file,
                   .got = fmt::format("{} of {} tensors differ, the most {}: {:.3e} relative", over, report.rows.size(),
                                      worst->name, worst->relative_error),
                   .wanted = fmt::format("at most {:.0e} relative", worst->tolerance),
                   .next = "run it with --without PASS for each optional pass, or with another layout or backend, to "
                           "find what is at fault"});
}

int run_parity(const ParityFlags& flags) {
  const recipe::Recipe settings = settings_of(flags.overrides);
  const train::ParityReport report =
      train::run_parity(flags.file, settings, runtime::backend_named(settings.backend), {.without = flags.without});
  if (flags.json)
    print_report_json(report);
  else
    print_table(report);
  require_match(flags.file, report);
  return 0;
}

}  // namespace

Command parity_command() {
  return {.name = "parity",
          .summary = "compare outputs and every gradient with a golden file of a public reference model",
          .example = "megacpp parity tests/golden/models/mamba2_tiny.safetensors",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<ParityFlags>();
            app.add_option("file", flags->file, "golden file (safetensors)")->required()->type_name("FILE");
            declare_overrides(app, flags->overrides,
                              "override how it runs: layout.*, xla.* or train.threads, e.g. --set "
                              "layout.tensor_parallel=2; may be repeated");
            declare_backend(app, flags->overrides);
            declare_without(app, flags->without);
            app.add_flag("--json", flags->json, "print JSON");
            return [flags] { return run_parity(*flags); };
          }};
}

}  // namespace megacpp::cli
