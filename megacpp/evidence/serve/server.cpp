// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/server.h"

#include <utility>

#include <fmt/format.h>

namespace megacpp::serve {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRunTick{250}, kListTick{1000};  // between two looks of a feed

/// The answer as the server sends it: a feed becomes its events.
http::Answer sent_answer(const http::Request& request, const Site& site) {
  Answer made = answer(request, site);
  if (!made.feed) return made;
  const milliseconds pause = made.feed->run ? kRunTick : kListTick;
  http::EventSource events;
  events.next = [&runs = site.runs, feed = std::move(*made.feed)]() mutable { return next_event(feed, runs); };
  events.pause = pause;
  made.events = std::move(events);
  return made;
}

}  // namespace

Server::Server(const Listen& listen, RunIndex& runs, const launch::CatalogChoice& catalog)
    : listen_(listen), site_{.runs = runs, .catalog = catalog} {
  http::access_for(listen.address, listen.port, listen.token);  // before anything is bound
  http::Listen bounds{.where = "--port", .address = listen.address, .port = listen.port};
  bounds.threads = kThreads;
  bounds.most_events = kMostFeeds;
  bounds.head_time = listen.head_time;
  http_ = http::serve(bounds, [this](int port) {
    site_.access = http::access_for(listen_.address, port, listen_.token);
    http::Responder responder;
    responder.answer = [this](const http::Request& request) { return sent_answer(request, site_); };
    responder.refusal = refusal;
    return responder;
  });
}

std::string Server::url() const {
  return fmt::format("http://{}/{}", http::host_text(listen_.address, port()),
                     listen_.token.empty() ? "" : fmt::format("?{}={}", http::kTokenKey, listen_.token));
}

}  // namespace megacpp::serve
