// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/text_table.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/utf8.h"

namespace megacpp::cli {
namespace {

std::vector<std::string> broken_into_lines(std::string_view text, size_t most) {
  std::vector<std::string> lines;
  while (text.size() > most) {
    const size_t space = text.rfind(' ', most);
    const bool has_space = space != std::string_view::npos && space > 0;
    lines.emplace_back(text.substr(0, has_space ? space : most));
    text.remove_prefix(has_space ? space + 1 : most);
  }
  lines.emplace_back(text);
  return lines;
}

}  // namespace

TextTable::TextTable(std::vector<std::string> headings) {
  for (std::string& heading : headings) {
    right_.push_back(heading.starts_with('>'));
    if (right_.back()) heading.erase(0, 1);
  }
  most_.assign(right_.size(), std::numeric_limits<size_t>::max());
  add(std::move(headings));
}

void TextTable::wrap(size_t column, size_t most) { most_.at(column) = most; }

void TextTable::add(std::vector<std::string> cells) {
  MEGACPP_CHECK(cells.size() == right_.size()) << cells.size() << " cells in " << right_.size() << " columns";
  for (std::string& cell : cells) cell = base::printable_in_line(cell);
  rows_.push_back({std::move(cells), ""});
}

void TextTable::add_line(const std::string& line) { rows_.push_back({{}, base::printable_in_line(line)}); }

std::vector<std::vector<std::string>> TextTable::lines_of(const Row& row) const {
  std::vector<std::vector<std::string>> lines;
  for (size_t c = 0; c < row.cells.size(); ++c) {
    const std::vector<std::string> parts = broken_into_lines(row.cells[c], most_[c]);
    while (lines.size() < parts.size()) lines.emplace_back(right_.size());
    for (size_t line = 0; line < parts.size(); ++line) lines[line][c] = parts[line];
  }
  return lines;
}

std::string TextTable::to_text() const {
  std::vector<size_t> widths(right_.size(), 0);
  for (const Row& row : rows_)
    for (const std::vector<std::string>& cells : lines_of(row))
      for (size_t c = 0; c < cells.size(); ++c) widths[c] = std::max(widths[c], cells[c].size());
  std::string text;
  for (const Row& row : rows_) {
    if (row.cells.empty()) text += row.line.substr(0, row.line.find_last_not_of(' ') + 1) + "\n";
    for (const std::vector<std::string>& cells : lines_of(row)) {
      std::string line;
      for (size_t c = 0; c < cells.size(); ++c)
        line += right_[c] ? fmt::format("{:>{}}  ", cells[c], widths[c]) : fmt::format("{:<{}}  ", cells[c], widths[c]);
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
  }
  return text;
}

std::string to_text(const report::Table& table) {
  TextTable text(table.headings);
  for (const std::vector<std::string>& row : table.rows) text.add(row);
  return text.to_text();
}

}  // namespace megacpp::cli
