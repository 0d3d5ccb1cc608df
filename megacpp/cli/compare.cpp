// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/compare_report.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/output.h"
#include "megacpp/core/base/error.h"
#include "megacpp/evidence/compare/comparison.h"
#include "megacpp/evidence/compare/sides.h"
#include "megacpp/evidence/compare/target.h"

namespace megacpp::cli {
namespace {

struct CompareFlags {
  std::vector<std::string> runs;
  std::vector<std::string> target;
  bool json = false;
};

/// What cannot be read is said and left out; where too little is left, that is why.
compare::Sides read_sides(const std::vector<std::string>& paths, Json& object) {
  compare::ReadReceipts read = compare::read_receipts(paths);
  print_skipped(read.skipped);
  if (!read.skipped.empty()) object["skipped"] = skipped_json(read.skipped);
  if (read.receipts.size() < 2 && !read.skipped.empty()) throw read.skipped.front().why;
  return compare::sides_of(std::move(read.receipts));
}

compare::Comparison compare_paths(const std::vector<std::string>& paths, const CompareFlags& flags, Json& object) {
  const compare::Sides sides = read_sides(paths, object);
  compare::Comparison comparison = compare::compare(sides.baseline, sides.other);
  object.update(runs_comparison_json(comparison));
  if (!flags.json) write_output(runs_comparison_text(comparison));
  return comparison;
}

/// The answer of the target runs, as far as there is one; what they differ in stands in `object` either way.
std::optional<compare::Comparison> compare_target(const CompareFlags& flags, const compare::Comparison& trial,
                                                  Json& object) {
  if (flags.target.empty() || !trial.effect) return std::nullopt;
  if (!flags.json) print_out("\non the target shape\n");
  Json found = Json::object();
  compare::Comparison target = compare_paths(flags.target, flags, found);
  if (target.effect) {
    const compare::TargetAnswer answer = compare::on_target(trial, target);
    found["survival"] = base::text_of(answer.survival);
    found["answer"] = answer.sentence;
    if (!flags.json) print_out("target    {}\n", answer.sentence);
  }
  object["target"] = std::move(found);
  return target;
}

// Everything is printed before an error ends the command.
int run_compare(const CompareFlags& flags) {
  Json object = Json::object();
  const compare::Comparison comparison = compare_paths(flags.runs, flags, object);
  const std::optional<compare::Comparison> target = compare_target(flags, comparison, object);
  if (flags.json) print_json(object);
  compare::require_result(comparison);
  if (target) compare::require_result(*target);
  return 0;
}

}  // namespace

Command compare_command() {
  return {.name = "compare",
          .summary = "whether one thing made runs faster or slower, how surely, and why",
          .example =
              "megacpp compare runs/one-chip runs/two-chips\n"
              "  megacpp compare runs/a1 runs/a2 runs/a3 runs/b1 runs/b2 runs/b3\n"
              "  megacpp compare runs/small-a runs/small-b --target runs/large-a runs/large-b",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<CompareFlags>();
            app.add_option("runs", flags->runs,
                           "run directories, receipts or folders of runs; of more than two, those that differ in "
                           "nothing are repeats")
                ->required()
                ->type_name("RUN");
            app.add_option("--target", flags->target,
                           "runs on the target shape that differ in the same thing, two or with repeats: did the gain "
                           "survive there?")
                ->expected(2, -1)
                ->type_name("RUN");
            app.add_flag("--json", flags->json, "print JSON");
            return [flags] { return run_compare(*flags); };
          }};
}

}  // namespace megacpp::cli
