// SPDX-License-Identifier: Apache-2.0
// Answers to requests, before there is a socket. All that are made here have the headers that keep a page from being
// cached, framed or sniffed, and from loading or running anything that is not the server's own.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "megacpp/evidence/http/access.h"
#include "megacpp/evidence/http/request.h"

namespace megacpp::http {

/// A server-sent event.
struct Event {
  std::string text;      // as it is sent
  bool is_last = false;  // nothing follows
};

/// Events that are asked for again and again, by a thread of the server, until the reader leaves.
struct EventSource {
  std::function<std::optional<Event>()> next;  // nothing where nothing is new
  std::chrono::milliseconds pause{1'000};      // between two calls
};

struct Answer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};  // beside the type
  std::optional<EventSource> events = {};                         // that follow instead of a body
};

Answer make_answer(std::string type, std::string body);

/// A sentence for people.
std::string_view refusal_text(int status);
/// The sentence as plain text, with the headers that its status demands.
Answer refusal(int status);

struct Admission {
  std::optional<Target> target = {};  // of a request that may be answered
  Answer refused = {};                // else: a refusal, or the way to the same page without the token in its address
};
/// GET and HEAD alone, of a well-formed target, by a reader who may.
Admission admit(const Request& request, const Access& access);

}  // namespace megacpp::http
