// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/compare_page.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/error.h"
#include "megacpp/evidence/compare/comparison.h"
#include "megacpp/evidence/compare/sides.h"
#include "megacpp/evidence/report/comparison_section.h"

namespace megacpp::serve {
namespace {

using compare::Comparison;
using Tone = report::Page::Tone;

void add_refusal(report::Page& page, const base::Error& error) {
  const base::Problem& problem = error.problem();
  page.banner(fmt::format("{} {}: no winner is named", base::code_name(error.code()), base::code_title(error.code())),
              Tone::bad);
  page.paragraph(fmt::format("{}: {}", problem.where, problem.got));
  page.paragraph("Wanted: " + problem.wanted);
  page.paragraph("Next: " + problem.next);
}

void add_comparison(report::Page& page, const Comparison& comparison) {
  try {
    compare::require_result(comparison);
    page.banner(comparison.effect ? compare::verdict_text(comparison) : "No run has steps that may be compared.",
                comparison.effect ? Tone::good : Tone::bad);
  } catch (const base::Error& error) {
    add_refusal(page, error);
  }
  page.paragraph(fmt::format("baseline: {}; other: {}", fmt::join(comparison.baseline_runs, ", "),
                             fmt::join(comparison.other_runs, ", ")));
  report::add_moves(page, comparison);
}

}  // namespace

Page compare_help_page() {
  Page page{.title = "Compare", .path = "/compare"};
  page.body.paragraph(
      "Tick two runs or more in the list, then press the button below it. Of more than two, those that differ in "
      "nothing are repeats.");
  page.body.html("<p><a href=\"/\">To the runs</a></p>\n");
  return page;
}

Page compare_page(std::vector<receipt::Receipt> receipts) {
  Page page{.title = "Compare", .path = "/compare"};
  try {
    const compare::Sides sides = compare::sides_of(std::move(receipts));
    add_comparison(page.body, compare::compare(sides.baseline, sides.other));
  } catch (const base::Error& error) {
    add_refusal(page.body, error);
  }
  return page;
}

}  // namespace megacpp::serve
