// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/catalog_flags.h"
#include "megacpp/cli/command.h"
#include "megacpp/cli/fit_confirm.h"
#include "megacpp/cli/fit_report.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/number_flag.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/path_flag.h"
#include "megacpp/cli/print_log.h"
#include "megacpp/cli/recipe_flags.h"
#include "megacpp/cli/without_effect.h"
#include "megacpp/cli/xla_compile.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/human_seconds.h"
#include "megacpp/core/base/output_path.h"
#include "megacpp/core/base/utf8.h"
#include "megacpp/hardware/catalog/catalog.h"
#include "megacpp/hardware/fit/step_basis.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/machine/runtime/processor.h"
#include "megacpp/program/plan/degrees.h"
#include "megacpp/run/launch/assumptions.h"
#include "megacpp/run/launch/users_catalog.h"

namespace megacpp::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct FitFlags {
  std::shared_ptr<RecipeFlags> recipe;
  std::string hardware;
  int64_t chips = 0;
  std::string grow;
  bool layouts = false;
  int64_t top = 10;
  int64_t tries = 0;  // 0: not said
  int64_t confirm = 0;
  int64_t time_limit = XlaFlags{}.time_limit;  // of a compiler that confirms
  launch::CatalogChoice catalog;
  bool json = false;
  std::string html;
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// ---- Where the plans are for

std::string hardware_name(const FitFlags& flags, const recipe::Recipe& recipe) {
  std::string name = !flags.hardware.empty()           ? flags.hardware
                     : !recipe.hardware.target.empty() ? recipe.hardware.target
                                                       : "host";
  const bool has_count = name.find(':') != std::string::npos;
  MEGACPP_REQUIRE(flags.chips == 0 || !has_count, E1007,
                  {.where = "--chips",
                   .got = fmt::format("{} beside {}", flags.chips, name),
                   .wanted = "the number of chips once",
                   .next = "leave --chips out, or name the hardware without a number"});
  if (flags.chips > 0) return name + ":" + std::to_string(flags.chips);
  if (name == "host") return fmt::format("host:{}", plan::product_of_degrees(recipe.layout));
  return name;
}

// ---- The best layout

std::vector<catalog::Ranked> ranked(launch::UsersCatalog& catalog, const fit::Assumptions& assumptions,
                                    const std::vector<fit::Found>& found) {
  std::vector<catalog::Candidate> candidates;
  for (const fit::Found& one : found)
    candidates.push_back({.signature = fit::signature_of(one.recipe, assumptions),
                          .step_seconds = fit::parts_of(one.time),
                          .fits = one.fit.may_fit()});
  std::vector<catalog::Ranked> ranks;
  catalog.use(
      [&](const catalog::Catalog& open) { ranks = catalog::rank(open, fit::to_text(assumptions.lane), candidates); });
  return ranks;
}

/// As it is for a candidate that was not measured itself.
LaneCorrection correction_of_peaks(const fit::Assumptions& assumptions) {
  return {fit::to_text(assumptions.lane), catalog::kPeakBytes,
          catalog::fit_correction(assumptions.peaks, assumptions.build)};
}

std::vector<LaneCorrection> corrections(launch::UsersCatalog& catalog, const fit::Assumptions& assumptions) {
  const std::string lane = fit::to_text(assumptions.lane);
  std::vector<LaneCorrection> found = {correction_of_peaks(assumptions)};
  catalog.use([&](const catalog::Catalog& open) {
    found.push_back({lane, catalog::kStepSeconds, open.correction(lane, catalog::kStepSeconds, assumptions.build)});
  });
  return found;
}

// A search takes minutes: what could not be run after it is refused before.
void require_usable(const runtime::Backend& backend, const recipe::Recipe& recipe) {
  const base::Decision usable = backend.usable(recipe::run_request(recipe));
  MEGACPP_REQUIRE(static_cast<bool>(usable), E1505,
                  {.where = "--confirm",
                   .got = "backend " + backend.name + ", which cannot run here: " + usable.reason(),
                   .wanted = "a backend that runs on this machine",
                   .next = "leave --confirm out, set backend: cpu, or make it usable"});
}

/// "6.94 s a step, fits, policy spmd, data 512, zero 1, batch 8192 x 4"
std::string best_text(const fit::Found& best) {
  return fmt::format("{} a step, {}, {}, batch {} x {}", base::human_seconds(best.time.seconds()),
                     fit::fit_verdict_name(best.fit.verdict()), best.layout, best.recipe.train.batch,
                     best.recipe.train.micro_steps);
}

/// Of those that were planned so far: "; 65536 fits"
std::string largest_text(const fit::Growth& so_far) {
  int64_t largest = 0;
  for (const fit::Found& one : so_far.tried)
    if (one.fit.fits())
      largest =
          std::max(largest, so_far.what == fit::Grown::batch ? one.recipe.train.batch : one.recipe.train.sequence);
  return largest == 0
             ? ""
             : fmt::format("; a {} of {} fits", so_far.what == fit::Grown::batch ? "batch" : "sequence", largest);
}

/// By what is known now.
void rank(const fit::Assumptions& assumptions, launch::UsersCatalog& catalog, FitAnswer& answer) {
  answer.known = ranked(catalog, assumptions, answer.search.found);
  answer.corrections = corrections(catalog, assumptions);
  answer.front = fit::pareto_front(answer.points());
}

int search_layouts(const FitFlags& flags, const recipe::Recipe& recipe, const fit::Assumptions& assumptions,
                   launch::UsersCatalog& catalog) {
  const Clock::time_point start = Clock::now();
  const auto progress = [&](int64_t compiled, int64_t tries, const fit::Found* best) {
    if (seconds_since(start) < 1) return;
    print_err("compiled {} of at most {} layouts, {:.0f} s{}\n", compiled, tries, seconds_since(start),
              best == nullptr ? "" : "; best so far: " + best_text(*best));
  };
  FitAnswer answer{.slice = assumptions.slice, .recipe = recipe};
  answer.step_basis = fit::basis_of_times(assumptions.slice.chip, recipe);
  fit::SearchOptions options{.threads = runtime::available_threads(), .progress = progress};
  if (flags.tries > 0) options.tries = flags.tries;
  answer.search = fit::search_layouts(recipe, assumptions, options);
  answer.seconds = seconds_since(start);
  if (answer.search.found.empty()) throw no_layout(answer);
  rank(assumptions, catalog, answer);
  const ConfirmRequest request{flags.confirm, flags.recipe->file, flags.time_limit};
  confirm(request, assumptions, catalog, answer);
  if (!answer.confirmed.empty()) rank(assumptions, catalog, answer);
  if (flags.json) print_json(fit_json(answer));
  if (!flags.json) write_output(fit_text(answer, static_cast<size_t>(flags.top)));
  flush_output();
  if (!flags.html.empty()) {
    base::write_file_atomically(flags.html, fit_page(answer));
    print_err("page written to {}\n", flags.html);
  }
  if (const std::optional<base::Error> refusal = refusal_of(answer)) throw *refusal;
  return 0;
}

// ---- The largest batch or sequence

int grow(const FitFlags& flags, const recipe::Recipe& requested, const fit::Assumptions& assumptions) {
  const fit::Grown what = flags.grow == "batch" ? fit::Grown::batch : fit::Grown::sequence;
  const plan::Changes filling = fit::filling_changes(requested, assumptions.slice.devices());
  const recipe::Recipe recipe = fit::with_changes(requested, filling);
  const Clock::time_point start = Clock::now();
  const auto progress = [&](const fit::Growth& so_far) {
    if (seconds_since(start) < 1) return;
    print_err("compiled {} plans, {:.0f} s{}\n", so_far.tried.size(), seconds_since(start), largest_text(so_far));
  };
  fit::Assumptions on_all_threads = assumptions;  // plans are made one after the other
  on_all_threads.threads = runtime::available_threads();
  fit::Growth growth = fit::grow(recipe, what, on_all_threads, progress);
  for (fit::Found& one : growth.tried)
    for (const plan::Change& change : filling)
      if (change.key != one.changes[0].key) one.changes.insert(one.changes.begin(), change);
  const LaneCorrection peaks = correction_of_peaks(assumptions);
  Json json = growth_json(assumptions.slice.name, recipe, growth);
  json["correction"] = to_json(peaks);
  json["step_basis"] = fit::basis_of_times(assumptions.slice.chip, recipe);
  if (flags.json) print_json(json);
  if (!flags.json)
    write_output(growth_text(assumptions.slice.name, recipe, growth) + "a step and MFU: " +
                 base::printable_in_line(json["step_basis"].get<std::string>()) + "\n" + to_text(std::vector{peaks}));
  if (!growth.best) throw nothing_fits(assumptions.slice.name, growth.tried.front());
  return 0;
}

int run_fit(const FitFlags& flags) {
  MEGACPP_REQUIRE(flags.grow.empty() || (flags.html.empty() && flags.confirm == 0), E1007,
                  {.where = "--grow",
                   .got = flags.html.empty() ? "--confirm" : "--html",
                   .wanted = "it with a search over layouts only",
                   .next = "leave one of the two out"});
  if (!flags.html.empty()) base::require_writable(flags.html);
  const recipe::Recipe recipe = flags.recipe->load();
  launch::UsersCatalog catalog(flags.catalog, flags.confirm > 0 ? catalog::Access::write : catalog::Access::read,
                               print_line);
  fit::Assumptions assumptions =
      launch::assumptions_for(recipe, launch::slice_named(hardware_name(flags, recipe), recipe.backend), catalog);
  // Levels of recompute are searched: in loops selective recompute needs no more than unrolled blocks.
  assumptions.unrolled.reset();
  assumptions.most_planned_whole = fit::kMostPlannedWhole;
  assumptions.says_why = false;
  // Degrees are what it searches: only keys that no layout there gives an effect.
  const runtime::Backend& backend = runtime::backend_named(assumptions.lane.backend);
  print_without_effect(without_effect_in_any_layout(backend, recipe));
  if (flags.confirm > 0 && assumptions.slice.chip.is_virtual()) require_usable(backend, recipe);
  return flags.grow.empty() ? search_layouts(flags, recipe, assumptions, catalog) : grow(flags, recipe, assumptions);
}

void declare_counts(CLI::App& app, FitFlags& flags) {
  declare_number(app, {.name = "--top", .range = schema::between(1, 1000), .help = "rows beside the front"}, flags.top);
  declare_number(
      app,
      {.name = "--tries",
       .range = schema::between(1, 100'000),
       .help = fmt::format("layouts to compile at most; else a small space whole, of a larger one {}", fit::kTries)},
      flags.tries);
  declare_number(app,
                 {.name = "--confirm",
                  .range = schema::between(0, 100),
                  .help = "run the best so many for a few steps on host, ask the compiler of a TPU slice about them"},
                 flags.confirm);
  declare_number(app,
                 {.name = "--time-limit",
                  .range = schema::between(1, static_cast<double>(kLongestWait)),
                  .help = "seconds that compiler may take for each"},
                 flags.time_limit)
      ->default_str(std::to_string(flags.time_limit));
}

}  // namespace

Command fit_command() {
  return {.name = "fit",
          .summary = "the best layout, or the largest batch or sequence, on given hardware",
          .example =
              "megacpp fit recipes/nam52-1b.yaml --hardware v6e:2x2\n"
              "  megacpp fit recipes/nam52-1b.yaml --hardware v6e:2x2 --confirm 3",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<FitFlags>();
            flags->recipe = declare_recipe_flags(app, RecipeFile::or_model);
            app.add_option("--hardware", flags->hardware,
                           "chips to plan for, e.g. v6e:16x16, h100:16, host:4; else hardware.target")
                ->type_name("NAME");
            declare_number(app,
                           {.name = "--chips",
                            .range = schema::between(1, static_cast<double>(plan::kMaxChips)),
                            .help = "how many, where --hardware names a chip alone"},
                           flags->chips);
            CLI::Option* layouts = app.add_flag("--layouts", flags->layouts, "search the best layout (the default)");
            app.add_option("--grow", flags->grow, "keep the layout and search the largest batch or sequence")
                ->check(CLI::IsMember({"batch", "sequence"}))
                ->excludes(layouts);
            declare_counts(app, *flags);
            declare_catalog_flags(app, flags->catalog, "rank or correct by what earlier launches measured");
            declare_written_path(app, "--html", flags->html, "write a page with the picture and the table")
                ->type_name("FILE");
            app.add_flag("--json", flags->json, "print JSON");
            return [flags] { return run_fit(*flags); };
          }};
}

}  // namespace megacpp::cli
