// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/http/access.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"

namespace megacpp::http {
namespace {

bool is_address_of(int family, const std::string& address) {
  in6_addr parsed{};  // large enough for either
  return ::inet_pton(family, address.c_str(), &parsed) == 1;
}

bool is_token_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("-._~").find(c) != std::string_view::npos;
}

/// The values of the cookies of that name in "a=1; b=2": a browser sends one for each path that it was set for.
std::vector<std::string> cookie_values(std::string_view cookies, std::string_view name) {
  std::vector<std::string> values;
  while (!cookies.empty()) {
    const size_t end = std::min(cookies.find(';'), cookies.size());
    std::string_view pair = cookies.substr(0, end);
    while (pair.starts_with(' ')) pair.remove_prefix(1);
    if (pair.starts_with(name) && pair.substr(name.size()).starts_with('='))
      values.emplace_back(pair.substr(name.size() + 1));
    cookies.remove_prefix(std::min(end + 1, cookies.size()));
  }
  return values;
}

}  // namespace

bool is_loopback(const std::string& address) {
  in_addr parsed{};
  if (::inet_pton(AF_INET, address.c_str(), &parsed) == 1) return (ntohl(parsed.s_addr) >> 24) == 127;
  in6_addr six{};
  return ::inet_pton(AF_INET6, address.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

std::string host_text(const std::string& address, int port) {
  const std::string name = address.find(':') == std::string::npos ? address : "[" + address + "]";
  return fmt::format("{}:{}", name, port);
}

void require_token(const std::string& token) {
  MEGACPP_REQUIRE(token.size() >= kLeastTokenBytes && token.size() <= kMostTokenBytes &&
                      std::ranges::all_of(token, is_token_letter),
                  E1007,
                  {.where = "--token",
                   .got = fmt::format("{} characters", token.size()),
                   .wanted = fmt::format("{} to {} letters, digits and -._~", kLeastTokenBytes, kMostTokenBytes),
                   .next = "make one: --token $(head -c 24 /dev/urandom | base64 | tr -d '+/=')"});
}

Access access_for(const std::string& address, int port, const std::string& token) {
  MEGACPP_REQUIRE(is_address_of(AF_INET, address) || is_address_of(AF_INET6, address), E1007,
                  {.where = "--bind",
                   .got = address.empty() ? "nothing" : address,
                   .wanted = "a numeric address of this machine, such as 127.0.0.1, 0.0.0.0 or ::1",
                   .next = "see the addresses with: hostname -I"});
  if (!token.empty()) require_token(token);
  if (!is_loopback(address)) {
    MEGACPP_REQUIRE(!token.empty(), E1007,
                    {.where = "--bind",
                     .got = address + " without --token",
                     .wanted = "a token: others can reach that address",
                     .next = "add --token, or leave --bind out to serve this machine alone"});
    return {.token = token};
  }
  Access access{.token = token};
  for (const std::string& name : {std::string("127.0.0.1"), std::string("localhost"), std::string("::1"), address}) {
    access.hosts.push_back(host_text(name, port));
    if (port == 80) access.hosts.push_back(name);
  }
  return access;
}

bool is_same_token(std::string_view given, std::string_view wanted) {
  if (wanted.empty()) return false;
  size_t difference = given.size() ^ wanted.size();
  for (size_t i = 0; i < given.size(); ++i)
    difference |= static_cast<size_t>(static_cast<unsigned char>(given[i]) ^
                                      static_cast<unsigned char>(wanted[i % wanted.size()]));
  return difference == 0;
}

base::Decision admit_host(const Request& request, const Access& access) {
  if (request.hosts.size() != 1) return base::Decision::no("not one Host header");
  if (access.hosts.empty()) return base::Decision::yes();
  const std::string host = lower_case(request.hosts.front());
  if (std::ranges::find(access.hosts, host) != access.hosts.end()) return base::Decision::yes();
  return base::Decision::no("a Host header that does not name this server");
}

bool has_token(const Request& request, const Target& target, const Access& access) {
  if (access.token.empty()) return true;
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view authorization = request.authorization;
  if (authorization.starts_with(kBearer) && is_same_token(authorization.substr(kBearer.size()), access.token))
    return true;
  for (const std::string& cookies : request.cookies)
    for (const std::string& cookie : cookie_values(cookies, kTokenCookie))
      if (is_same_token(cookie, access.token)) return true;
  return is_same_token(target.value(kTokenKey), access.token);
}

}  // namespace megacpp::http
