// SPDX-License-Identifier: Apache-2.0
// From a request to an answer: the whole dashboard without a socket. Answers are made from the runs of one folder and
// one catalog, both only read. Every answer, refusals too, has the headers that keep a page from being cached, framed,
// sniffed, or from loading and running anything that is not ours.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/launch/users_catalog.h"
#include "megacpp/serve/access.h"
#include "megacpp/serve/list_page.h"
#include "megacpp/serve/request.h"
#include "megacpp/serve/run_index.h"

namespace megacpp::serve {

/// What is served, and to whom.
struct Site {
  RunIndex& runs;
  launch::CatalogChoice catalog = {};
  Access access = {};
};

/// What a page is pushed: changes of one run, or of the list.
struct Feed {
  std::optional<std::string> run = {};  // nothing: the list
  ListQuery query = {};                 // of the list
  std::string stamp = {};               // what the page has
};

struct Answer {
  int status = 200;
  std::string type = "text/html; charset=utf-8";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};  // beside the type
  std::optional<Feed> feed = {};                                  // events that follow instead of a body
};

/// Never throws.
Answer answer(const Request& request, const Site& site);
/// For a request that did not get so far: one that cannot be read, or for which there is no room.
Answer refusal(int status);

struct Event {
  std::string text;      // as it is sent
  bool is_last = false;  // the run is gone
};
/// What has changed since the feed's stamp, which becomes today's; nothing where nothing has.
std::optional<Event> next_event(Feed& feed, RunIndex& runs);

}  // namespace megacpp::serve
