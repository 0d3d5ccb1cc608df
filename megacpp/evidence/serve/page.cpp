// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/page.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "megacpp/evidence/http/request.h"

namespace megacpp::serve {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 4> kMenu = {
    {{"/", "Runs"}, {"/compare", "Compare"}, {"/ceilings", "Ceilings"}, {"/catalog", "Catalog"}}};

std::string menu_html(const std::string& current) {
  std::string text;
  for (const auto& [path, name] : kMenu)
    text += fmt::format("<a href=\"{}\"{}>{}</a>\n", path, current == path ? " aria-current=\"page\"" : "", name);
  return text;
}

}  // namespace

std::string run_path(std::string_view name) { return "/runs/" + http::url_encoded(name); }

std::string run_link(const std::string& name) {
  const std::string path = run_path(name);
  if (!http::parse_target(path)) return report::escape(name);
  return fmt::format("<a href=\"{}\">{}</a>", path, report::escape(name));
}

std::string to_html(const Page& page) {
  const std::string events = page.events.empty() ? "" : " data-events=\"" + report::escape(page.events) + "\"";
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>{0} - MegaCpp</title>\n<link rel=\"stylesheet\" href=\"/style.css\"/>\n"
      "<link rel=\"icon\" href=\"/icon.svg\" type=\"image/svg+xml\"/>\n"
      "<script src=\"/app.js\" defer=\"defer\"></script>\n</head>\n<body{1}>\n"
      "<a class=\"skip\" href=\"#main\">Skip to the content</a>\n"
      "<header><nav aria-label=\"Pages\">\n{2}</nav>{3}</header>\n"
      "<main id=\"main\">\n<h1>{0}</h1>\n{4}</main>\n</body>\n</html>\n",
      report::escape(page.title), events, menu_html(page.path),
      page.events.empty() ? "" : "<span id=\"live\" role=\"status\"></span>", page.body.body());
}

}  // namespace megacpp::serve
