// SPDX-License-Identifier: Apache-2.0
// Names that a table of the documentation has, to be compared with a table of the code.
#pragma once

#include <cstddef>
#include <set>
#include <sstream>
#include <string>

namespace megacpp::testing_support {

/// What stands between backticks in the first column of the table whose first column is called `heading`.
inline std::set<std::string> names_in_table(const std::string& page, const std::string& heading) {
  std::set<std::string> names;
  std::istringstream lines(page);
  std::string line;
  while (std::getline(lines, line) && !line.starts_with("| " + heading + " |")) continue;
  while (std::getline(lines, line) && line.starts_with("|")) {
    const std::string column = line.substr(0, line.find('|', 1));
    for (size_t at = column.find('`'), end; at != std::string::npos; at = column.find('`', end + 1)) {
      end = column.find('`', at + 1);
      if (end == std::string::npos) break;
      names.insert(column.substr(at + 1, end - at - 1));
    }
  }
  return names;
}

}  // namespace megacpp::testing_support
