// SPDX-License-Identifier: Apache-2.0
// The parts that all pages of the dashboard share. They work without scripts; assets.h has one that replaces parts of a
// page as the server pushes them.
#pragma once

#include <string>
#include <string_view>

#include "megacpp/evidence/report/html.h"

namespace megacpp::serve {

/// "/runs/NAME"
std::string run_path(std::string_view name);
/// A link to the page of a run, which is text alone where its name cannot stand in a target.
std::string run_link(const std::string& name);

/// A page as people see it.
struct Page {
  std::string title;
  std::string path;         // that of the menu which is marked: "/", "/compare", "/ceilings", "/catalog"
  std::string events = {};  // target of the feed that updates it; empty: none
  report::Page body = report::Page();
};
std::string to_html(const Page& page);

}  // namespace megacpp::serve
