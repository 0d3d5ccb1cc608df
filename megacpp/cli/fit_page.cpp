// SPDX-License-Identifier: Apache-2.0
// What a search found as one HTML page: bytes against time, and everything that was compiled.

#include <fmt/format.h>

#include "megacpp/cli/fit_report.h"
#include "megacpp/core/base/human_seconds.h"
#include "megacpp/evidence/report/html.h"
#include "megacpp/evidence/report/memory_section.h"
#include "megacpp/evidence/report/svg.h"
#include "megacpp/program/memory/report.h"

namespace megacpp::cli {
namespace {

using fit::Found;
using memory::human_bytes;

enum Kind : size_t { kFront, kBeside, kClose, kOver };  // the series of the picture

/// Of a layout that is not on the front.
Kind series_of(fit::FitVerdict verdict) {
  switch (verdict) {
    case fit::FitVerdict::fits:
      return kBeside;
    case fit::FitVerdict::close:
      return kClose;
    case fit::FitVerdict::does_not_fit:
      return kOver;
  }
  return kOver;
}

std::string picture(const FitAnswer& answer) {
  const std::vector<Found>& found = answer.search.found;
  report::ScatterChart chart{.x_title = "worst chip",
                             .y_title = "a step",
                             .x_text = report::bytes_text,
                             .y_text = base::human_seconds,
                             .x_steps = report::Steps::binary,
                             .series = {{"front", report::Colour::blue},
                                        {"beside it", report::Colour::grey},
                                        {"close", report::Colour::orange},
                                        {"does not fit", report::Colour::red}},
                             .points = {},
                             .marks = {{static_cast<double>(found.front().fit.worst().limit.bytes.value()), "limit"}}};
  const std::vector<fit::FrontPoint> points = answer.points();
  for (size_t i = 0; i < found.size(); ++i) {
    const bool is_on_front = answer.is_on_front(i);
    chart.points.push_back({.x = static_cast<double>(points[i].bytes),
                            .y = points[i].seconds,
                            .label = found[i].layout,
                            .series = is_on_front ? kFront : series_of(points[i].verdict),
                            .is_on_frontier = is_on_front});
  }
  return report::scatter(chart);
}

report::Table table_of(const FitAnswer& answer) {
  report::Table table{
      .headings = {"layout", ">worst chip", ">free", ">a step", ">tokens/s", ">MFU", "regime", "settings"}, .rows = {}};
  for (const size_t index : answer.order()) {
    const Found& one = answer.search.found[index];
    const ShownStep step = answer.step_of(index);
    const ShownMemory memory = answer.memory_of(index);
    table.rows.push_back({(answer.is_on_front(index) ? "* " : "") + one.layout, human_bytes(memory.needed),
                          memory.free_text(), step.seconds_text(), fmt::format("{:.0f}", step.tokens_per_second),
                          fmt::format("{:.1f} %", 100 * step.mfu), to_text(one.regime), set_words(one.changes)});
  }
  return table;
}

}  // namespace

std::string fit_page(const FitAnswer& answer) {
  report::Page page(answer.recipe.name + " on " + answer.slice.name);
  if (!answer.search.found.empty())
    page.figure(picture(answer), "Bytes of the worst chip against seconds a step, everything that was compiled.");
  page.table(table_of(answer));
  page.paragraph("* nothing that was compiled is better in both bytes and time");
  page.paragraph("A step and MFU: " + answer.step_basis + ".");
  if (const std::string note = close_note(answer); !note.empty()) page.paragraph(note);
  for (const LaneCorrection& lane : answer.corrections)
    if (lane.correction.samples > 0) page.paragraph(to_text(lane));
  return page.to_text();
}

}  // namespace megacpp::cli
