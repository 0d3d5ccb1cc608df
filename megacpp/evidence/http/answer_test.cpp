// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/http/answer.h"

#include <gtest/gtest.h>

namespace megacpp::http {
namespace {

constexpr const char* kAdmittedHost = "127.0.0.1:8077";
constexpr const char* kAdmittedToken = "0123456789abcdef";

std::string header_value(const Answer& answer, const std::string& name) {
  for (const auto& [key, value] : answer.headers)
    if (key == name) return value;
  return "";
}

Request get_of(const std::string& target) { return {.method = "GET", .target = target, .hosts = {kAdmittedHost}}; }

TEST(HttpAnswerTest, RefusalsSayWhatTheirStatusDemands) {
  EXPECT_EQ(header_value(refusal(401), "WWW-Authenticate"), "Bearer");
  EXPECT_EQ(header_value(refusal(405), "Allow"), "GET, HEAD");
  EXPECT_EQ(header_value(refusal(503), "Retry-After"), "5");
  for (const int status : {400, 401, 403, 404, 405, 414, 500, 503}) {
    const Answer refused = refusal(status);
    EXPECT_EQ(refused.status, status);
    EXPECT_EQ(refused.body, std::to_string(status) + " " + std::string(refusal_text(status)) + "\n");
    EXPECT_EQ(header_value(refused, "X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(header_value(refused, "Cache-Control"), "no-store");
  }
}

TEST(HttpAnswerTest, RequestsAreAdmittedOrRefused) {
  const Access access = access_for("127.0.0.1", 8077, "");
  const Admission admitted = admit(get_of("/runs/a%20b?x=1"), access);
  ASSERT_TRUE(admitted.target);
  EXPECT_EQ(admitted.target->segments.back(), "a b");
  Request posted = get_of("/");
  posted.method = "POST";
  EXPECT_EQ(admit(posted, access).refused.status, 405);
  EXPECT_EQ(admit(get_of("/%"), access).refused.status, 400);
  Request foreign = get_of("/");
  foreign.hosts = {"evil.example"};
  EXPECT_EQ(admit(foreign, access).refused.status, 403);
  foreign.hosts.clear();
  EXPECT_EQ(admit(foreign, access).refused.status, 400);
}

TEST(HttpAnswerTest, ATokenInTheAddressBecomesACookie) {
  const Access access = access_for("127.0.0.1", 8077, kAdmittedToken);
  EXPECT_EQ(admit(get_of("/"), access).refused.status, 401);
  const Admission redirected = admit(get_of("/runs/a?token=" + std::string(kAdmittedToken) + "&page=2"), access);
  EXPECT_FALSE(redirected.target);
  EXPECT_EQ(redirected.refused.status, 303);
  EXPECT_EQ(header_value(redirected.refused, "Location"), "/runs/a?page=2");
  Request with_header = get_of("/");
  with_header.authorization = "Bearer " + std::string(kAdmittedToken);
  EXPECT_TRUE(admit(with_header, access).target);
}

}  // namespace
}  // namespace megacpp::http
