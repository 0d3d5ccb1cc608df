// SPDX-License-Identifier: Apache-2.0
// Who may read. Without a token only this machine's own browsers may: the server listens on loopback, and a request
// must name loopback in its Host header, so that no page of another site reaches it by a name that it points here (DNS
// rebinding). With a token every request must carry it; other addresses than loopback need one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/decision.h"
#include "megacpp/evidence/http/request.h"

namespace megacpp::http {

struct Access {
  std::vector<std::string> hosts = {};  // that a Host header may have, with the port; empty: any
  std::string token = {};               // empty: none is needed
};

/// Where a browser keeps the token that it was given once.
inline constexpr const char* kTokenCookie = "megacpp_token";
/// Of a target: "/?token=...".
inline constexpr const char* kTokenKey = "token";
inline constexpr size_t kLeastTokenBytes = 16;
inline constexpr size_t kMostTokenBytes = 256;

/// Whether the address is of this machine's loopback; false for what is no numeric address.
bool is_loopback(const std::string& address);
/// "127.0.0.1:8077", "[::1]:8077".
std::string host_text(const std::string& address, int port);
/// E1007 for one that is too short, too long or has other characters than letters, digits and "-._~".
void require_token(const std::string& token);
/// For a server on that address and port; an empty token is none. E1007 for what is no numeric address, for an address
/// beyond loopback without a token, and as require_token().
Access access_for(const std::string& address, int port, const std::string& token);

/// How often it looks depends on the length of `given` alone.
bool is_same_token(std::string_view given, std::string_view wanted);

/// Whether exactly one Host header came and may.
base::Decision admit_host(const Request& request, const Access& access);
/// Whether the request carries the token: as "Authorization: Bearer", as a cookie or in the target.
bool has_token(const Request& request, const Target& target, const Access& access);

}  // namespace megacpp::http
