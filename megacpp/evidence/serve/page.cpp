// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/page.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/utf8.h"
#include "megacpp/evidence/http/request.h"
#include "megacpp/evidence/report/html.h"

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

std::string cell_html(const char* tag, const std::string& html, bool is_number) {
  return fmt::format("<{0}{1}>{2}</{3}>", tag, is_number ? " class=\"number\"" : "", html,
                     std::string_view(tag).substr(0, 2));
}

bool is_number_heading(const std::string& text) { return text.starts_with('>'); }

}  // namespace

std::string shown(std::string_view text) { return report::escape(base::printable(text)); }

std::string to_html(const HtmlTable& table) {
  std::string text = "<div class=\"wide\"><table>\n";
  if (!table.caption.empty()) text += "<caption>" + shown(table.caption) + "</caption>\n";
  text += "<thead><tr>";
  for (const std::string& title : table.headings)
    text += cell_html("th scope=\"col\"", shown(is_number_heading(title) ? title.substr(1) : title),
                      is_number_heading(title));
  text += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    MEGACPP_CHECK(row.size() == table.headings.size())
        << row.size() << " cells in " << table.headings.size() << " columns";
    text += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) text += cell_html("td", row[i], is_number_heading(table.headings[i]));
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

std::string banner(std::string_view text, Tone tone) {
  constexpr const char* kClasses[] = {" good", " bad", ""};
  return fmt::format("<p class=\"banner{}\">{}</p>\n", kClasses[static_cast<size_t>(tone)], shown(text));
}

std::string heading(std::string_view text) { return "<h2>" + shown(text) + "</h2>\n"; }

std::string paragraph(std::string_view text) { return "<p>" + shown(text) + "</p>\n"; }

std::string figure(const std::string& svg, std::string_view caption) {
  return "<figure>\n" + svg + "<figcaption>" + shown(caption) + "</figcaption>\n</figure>\n";
}

std::string run_path(std::string_view name) { return "/runs/" + http::url_encoded(name); }

std::string run_link(const std::string& name) {
  const std::string path = run_path(name);
  if (!http::parse_target(path)) return shown(name);
  return fmt::format("<a href=\"{}\">{}</a>", path, shown(name));
}

std::string to_html(const Page& page) {
  const std::string events = page.events.empty() ? "" : " data-events=\"" + shown(page.events) + "\"";
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>{0} - MegaCpp</title>\n<link rel=\"stylesheet\" href=\"/style.css\"/>\n"
      "<link rel=\"icon\" href=\"/icon.svg\" type=\"image/svg+xml\"/>\n"
      "<script src=\"/app.js\" defer=\"defer\"></script>\n</head>\n<body{1}>\n"
      "<a class=\"skip\" href=\"#main\">Skip to the content</a>\n"
      "<header><nav aria-label=\"Pages\">\n{2}</nav>{3}</header>\n"
      "<main id=\"main\">\n<h1>{0}</h1>\n{4}</main>\n</body>\n</html>\n",
      shown(page.title), events, menu_html(page.path),
      page.events.empty() ? "" : "<span id=\"live\" role=\"status\"></span>", page.body);
}

}  // namespace megacpp::serve
