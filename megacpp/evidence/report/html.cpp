// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/report/html.h"

#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/utf8.h"

namespace megacpp::report {
namespace {

// Series of pictures are .s0 to .s7, or .l0 to .l7 where they are lines; a picture says which, the page says in what
// colour. On a small screen pictures keep a size at which they can be read, and are scrolled.
constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ink: #1c2128; --soft: #59636e; --line: #d1d9e0; --paper: #ffffff; --shade: #f3f5f7;
  --good: #1a7f37; --bad: #b42318; --s0: #3b6fb6; --s1: #d9822b; --s2: #3f9b6c; --s3: #b5475b; --s4: #7d62b8;
  --s5: #8c6d4f; --s6: #c7a008; --s7: #7a8491; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9aa4b0; --line: #3a424d; --paper: #15191f;
  --shade: #1e242c; --good: #4cc273; --bad: #ff7b72; --s0: #6ea3ea; --s1: #f0a35a; --s2: #62c493; --s3: #e57a8c;
  --s4: #a48ce0; --s5: #bd9b78; --s6: #e3c23f; --s7: #97a2b0; } }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin-top: 1.4rem; } h1, h2, h3, p { overflow-wrap: anywhere; }
.banner { padding: .7rem 1rem; border-left: .35rem solid; background: var(--shade); font-weight: 600; }
.good { border-color: var(--good); } .bad { border-color: var(--bad); }
figure { margin: 1rem 0; overflow-x: auto; } figcaption { color: var(--soft); font-size: .9rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .88rem; }
th, td { padding: .2rem .7rem; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap; }
td.long { white-space: normal; min-width: 18rem; overflow-wrap: anywhere; }
pre { overflow-x: auto; padding: .7rem 1rem; background: var(--shade); font-size: .82rem; }
th { color: var(--soft); font-weight: 600; } .number { text-align: right; font-variant-numeric: tabular-nums; }
summary { cursor: pointer; margin: .6rem 0; } svg { max-width: 100%; height: auto; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; } svg .soft { fill: var(--soft); }
svg .axis { stroke: var(--line); } svg .mark { stroke: var(--ink); stroke-width: 2; stroke-dasharray: 4 3; }
svg .path { fill: none; stroke: var(--soft); stroke-width: 1.5; }
svg .line { fill: none; stroke-width: 1.6; } svg .hit { fill: transparent; }
@media (max-width: 48rem) { body { margin: 1rem auto; padding: 0 .6rem; } svg { min-width: 44rem; } }
.s0 { fill: var(--s0); } .s1 { fill: var(--s1); } .s2 { fill: var(--s2); } .s3 { fill: var(--s3); }
.s4 { fill: var(--s4); } .s5 { fill: var(--s5); } .s6 { fill: var(--s6); } .s7 { fill: var(--s7); }
.l0 { stroke: var(--s0); } .l1 { stroke: var(--s1); } .l2 { stroke: var(--s2); } .l3 { stroke: var(--s3); }
.l4 { stroke: var(--s4); } .l5 { stroke: var(--s5); } .l6 { stroke: var(--s6); } .l7 { stroke: var(--s7); }
)";

bool is_number(const std::string& heading) { return heading.starts_with('>'); }

constexpr size_t kSentence = 60;  // characters from which on a cell is broken into lines

std::string cell(const char* tag, std::string_view text, bool is_right) {
  const char* const cls = is_right ? " class=\"number\"" : text.size() > kSentence ? " class=\"long\"" : "";
  return fmt::format("<{}{}>{}</{}>", tag, cls, escape(text), tag);
}

std::string table_text(const Table& table) {
  std::string text = "<div class=\"wide\"><table>\n<thead><tr>";
  for (const std::string& heading : table.headings)
    text += cell("th", is_number(heading) ? heading.substr(1) : heading, is_number(heading));
  text += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    MEGACPP_CHECK(row.size() == table.headings.size())
        << row.size() << " cells in " << table.headings.size() << " columns";
    text += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) text += cell("td", row[i], is_number(table.headings[i]));
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

std::string_view class_of(Page::Tone tone) {
  switch (tone) {
    case Page::Tone::good:
      return "good";
    case Page::Tone::bad:
      return "bad";
    case Page::Tone::plain:
      return "plain";
  }
  return "";
}

}  // namespace

std::string escape(std::string_view text) {
  std::string safe;
  for (const char c : base::printable(text)) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string_view style() { return kStyle; }

Page::Page(std::string title) : title_(std::move(title)) {}

void Page::heading(std::string_view text) { body_ += fmt::format("<h2>{}</h2>\n", escape(text)); }

void Page::subheading(std::string_view text) { body_ += fmt::format("<h3>{}</h3>\n", escape(text)); }

void Page::paragraph(std::string_view text) { body_ += fmt::format("<p>{}</p>\n", escape(text)); }

void Page::banner(std::string_view text, Tone tone) {
  body_ += fmt::format("<p class=\"banner {}\">{}</p>\n", class_of(tone), escape(text));
}

void Page::figure(std::string_view svg, std::string_view caption) {
  body_ += fmt::format("<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n", svg, escape(caption));
}

void Page::table(const Table& table) { body_ += table_text(table); }

void Page::folded_table(std::string_view summary, const Table& table) {
  body_ += fmt::format("<details>\n<summary>{}</summary>\n{}</details>\n", escape(summary), table_text(table));
}

void Page::folded_text(std::string_view summary, std::string_view text) {
  body_ += fmt::format("<details>\n<summary>{}</summary>\n<pre>{}</pre>\n</details>\n", escape(summary), escape(text));
}

std::string Page::to_text() const {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{0}</title>\n"
      "<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{2}</body>\n</html>\n",
      escape(title_), kStyle, body_);
}

}  // namespace megacpp::report
