// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/http/access.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"
#include "tests/support/errors.h"

namespace megacpp::http {
namespace {

constexpr const char* kToken = "0123456789abcdef";

Request with_host(const std::string& host) { return {.method = "GET", .target = "/", .hosts = {host}}; }

TEST(AccessTest, OnLoopbackOnlyItsOwnNamesAreAdmitted) {
  const Access access = access_for("127.0.0.1", 8077, "");
  for (const char* host : {"127.0.0.1:8077", "localhost:8077", "LOCALHOST:8077", "[::1]:8077"})
    EXPECT_TRUE(admit_host(with_host(host), access)) << host;
  for (const char* host : {"evil.example", "evil.example:8077", "127.0.0.1", "127.0.0.1:80",
                           "localhost:8077.evil.example", "localhost", "", "127.0.0.1:8077 ", "0.0.0.0:8077"})
    EXPECT_FALSE(admit_host(with_host(host), access)) << host;
  Request twice = with_host("localhost:8077");
  twice.hosts.push_back("evil.example");
  EXPECT_FALSE(admit_host(twice, access));
  twice.hosts.clear();
  EXPECT_FALSE(admit_host(twice, access));
  EXPECT_TRUE(admit_host(with_host("localhost"), access_for("127.0.0.1", 80, "")));
}

TEST(AccessTest, OtherAddressesNeedAToken) {
  for (const char* address : {"0.0.0.0", "::", "10.1.2.3", "2001:db8::1"}) {
    EXPECT_FALSE(is_loopback(address)) << address;
    EXPECT_EQ(testing_support::error_of([&] { access_for(address, 1, ""); }).code(), base::Code::E1007) << address;
    EXPECT_TRUE(admit_host(with_host("any.example"), access_for(address, 1, kToken))) << address;
  }
  for (const char* address : {"127.0.0.1", "127.8.9.10", "::1"}) EXPECT_TRUE(is_loopback(address)) << address;
  for (const char* address : {"", "localhost", "127.0.0.1:1", "1.2.3", "::g"})
    EXPECT_EQ(testing_support::error_of([&] { access_for(address, 1, kToken); }).code(), base::Code::E1007) << address;
  for (const std::string& token : {std::string("short"), std::string(257, 'a'), std::string("0123456789abcde;")})
    EXPECT_EQ(testing_support::error_of([&] { access_for("::1", 1, token); }).code(), base::Code::E1007) << token;
}

TEST(AccessTest, ATokenIsComparedWhole) {
  EXPECT_TRUE(is_same_token(kToken, kToken));
  for (const char* given :
       {"", "0", "0123456789abcdeF", "0123456789abcde", "0123456789abcdef0", "0123456789abcdef0123456789abcdef"})
    EXPECT_FALSE(is_same_token(given, kToken)) << given;
  EXPECT_FALSE(is_same_token("", "")) << "no token is none that fits";
}

TEST(AccessTest, ATokenComesInAHeaderACookieOrTheTarget) {
  const Access access = access_for("::1", 1, kToken);
  const std::string token = kToken;
  EXPECT_TRUE(has_token(with_host("x"), Target{}, Access{})) << "none is needed";
  EXPECT_FALSE(has_token(with_host("x"), Target{}, access));
  Request header = with_host("x");
  header.authorization = "Bearer " + token;
  EXPECT_TRUE(has_token(header, Target{}, access));
  header.authorization = "Basic " + token;
  EXPECT_FALSE(has_token(header, Target{}, access));
  Request cookie = with_host("x");
  cookie.cookies = {"a=1; megacpp_token=" + token + "; b=2"};
  EXPECT_TRUE(has_token(cookie, Target{}, access));
  cookie.cookies = {"a=1;", ";;=", "xmegacpp_token=" + token, "megacpp_token", "megacpp_token=" + token + "x"};
  EXPECT_FALSE(has_token(cookie, Target{}, access));
  EXPECT_TRUE(has_token(with_host("x"), *parse_target("/?token=" + token), access));
  EXPECT_FALSE(has_token(with_host("x"), *parse_target("/?token="), access));
}

// Of a server that was here before, with another token.
TEST(AccessTest, AStaleCookieHidesNoTokenBesideIt) {
  const Access access = access_for("::1", 1, kToken);
  const std::string token = kToken, stale = "megacpp_token=fedcba9876543210", valid = "megacpp_token=" + token;
  Request request = with_host("x");
  for (const std::vector<std::string>& cookies : {std::vector{stale + "; " + valid},
                                                  {valid + "; " + stale},
                                                  {stale, valid},
                                                  {stale + "; " + stale + ";" + valid}}) {
    request.cookies = cookies;
    EXPECT_TRUE(has_token(request, Target{}, access)) << cookies.front();
  }
  request.cookies = {stale + "; " + stale, stale};
  EXPECT_FALSE(has_token(request, Target{}, access));
  EXPECT_FALSE(has_token(request, *parse_target("/?token=fedcba9876543210"), access));
  EXPECT_TRUE(has_token(request, *parse_target("/?token=" + token), access));
  request.authorization = "Bearer " + token;
  EXPECT_TRUE(has_token(request, Target{}, access));
}

}  // namespace
}  // namespace megacpp::http
