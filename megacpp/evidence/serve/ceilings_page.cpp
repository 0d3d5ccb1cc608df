// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/ceilings_page.h"

#include <optional>
#include <string>

#include <fmt/format.h>

#include "megacpp/core/base/counted.h"
#include "megacpp/evidence/compare/ceilings.h"

namespace megacpp::serve {
namespace {

std::string shape_text(const std::optional<compare::TriedShape>& shape) {
  if (!shape) return "-";
  return fmt::format("{} x {} ({}{})", shape->batch, shape->sequence,
                     base::counted(shape->ran + shape->out_of_memory, "run"),
                     shape->out_of_memory > 0 ? fmt::format(", {} out of memory", shape->out_of_memory) : "");
}

}  // namespace

Page ceilings_page(const std::vector<receipt::Receipt>& receipts, size_t unread) {
  Page page{.title = "Ceilings", .path = "/ceilings", .body = ""};
  if (unread > 0) page.body += paragraph(fmt::format("{} runs are not read yet; load the page again.", unread));
  const std::vector<compare::Ceiling> ceilings = compare::ceilings_of(receipts);
  if (ceilings.empty()) {
    page.body += banner("No run has made two steps yet.", Tone::plain);
    page.body += paragraph("A ceiling is found by: megacpp ceilings probe RECIPE --dir runs/probe");
    return page;
  }
  HtmlTable table{
      .caption = "batch x sequence of a micro-step, all chips together",
      .headings = {"model", "topology", "lane", fmt::format("validated {} times", compare::kTimesToValidate),
                   "single peak", "out of memory"}};
  for (const compare::Ceiling& ceiling : ceilings)
    table.rows.push_back({shown(ceiling.model), shown(ceiling.topology), shown(ceiling.lane),
                          shape_text(ceiling.validated), shape_text(ceiling.single_peak),
                          shape_text(ceiling.too_large)});
  page.body += to_html(table);
  return page;
}

}  // namespace megacpp::serve
