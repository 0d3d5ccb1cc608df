// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/http/answer.h"

#include <fmt/format.h>

namespace megacpp::http {
namespace {

/// To the same page without the token, which the browser keeps from here on.
Answer without_token(Target target, const Access& access) {
  std::erase_if(target.query, [](const auto& pair) { return pair.first == kTokenKey; });
  Answer redirect = make_answer("text/plain; charset=utf-8", "");
  redirect.status = 303;
  redirect.headers.emplace_back("Location", to_text(target));
  redirect.headers.emplace_back("Set-Cookie",
                                fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict", kTokenCookie, access.token));
  return redirect;
}

}  // namespace

Answer make_answer(std::string type, std::string body) {
  Answer answer;
  answer.type = std::move(type);
  answer.body = std::move(body);
  answer.headers = {{"Content-Security-Policy",
                     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
                     "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
                    {"X-Content-Type-Options", "nosniff"},
                    {"X-Frame-Options", "DENY"},
                    {"Referrer-Policy", "no-referrer"},
                    {"Cross-Origin-Resource-Policy", "same-origin"},
                    {"Cross-Origin-Opener-Policy", "same-origin"},
                    {"Cache-Control", "no-store"},
                    {"Accept-Ranges", "none"}};
  return answer;
}

std::string_view refusal_text(int status) {
  switch (status) {
    case 400:
      return "The request cannot be read.";
    case 401:
      return "A token is needed: add ?token=... as megacpp serve printed it.";
    case 403:
      return "This address is not one of the server's own.";
    case 404:
      return "There is no such page or run.";
    case 405:
      return "Pages can only be read.";
    case 503:
      return "Too many pages are open.";
    default:
      return "The page could not be made.";
  }
}

Answer refusal(int status) {
  Answer refused = make_answer("text/plain; charset=utf-8", fmt::format("{} {}\n", status, refusal_text(status)));
  refused.status = status;
  if (status == 401) refused.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (status == 405) refused.headers.emplace_back("Allow", "GET, HEAD");
  if (status == 503) refused.headers.emplace_back("Retry-After", "5");
  return refused;
}

Admission admit(const Request& request, const Access& access) {
  if (request.method != "GET" && request.method != "HEAD") return {.refused = refusal(405)};
  std::optional<Target> target = parse_target(request.target);
  if (!target || request.hosts.size() != 1) return {.refused = refusal(400)};
  if (!admit_host(request, access)) return {.refused = refusal(403)};
  if (!has_token(request, *target, access)) return {.refused = refusal(401)};
  if (!access.token.empty() && is_same_token(target->value(kTokenKey), access.token))
    return {.refused = without_token(std::move(*target), access)};
  Admission admitted;
  admitted.target = std::move(target);
  return admitted;
}

}  // namespace megacpp::http
