// SPDX-License-Identifier: Apache-2.0
#include "megacpp/train/parity.h"

#include <memory>

#include <fmt/format.h>

#include "megacpp/cli/command.h"
#include "megacpp/runtime/cpu/cpu_backend.h"

namespace megacpp::cli {
namespace {

constexpr int kMismatchStatus = 1;

struct Flags {
  std::string file;
  bool json = false;
};

std::unique_ptr<runtime::Executable> load(const compile::Compiled& compiled) {
  std::vector<runtime::LoadedProgram> programs;
  for (size_t p = 0; p < compiled.programs.size(); ++p)
    programs.push_back({&compiled.programs[p], &compiled.memory.programs[p]});
  return runtime::cpu::load(programs, compiled.memory, {.threads = runtime::cpu::available_threads()});
}

void print_table(const train::ParityReport& report) {
  fmt::print("{} pattern {}\n", report.model_class, report.pattern);
  fmt::print("{:<58} {:>12} {:>12} {:>9}  {}\n", "tensor", "max abs", "relative", "allowed", "");
  for (const train::ParityRow& row : report.rows)
    fmt::print("{:<58} {:>12.3e} {:>12.3e} {:>9.0e}  {}\n", row.name, row.max_abs_error, row.relative_error,
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

int run_parity(const Flags& flags) {
  const schedule::Target target = runtime::cpu::cpu_target(runtime::cpu::available_threads());
  const train::ParityReport report = train::run_parity(flags.file, target, load);
  if (flags.json)
    print_report_json(report);
  else
    print_table(report);
  size_t over = 0;
  for (const train::ParityRow& row : report.rows) over += row.passed ? 0 : 1;
  fmt::print(stderr, "{} of {} tensors within tolerance\n", report.rows.size() - over, report.rows.size());
  return report.passed() ? 0 : kMismatchStatus;
}

}  // namespace

Command parity_command() {
  return {.name = "parity",
          .summary = "compare outputs and every gradient with a golden file of a public reference model",
          .example = "megacpp parity tests/golden/models/mamba2_tiny.safetensors",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<Flags>();
            app.add_option("file", flags->file, "golden file (safetensors)")->required()->type_name("FILE");
            app.add_flag("--json", flags->json, "print JSON");
            return [flags] { return run_parity(*flags); };
          }};
}

}  // namespace megacpp::cli
