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
  std::vector<std::string> row = {std::to_string(entry.id), shown(catalog::last_written(entry)),
                                  shown(signature.model),   shown(signature.hardware),
                                  shown(signature.layout),  shown(signature.shape)};
  if (entry.outcomes.empty()) {
    row.insert(row.end(), {"measured", "-", "-", "-"});
    return row;
  }
  const catalog::Outcome& last = entry.outcomes.back();
  row.push_back(shown(std::string(last.ending()) + (last.oom_class.empty() ? "" : " (" + last.oom_class + ")")));
  row.push_back(known_bytes(last.predicted_bytes));
  row.push_back(known_bytes(last.measured_bytes));
  row.push_back(known_seconds(last.measured_seconds));
  return row;
}

}  // namespace

Page catalog_page(const std::vector<catalog::Entry>& entries, const std::string& why_not) {
  Page page{.title = "Catalog", .path = "/catalog", .body = ""};
  if (entries.empty()) {
    page.body =
        banner(why_not.empty() ? "Nothing is remembered yet." : "The catalog is not shown: " + why_not, Tone::plain);
    page.body += paragraph("Every launch writes down whether it fitted, what was predicted and what was measured.");
    return page;
  }
  HtmlTable table{.caption = fmt::format("{} of {} signatures", std::min(entries.size(), kMostEntries), entries.size()),
                  .headings = {">id", "written", "model", "hardware", "layout", "shape", "outcome", ">predicted",
                               ">measured", ">a step"}};
  for (size_t i = 0; i < std::min(entries.size(), kMostEntries); ++i) table.rows.push_back(entry_row(entries[i]));
  page.body = to_html(table);
  return page;
}

}  // namespace megacpp::serve
