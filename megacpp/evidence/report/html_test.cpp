// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/report/html.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"
#include "tests/support/well_formed.h"

namespace megacpp::report {
namespace {

TEST(HtmlTest, EscapesWhatWouldBeMarkup) {
  EXPECT_EQ(escape("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(escape("plain, äöü"), "plain, äöü");
  EXPECT_EQ(escape(std::string_view("a\xff\x1b[1m\0<", 8)), "a\\xff\\x1b[1m\\x00&lt;") << "bytes that are no text";
}

TEST(HtmlTest, APageIsOneWholeDocumentWithoutAnythingFromElsewhere) {
  Page page("plan of <x>");
  page.banner("fits", Page::Tone::good);
  page.banner("does not", Page::Tone::bad);
  page.banner("close", Page::Tone::plain);
  page.heading("Memory & time");
  page.subheading("a <chip>");
  page.paragraph("a < b");
  page.figure("<svg><title>x</title></svg>\n", "what it shows");
  page.table({.headings = {"name", ">bytes"}, .rows = {{"<w>", "12"}, {"v", "3"}}});
  page.folded_table("all 2 rows", {.headings = {"name"}, .rows = {{"a"}, {std::string(61, 'b')}}});
  page.folded_text("as <YAML>", "name: x\n  a: <b>\n");
  const std::string text = page.to_text();
  EXPECT_EQ(testing_support::unbalanced_tag(text), "");
  EXPECT_EQ(testing_support::outside_load(text), "");
  EXPECT_EQ(text.rfind("<!DOCTYPE html>", 0), 0U);
  for (const char* part :
       {"<title>plan of &lt;x&gt;</title>", "<h2>Memory &amp; time</h2>", "a &lt; b", "class=\"banner good\"",
        "class=\"banner bad\"", "class=\"banner plain\"", "<td>&lt;w&gt;</td>", "<th class=\"number\">bytes</th>",
        "<td class=\"number\">12</td>", "<summary>all 2 rows</summary>", "prefers-color-scheme: dark",
        "<h3>a &lt;chip&gt;</h3>", "<td class=\"long\">bbb", "<summary>as &lt;YAML&gt;</summary>",
        "<pre>name: x\n  a: &lt;b&gt;\n</pre>"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

TEST(HtmlTest, ARowWithAnotherNumberOfCellsIsOurMistake) {
  Page page("x");
  EXPECT_THROW(page.table({.headings = {"a", "b"}, .rows = {{"1"}}}), base::Error);
}

TEST(WellFormedTest, SeesTagsThatDoNotMatchAndLoads) {
  EXPECT_EQ(testing_support::unbalanced_tag("<p><b>x</b></p><br/>"), "");
  EXPECT_NE(testing_support::unbalanced_tag("<p><b>x</p></b>"), "");
  EXPECT_NE(testing_support::unbalanced_tag("<p>"), "");
  EXPECT_NE(testing_support::unbalanced_tag("</p>"), "");
  EXPECT_EQ(testing_support::outside_load("<img src=\"x\"/>"), "src=");
}

}  // namespace
}  // namespace megacpp::report
