// SPDX-License-Identifier: Apache-2.0
// Rows of text in columns as wide as they need to be, or as they may be. Whatever a cell holds, it stays in its row.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "megacpp/evidence/report/html.h"

namespace megacpp::cli {

class TextTable {
 public:
  /// Headings; one that starts with '>' stands right, as numbers do.
  explicit TextTable(std::vector<std::string> headings);

  /// Cells of this column that are longer go on in the lines below, broken at spaces where there are some.
  void wrap(size_t column, size_t most);

  void add(std::vector<std::string> cells);
  /// A line across all columns.
  void add_line(const std::string& line);

  std::string to_text() const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::string line;  // instead of cells
  };
  /// [line][column]
  std::vector<std::vector<std::string>> lines_of(const Row& row) const;

  std::vector<bool> right_;
  std::vector<size_t> most_;  // of each column
  std::vector<Row> rows_;
};

/// A table that pages have too.
std::string to_text(const report::Table& table);

}  // namespace megacpp::cli
