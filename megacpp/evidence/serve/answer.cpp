// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/answer.h"

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/json.h"
#include "megacpp/evidence/metrics/prometheus.h"
#include "megacpp/evidence/serve/assets.h"
#include "megacpp/evidence/serve/catalog_page.h"
#include "megacpp/evidence/serve/ceilings_page.h"
#include "megacpp/evidence/serve/compare_page.h"
#include "megacpp/evidence/serve/page.h"
#include "megacpp/evidence/serve/run_files.h"
#include "megacpp/evidence/serve/run_page.h"
#include "megacpp/hardware/catalog/catalog.h"

namespace megacpp::serve {
namespace {

using http::Event;
using http::Target;

Answer with_body(std::string type, std::string body) {
  return {http::make_answer(std::move(type), std::move(body)), std::nullopt};
}

Answer page_answer(const Page& page) { return with_body("text/html; charset=utf-8", to_html(page)); }

Answer feed_answer(Feed feed) {
  Answer events = with_body("text/event-stream", "");
  events.feed = std::move(feed);
  return events;
}

// ---- Pages

Answer list_answer(const Target& target, const Site& site) {
  return page_answer(list_page(site.runs.list(), list_query(target), site.runs.folder()));
}

Answer list_feed_answer(const Target& target, const Site&) {
  return feed_answer({.query = list_query(target), .stamp = target.value("stamp")});
}

Answer run_answer(const Target& target, const Site& site) {
  const std::string& name = target.segments[1];
  const std::optional<RunDetails> run = site.runs.details(name);
  return run ? page_answer(run_page(name, *run)) : refusal(404);
}

Answer run_feed_answer(const Target& target, const Site& site) {
  const std::string& name = target.segments[1];
  if (!site.runs.stamp_of(name)) return refusal(404);
  return feed_answer({.run = name, .stamp = target.value("stamp")});
}

Answer compare_answer(const Target& target, const Site& site) {
  const std::vector<std::string> names = target.values("run");
  if (names.size() > kMostCompared) return refusal(400);
  if (names.size() < 2) return page_answer(compare_help_page());
  std::vector<receipt::Receipt> receipts;
  for (const std::string& name : names) {
    std::optional<RunDetails> run = site.runs.details(name);
    if (!run) return refusal(404);
    if (!run->problem.empty()) {
      Page page{.title = "Compare", .path = "/compare"};
      page.body.banner(name + ": " + run->problem, report::Page::Tone::bad);
      return page_answer(page);
    }
    receipts.push_back(std::move(run->receipt));
  }
  return page_answer(compare_page(std::move(receipts)));
}

Answer ceilings_answer(const Target&, const Site& site) {
  const size_t unread = site.runs.list().unread;
  return page_answer(ceilings_page(site.runs.outlines(), unread));
}

Answer catalog_answer(const Target&, const Site& site) {
  launch::UsersCatalog users(site.catalog, catalog::Access::read);
  std::vector<catalog::Entry> entries;
  users.use([&](const catalog::Catalog& catalog) { entries = catalog.entries(); });
  return page_answer(catalog_page(entries, users.why_not()));
}

Answer metrics_answer(const Target&, const Site& site) {
  return with_body(metrics::kPrometheusType, metrics::metrics_text(site.runs.metric_families()));
}

// ---- Routes

/// A path; "*" stands for the name of a run.
struct Route {
  std::vector<std::string_view> path;
  Answer (*make)(const Target& target, const Site& site);
};

const std::vector<Route>& all_routes() {
  static const std::vector<Route> routes = {
      {{}, list_answer},
      {{"events"}, list_feed_answer},
      {{"runs", "*"}, run_answer},
      {{"runs", "*", "events"}, run_feed_answer},
      {{"compare"}, compare_answer},
      {{"ceilings"}, ceilings_answer},
      {{"catalog"}, catalog_answer},
      {{"metrics"}, metrics_answer},
      {{"style.css"}, [](const Target&, const Site&) { return with_body("text/css; charset=utf-8", style_sheet()); }},
      {{"app.js"},
       [](const Target&, const Site&) { return with_body("text/javascript; charset=utf-8", std::string(script())); }},
      {{"icon.svg"}, [](const Target&, const Site&) { return with_body("image/svg+xml", std::string(icon())); }},
  };
  return routes;
}

bool leads_to(const Route& route, const Target& target) {
  return std::ranges::equal(route.path, target.segments, [](std::string_view wanted, const std::string& got) {
    return wanted == "*" ? !got.empty() : wanted == got;
  });
}

Answer routed(const http::Request& request, const Site& site) {
  http::Admission admitted = http::admit(request, site.access);
  if (!admitted.target) {
    const int status = admitted.refused.status;
    return status >= 400 ? refusal(status) : Answer{std::move(admitted.refused), std::nullopt};
  }
  for (const Route& route : all_routes())
    if (leads_to(route, *admitted.target)) return route.make(*admitted.target, site);
  return refusal(404);
}

// ---- Events

/// "event: update" with {"id": "html"}; JSON has no line ends of its own.
std::string update_text(const base::Json& parts) {
  return fmt::format("event: update\ndata: {}\n\n", base::to_text(parts));
}

std::optional<Event> run_event(Feed& feed, RunIndex& runs) {
  const std::optional<std::string> stamp = runs.stamp_of(*feed.run);
  if (stamp && *stamp == feed.stamp) return std::nullopt;
  const std::optional<RunDetails> run = stamp ? runs.details(*feed.run) : std::nullopt;
  if (!run) return Event{.text = "event: gone\ndata: {}\n\n", .is_last = true};
  feed.stamp = run->stamp;
  base::Json parts = base::Json::object();
  parts["progress"] = progress_html(*run);
  parts["charts"] = charts_html(*run);
  return Event{.text = update_text(parts)};
}

std::optional<Event> list_event(Feed& feed, RunIndex& runs) {
  const RunList list = runs.list();
  if (list.stamp == feed.stamp) return std::nullopt;
  feed.stamp = list.stamp;
  base::Json parts = base::Json::object();
  parts["runs"] = runs_html(list, feed.query);
  return Event{.text = update_text(parts)};
}

}  // namespace

Answer refusal(int status) {
  Page page{.title = std::to_string(status), .path = ""};
  page.body.banner(http::refusal_text(status), report::Page::Tone::bad);
  page.body.html("<p><a href=\"/\">To the runs</a></p>\n");
  Answer refused{http::refusal(status), std::nullopt};
  refused.type = "text/html; charset=utf-8";
  refused.body = to_html(page);
  return refused;
}

Answer answer(const http::Request& request, const Site& site) {
  try {
    return routed(request, site);
  } catch (const base::Error& error) {
    Answer failed = refusal(500);
    Page page{.title = "500", .path = ""};
    page.body.banner(problem_text(error), report::Page::Tone::bad);
    failed.body = to_html(page);
    return failed;
  } catch (const std::exception&) {
    return refusal(500);
  }
}

std::optional<Event> next_event(Feed& feed, RunIndex& runs) {
  try {
    return feed.run ? run_event(feed, runs) : list_event(feed, runs);
  } catch (const base::Error&) {
    return std::nullopt;  // a folder that cannot be read at this moment: the next look may succeed
  }
}

}  // namespace megacpp::serve
