// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/list_page.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/evidence/receipt/receipt.h"

namespace megacpp::serve {
namespace {

using receipt::EndingKind;
using report::escape;

using HtmlCells = std::vector<std::string>;

constexpr std::array<const char*, 10> kHeadings = {"",         "run",    "state", "started",   "model",
                                                   "topology", ">steps", ">loss", ">tokens/s", "verdict"};

std::string row_html(const HtmlCells& cells) {
  MEGACPP_CHECK(cells.size() == kHeadings.size()) << cells.size() << " cells";
  std::string text = "<tr>";
  for (size_t i = 0; i < cells.size(); ++i)
    text += fmt::format("<td{}>{}</td>", *kHeadings[i] == '>' ? " class=\"number\"" : "", cells[i]);
  return text + "</tr>\n";
}

std::string table_html(const std::string& caption, const std::string& rows) {
  std::string text = fmt::format("<div class=\"wide\"><table>\n<caption>{}</caption>\n<thead><tr>", escape(caption));
  for (const std::string_view heading : kHeadings)
    text += heading.starts_with('>') ? fmt::format("<th scope=\"col\" class=\"number\">{}</th>", heading.substr(1))
                                     : fmt::format("<th scope=\"col\">{}</th>", heading);
  return text + "</tr></thead>\n<tbody>\n" + rows + "</tbody></table></div>\n";
}

/// Of a run that is not read only the name is known.
bool matches(const RunSummary& run, const ListQuery& query) {
  if (!query.ending.empty() && (!run.is_read || !run.problem.empty() || base::text_of(run.ending) != query.ending))
    return false;
  const std::string words =
      fmt::format("{}\n{}\n{}\n{}\n{}", run.name, run.model, run.topology, run.verdict, run.problem);
  return http::lower_case(words).find(http::lower_case(query.text)) != std::string::npos;
}

std::string ending_html(const RunSummary& run) {
  if (!run.is_read) return "reading";
  if (!run.problem.empty()) return "<span class=\"problem\">" + escape(run.problem) + "</span>";
  return escape(base::text_of(run.ending));
}

HtmlCells row_of(const RunSummary& run) {
  const bool is_known = run.is_read && run.problem.empty();
  const std::string tick =
      is_known ? fmt::format("<input type=\"checkbox\" name=\"run\" value=\"{0}\" aria-label=\"compare {0}\"/>",
                             escape(run.name))
               : "";
  return {tick,
          run_link(run.name),
          ending_html(run),
          escape(run.started_at),
          escape(run.model),
          escape(run.topology),
          is_known ? fmt::format("{}/{}", run.steps, run.requested_steps) : "",
          run.loss ? fmt::format("{:.4f}", *run.loss) : "",
          run.tokens_per_second ? fmt::format("{:.0f}", *run.tokens_per_second) : "",
          escape(run.verdict)};
}

/// A row above those of its runs.
HtmlCells row_of(const SweepSummary& sweep) {
  const std::string state =
      sweep.problem.empty() ? "sweep" : "<span class=\"problem\">" + escape(sweep.problem) + "</span>";
  const std::string axis = sweep.axis.empty() ? "" : ": " + sweep.axis;
  return {"", escape(sweep.name + axis), state, "", "", "", sweep.progress, "", "", ""};
}

bool has_runs(const SweepSummary& sweep, const RunList& list) {
  return std::ranges::any_of(list.runs, [&](const RunSummary& run) { return run.sweep == sweep.name; });
}

/// One that has no runs yet stands above all.
std::string sweeps_without_runs(const RunList& list, const ListQuery& query) {
  std::string rows;
  if (!query.text.empty() || !query.ending.empty() || query.page > 1) return rows;
  for (const SweepSummary& sweep : list.sweeps)
    if (!has_runs(sweep, list)) rows += row_html(row_of(sweep));
  return rows;
}

std::string rows_of(const RunSummary& run, const RunSummary* before, const RunList& list) {
  std::string rows;
  if (!run.sweep.empty() && (before == nullptr || before->sweep != run.sweep))
    for (const SweepSummary& sweep : list.sweeps)
      if (sweep.name == run.sweep) rows += row_html(row_of(sweep));
  return rows + row_html(row_of(run));
}

std::string page_link(ListQuery query, size_t page, const char* label) {
  query.page = page;
  return fmt::format("<a href=\"/?{}\">{}</a> ", escape(to_text(query)), label);
}

std::string filter_html(const ListQuery& query) {
  std::string options = "<option value=\"\">any state</option>";
  for (const std::string& name : base::all_words<EndingKind>())
    options += fmt::format("<option value=\"{0}\"{1}>{0}</option>", name,
                           query.ending == name ? " selected=\"selected\"" : "");
  return fmt::format(
      "<form action=\"/\" method=\"get\" role=\"search\">\n<label for=\"filter\">Filter</label>\n"
      "<input id=\"filter\" type=\"search\" name=\"q\" value=\"{}\" placeholder=\"name, model, verdict\"/>\n"
      "<select name=\"ending\" aria-label=\"state\">{}</select>\n<button type=\"submit\">Show</button>\n</form>\n",
      escape(query.text), options);
}

void add_advice(report::Page& page, const std::filesystem::path& folder) {
  page.banner(fmt::format("There are no runs in {} yet.", folder.string()), report::Page::Tone::plain);
  page.paragraph("A training leaves one, and this page shows it as soon as it starts:");
  page.html("<pre>megacpp train recipes/nam56r-tiny.yaml</pre>\n");
  page.paragraph(
      "Runs that are elsewhere are shown by: megacpp serve --runs DIR, or with their folder in MEGACPP_RUNS.");
}

}  // namespace

ListQuery list_query(const http::Target& target) {
  ListQuery query{.text = target.value("q"), .ending = target.value("ending")};
  const std::string page = target.value("page");
  size_t number = 1;
  const auto [end, error] = std::from_chars(page.data(), page.data() + page.size(), number);
  if (error == std::errc() && end == page.data() + page.size() && number > 0) query.page = number;
  return query;
}

std::string to_text(const ListQuery& query) {
  return fmt::format("q={}&ending={}&page={}", http::url_encoded(query.text), http::url_encoded(query.ending),
                     query.page);
}

std::string runs_html(const RunList& list, const ListQuery& query) {
  std::vector<const RunSummary*> found;
  for (const RunSummary& run : list.runs)
    if (matches(run, query)) found.push_back(&run);
  const size_t pages = std::max<size_t>(1, (found.size() + kRunsOnAPage - 1) / kRunsOnAPage);
  const size_t page = std::min(query.page, pages);
  std::string rows = sweeps_without_runs(list, query);
  const size_t first = (page - 1) * kRunsOnAPage;
  for (size_t i = first; i < std::min(found.size(), first + kRunsOnAPage); ++i)
    rows += rows_of(*found[i], i == first ? nullptr : found[i - 1], list);
  std::string text = table_html(fmt::format("{} of {} runs{}", found.size(), list.runs.size(),
                                            list.unread > 0 ? fmt::format(", {} not read yet", list.unread) : ""),
                                rows);
  if (pages > 1) text += fmt::format("<p>page {} of {} ", page, pages);
  if (page > 1) text += page_link(query, page - 1, "newer");
  if (page < pages) text += page_link(query, page + 1, "older");
  return pages > 1 ? text + "</p>\n" : text;
}

Page list_page(const RunList& list, const ListQuery& query, const std::filesystem::path& folder) {
  Page page{.title = "Runs", .path = "/", .events = fmt::format("/events?{}&stamp={}", to_text(query), list.stamp)};
  page.body.html(filter_html(query) + "<form action=\"/compare\" method=\"get\">\n<div id=\"runs\">\n");
  if (list.runs.empty() && list.sweeps.empty())
    add_advice(page.body, folder);
  else
    page.body.html(runs_html(list, query));
  page.body.html("</div>\n<button type=\"submit\">Compare those ticked</button>\n</form>\n");
  return page;
}

}  // namespace megacpp::serve
