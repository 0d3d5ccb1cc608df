// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/ceilings_page.h"

#include <fmt/format.h>

#include "megacpp/evidence/compare/ceilings.h"
#include "megacpp/evidence/report/ceilings_table.h"

namespace megacpp::serve {
Page ceilings_page(const std::vector<receipt::Receipt>& receipts, size_t unread) {
  Page page{.title = "Ceilings", .path = "/ceilings"};
  if (unread > 0) page.body.paragraph(fmt::format("{} runs are not read yet; load the page again.", unread));
  const std::vector<compare::Ceiling> ceilings = compare::ceilings_of(receipts);
  if (ceilings.empty()) {
    page.body.banner("No run has made two steps yet.", report::Page::Tone::plain);
    page.body.paragraph("A ceiling is found by: megacpp ceilings probe RECIPE --dir runs/probe");
    return page;
  }
  page.body.paragraph("batch x sequence of a micro-step, all chips together");
  page.body.table(report::ceilings_table(ceilings, compare::kTimesToValidate));
  return page;
}

}  // namespace megacpp::serve
