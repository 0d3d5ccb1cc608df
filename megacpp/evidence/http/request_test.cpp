// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/http/request.h"

#include <gtest/gtest.h>

namespace megacpp::http {
namespace {

using Strings = std::vector<std::string>;

TEST(RequestTest, AHeadIsAMethodATargetAndWhatIsAskedFor) {
  const std::optional<Request> request = parse_head(
      "GET /runs/a?q=1 HTTP/1.1\r\nHost: a:80\r\nAccept: */*\r\nHOST:b\r\ncookie: c=1 \r\nAuthorization: Bearer "
      "x\r\n\r\n"
      "a body that nobody reads");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->method, "GET");
  EXPECT_EQ(request->target, "/runs/a?q=1");
  EXPECT_EQ(request->hosts, (Strings{"a:80", "b"}));
  EXPECT_EQ(request->cookies, Strings{"c=1"});
  EXPECT_EQ(request->authorization, "Bearer x");
  EXPECT_EQ(parse_head("GET / HTTP/1.0\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n")->authorization, "");
}

TEST(RequestTest, AHeadThatIsNotWholeOrNotWellFormedIsRefused) {
  const std::string nul = std::string("GET /a") + '\0' + " HTTP/1.1\r\n\r\n";
  for (const std::string& head :
       Strings{"", "\r\n", "\r\n\r\n", "GET / HTTP/1.1", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\n",
               "GET HTTP/1.1\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n", "GET / HTTP/2\r\n\r\n", "GET / x HTTP/1.1\r\n\r\n",
               "GET / HTTP/1.1\n\n", "GET / HTTP/1.1\r\nHost\r\n\r\n", "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
               "GET / HTTP/1.1\r\n: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n more\r\n\r\n", nul})
    EXPECT_FALSE(parse_head(head)) << head;
}

TEST(RequestTest, ATargetIsTakenApartAndDecodedOnce) {
  const std::optional<Target> target = parse_target("/runs/a%20b%2Fc/events?q=x+y&q=z&empty=&alone");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->segments, (Strings{"runs", "a b/c", "events"}));
  EXPECT_EQ(target->values("q"), (Strings{"x y", "z"}));
  EXPECT_EQ(target->value("empty"), "");
  EXPECT_EQ(target->value("alone"), "");
  EXPECT_EQ(target->value("absent"), "");
  EXPECT_EQ(parse_target("/runs/%252e%252e")->segments, (Strings{"runs", "%2e%2e"})) << "not twice";
  EXPECT_TRUE(parse_target("/")->segments.empty());
  EXPECT_TRUE(parse_target("/?a=1")->segments.empty());
}

TEST(RequestTest, WhatIsNotWellFormedIsRefused) {
  const std::string nul = std::string("/runs/a") + '\0' + "b";
  for (const std::string& target : Strings{"",           "runs",       "*",
                                           "http://a/",  "//a",        "/runs//a",
                                           "/runs/",     "/%",         "/%4",
                                           "/%zz",       "/%00",       "/a%0d%0ab",
                                           "/%7f",       "/%ff",       "/%c0%ae%c0%ae",
                                           "/%e0%80%af", "/%ed%a0%80", "/?q=%",
                                           "/?%c0%ae=1", nul,          "/" + std::string(kMostTargetBytes, 'a')})
    EXPECT_FALSE(parse_target(target)) << target;
}

TEST(RequestTest, EncodedTextReadsBackAsItWas) {
  for (const std::string& text : Strings{"a", "a b", "ä/ö?&=#%", "..", "\"<>'"}) {
    const std::optional<Target> target = parse_target("/runs/" + url_encoded(text) + "?q=" + url_encoded(text));
    ASSERT_TRUE(target) << text;
    EXPECT_EQ(target->segments[1], text);
    EXPECT_EQ(target->value("q"), text);
    EXPECT_EQ(parse_target(to_text(*target))->query, target->query);
  }
  EXPECT_EQ(to_text(Target{}), "/");
}

}  // namespace
}  // namespace megacpp::http
