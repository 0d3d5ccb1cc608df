// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/catalog_page.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "megacpp/core/base/human_seconds.h"
#include "megacpp/program/memory/report.h"

namespace megacpp::serve {
namespace {

std::string known_bytes(const std::optional<int64_t>& bytes) { return bytes ? memory::human_bytes(*bytes) : "-"; }

std::string known_seconds(const std::optional<double>& seconds) {
  return seconds ? base::human_seconds(*seconds) : "-";
}

/// Of the last launch of a signature; of one that was only measured nothing is known.
std::vector<std::string> entry_row(const catalog::Entry& entry) {
  const catalog::Signature& signature = entry.signature;
  std::vector<std::string> row = {std::to_string(entry.id), catalog::last_written(entry),
                                  signature.model,          signature.hardware,
                                  signature.layout,         signature.shape};
  if (entry.outcomes.empty()) {
    row.insert(row.end(), {"measured", "-", "-", "-"});
    return row;
  }
  const catalog::Outcome& last = entry.outcomes.back();
  row.push_back(std::string(last.ending()) + (last.oom_class.empty() ? "" : " (" + last.oom_class + ")"));
  row.push_back(known_bytes(last.predicted_bytes));
  row.push_back(known_bytes(last.measured_bytes));
  row.push_back(known_seconds(last.measured_seconds));
  return row;
}

}  // namespace

Page catalog_page(const std::vector<catalog::Entry>& entries, const std::string& why_not) {
  Page page{.title = "Catalog", .path = "/catalog"};
  if (entries.empty()) {
    page.body.banner(why_not.empty() ? "Nothing is remembered yet." : "The catalog is not shown: " + why_not,
                     report::Page::Tone::plain);
    page.body.paragraph("Every launch writes down whether it fitted, what was predicted and what was measured.");
    return page;
  }
  const size_t shown = std::min(entries.size(), kMostEntries);
  page.body.paragraph(fmt::format("{} of {} signatures", shown, entries.size()));
  report::Table table{.headings = {">id", "written", "model", "hardware", "layout", "shape", "outcome", ">predicted",
                                   ">measured", ">a step"},
                      .rows = {}};
  for (size_t i = 0; i < shown; ++i) table.rows.push_back(entry_row(entries[i]));
  page.body.table(table);
  return page;
}

}  // namespace megacpp::serve
