// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/metrics/csv.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "megacpp/evidence/metrics/metric.h"
#include "tests/support/whole_report.h"

namespace megacpp::metrics {
namespace {

/// Of a text without quotes.
std::vector<std::vector<std::string>> rows_in(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  for (size_t begin = 0, end = 0; (end = text.find("\r\n", begin)) != std::string::npos; begin = end + 2) {
    std::vector<std::string>& row = rows.emplace_back(1);
    for (const char c : text.substr(begin, end - begin)) {
      if (c == ',')
        row.emplace_back();
      else
        row.back() += c;
    }
  }
  return rows;
}

std::string field(const std::vector<std::vector<std::string>>& rows, size_t row, const std::string& column) {
  const auto at = std::ranges::find(rows.at(0), column);
  EXPECT_NE(at, rows.at(0).end()) << column;
  return rows.at(row).at(static_cast<size_t>(at - rows.at(0).begin()));
}

TEST(CsvTest, EveryLineHasEveryColumnAndWhatIsAbsentIsEmpty) {
  const auto rows = rows_in(csv_text({{.step = 0, .steps = 1}, testing_support::whole_report()}));
  ASSERT_EQ(rows.size(), 3U);
  for (const auto& row : rows) EXPECT_EQ(row.size(), all_metrics().size() + 1 + 5) << "the experts' five behind all";
  EXPECT_EQ(field(rows, 1, "step"), "0");
  EXPECT_EQ(field(rows, 1, "loss"), "");
  EXPECT_EQ(field(rows, 1, "experts.block03.share.1"), "");
  EXPECT_EQ(field(rows, 2, "step"), "19");
  EXPECT_EQ(field(rows, 2, "loss"), "2.5");
  EXPECT_EQ(field(rows, 2, "learning_rate"), "0.001");
  EXPECT_EQ(field(rows, 2, "logged_at"), "1794830400.125");
  EXPECT_EQ(field(rows, 2, "peak_bytes"), "1048576");
  EXPECT_EQ(field(rows, 2, "step_seconds"), "0.25 0.375");
  EXPECT_EQ(field(rows, 2, "experts.block03.share.1"), "0.75");
  EXPECT_EQ(field(rows, 2, "experts.block03.imbalance"), "1.5");
}

TEST(CsvTest, ALogWithoutStepsIsItsHeader) {
  const std::string text = csv_text({});
  EXPECT_TRUE(text.starts_with("step,logged_at,loss,")) << text;
  EXPECT_EQ(rows_in(text).size(), 1U);
}

TEST(CsvTest, FieldsAreQuotedWhereTheyMustBe) {
  EXPECT_EQ(csv_field("0.25 0.5"), "0.25 0.5");
  EXPECT_EQ(csv_field(""), "");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("a \"b\""), "\"a \"\"b\"\"\"");
  EXPECT_EQ(csv_field("a\nb"), "\"a\nb\"");
}

}  // namespace
}  // namespace megacpp::metrics
