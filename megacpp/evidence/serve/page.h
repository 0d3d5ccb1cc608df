// SPDX-License-Identifier: Apache-2.0
// The parts that all pages of the dashboard share. They work without scripts; assets.h has one that replaces parts of a
// page as the server pushes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace megacpp::serve {

/// Text from files or requests as it may stand in a page: printable, and escaped for tags and quoted attributes.
std::string shown(std::string_view text);

/// Cells are HTML; a heading that starts with '>' is of a column of numbers.
struct HtmlTable {
  std::string caption = {};  // empty: none
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows = {};  // as many cells as headings
};
std::string to_html(const HtmlTable& table);

enum class Tone { good, bad, plain };
/// A paragraph that is seen first; `text` is no HTML.
std::string banner(std::string_view text, Tone tone);
std::string heading(std::string_view text);
std::string paragraph(std::string_view text);
std::string figure(const std::string& svg, std::string_view caption);

/// "/runs/NAME"
std::string run_path(std::string_view name);
/// A link to the page of a run, which is text alone where its name cannot stand in a target.
std::string run_link(const std::string& name);

/// A page as people see it.
struct Page {
  std::string title;
  std::string path;         // that of the menu which is marked: "/", "/compare", "/ceilings", "/catalog"
  std::string body;         // HTML
  std::string events = {};  // target of the feed that updates it; empty: none
};
std::string to_html(const Page& page);

}  // namespace megacpp::serve
