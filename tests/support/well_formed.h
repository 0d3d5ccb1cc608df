// SPDX-License-Identifier: Apache-2.0
// Whether a page is one whole: every tag closed in order, nothing loaded from elsewhere, nothing that runs.
#pragma once

#include <string>
#include <vector>

namespace megacpp::testing_support {

/// What is wrong with the tags of a page, or empty. Tags without an end are written <so/>; the doctype is passed over.
inline std::string unbalanced_tag(const std::string& page) {
  std::vector<std::string> open;
  for (size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    const size_t end = page.find('>', at);
    if (end == std::string::npos) return "a tag that does not end: " + page.substr(at, 40);
    const std::string tag = page.substr(at + 1, end - at - 1);
    if (tag.starts_with('!') || tag.ends_with('/')) continue;
    const bool closes = tag.starts_with('/');
    const std::string name = closes ? tag.substr(1) : tag.substr(0, tag.find_first_of(" \n"));
    if (!closes) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return "</" + name + "> after <" + (open.empty() ? "" : open.back()) + ">";
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> is never closed";
}

/// The first thing a self-contained page must not have, or empty.
inline std::string outside_load(const std::string& page) {
  for (const char* part : {"http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link", "<iframe"})
    if (page.find(part) != std::string::npos) return part;
  return "";
}

}  // namespace megacpp::testing_support
