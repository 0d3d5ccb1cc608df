// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/text_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "megacpp/base/error.h"

namespace megacpp::cli {

TextTable::TextTable(std::vector<std::string> headings) {
  for (std::string& heading : headings) {
    right_.push_back(heading.starts_with('>'));
    if (right_.back()) heading.erase(0, 1);
  }
  add(std::move(headings));
}

void TextTable::add(std::vector<std::string> cells) {
  MEGACPP_CHECK(cells.size() == right_.size()) << cells.size() << " cells in " << right_.size() << " columns";
  rows_.push_back({std::move(cells), ""});
}

void TextTable::add_line(std::string line) { rows_.push_back({{}, std::move(line)}); }

std::string TextTable::to_text() const {
  std::vector<size_t> widths(right_.size(), 0);
  for (const Row& row : rows_)
    for (size_t c = 0; c < row.cells.size(); ++c) widths[c] = std::max(widths[c], row.cells[c].size());
  std::string text;
  for (const Row& row : rows_) {
    std::string line = row.line;
    for (size_t c = 0; c < row.cells.size(); ++c)
      line += right_[c] ? fmt::format("{:>{}}  ", row.cells[c], widths[c])
                        : fmt::format("{:<{}}  ", row.cells[c], widths[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string to_text(const report::Table& table) {
  TextTable text(table.headings);
  for (const std::vector<std::string>& row : table.rows) text.add(row);
  return text.to_text();
}

}  // namespace megacpp::cli
