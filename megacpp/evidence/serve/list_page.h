// SPDX-License-Identifier: Apache-2.0
// The page of all runs: a filter, a table, and runs to tick for a comparison.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "megacpp/evidence/http/request.h"
#include "megacpp/evidence/serve/page.h"
#include "megacpp/evidence/serve/run_index.h"

namespace megacpp::serve {

/// Which rows of the list are asked for.
struct ListQuery {
  std::string text = {};    // that a row must have somewhere, in any case; empty: every row
  std::string ending = {};  // as base::text_of has it; empty: any
  size_t page = 1;
};
/// Of "?q=...&ending=...&page=...". What is no number of a page is the first.
ListQuery list_query(const http::Target& target);
/// As a query: "q=a&ending=&page=2".
std::string to_text(const ListQuery& query);

inline constexpr size_t kRunsOnAPage = 100;

/// The table, which is replaced as runs change.
std::string runs_html(const RunList& list, const ListQuery& query);
/// Without any run it says how to get one.
Page list_page(const RunList& list, const ListQuery& query, const std::filesystem::path& folder);

}  // namespace megacpp::serve
