// SPDX-License-Identifier: Apache-2.0
// From a request to an answer: the whole dashboard without a socket. Answers are made from the runs of one folder and
// one catalog, both only read.
#pragma once

#include <optional>
#include <string>

#include "megacpp/evidence/http/answer.h"
#include "megacpp/evidence/serve/list_page.h"
#include "megacpp/evidence/serve/run_index.h"
#include "megacpp/run/launch/users_catalog.h"

namespace megacpp::serve {

/// What is served, and to whom.
struct Site {
  RunIndex& runs;
  launch::CatalogChoice catalog = {};
  http::Access access = {};
};

/// What a page is pushed: changes of one run, or of the list.
struct Feed {
  std::optional<std::string> run = {};  // nothing: the list
  ListQuery query = {};                 // of the list
  std::string stamp = {};               // what the page has
};

struct Answer : http::Answer {
  std::optional<Feed> feed = {};  // what the events are made of that follow instead of a body
};

/// Never throws.
Answer answer(const http::Request& request, const Site& site);
/// http::refusal() as a page.
Answer refusal(int status);

/// What has changed since the feed's stamp, which becomes today's; nothing where nothing has. The last one says that
/// the run is gone.
std::optional<http::Event> next_event(Feed& feed, RunIndex& runs);

}  // namespace megacpp::serve
