// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/metrics/event.h"

#include <gtest/gtest.h>

#include "megacpp/evidence/metrics/metric.h"
#include "tests/support/read_events.h"
#include "tests/support/whole_report.h"

namespace megacpp::metrics {
namespace {

using testing_support::read_events;
using testing_support::ReadEvent;
using testing_support::whole_report;

// RFC 3720, B.4, and the check value of the catalogues of such sums.
TEST(EventTest, ChecksumsAreThoseThatArePublished) {
  std::string rising, falling;
  for (int i = 0; i < 32; ++i) {
    rising += static_cast<char>(i);
    falling += static_cast<char>(31 - i);
  }
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c(rising), 0x46dd794eU);
  EXPECT_EQ(crc32c(falling), 0x113fdb5cU);
}

TEST(EventTest, ARecordIsALengthAMessageAndTwoChecksums) {
  const std::string message = "123456789", record = record_of(message);
  ASSERT_EQ(record.size(), 8 + 4 + message.size() + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\x09\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 9), message);
  // (0xe3069283 >> 15 | 0xe3069283 << 17) + 0xa282ead8
  EXPECT_EQ(testing_support::read_little_endian(record.substr(21)), 0xc78ab0e5U);
}

TEST(EventTest, AFileBeginsWithItsVersionAndWhereItsStepsBegin) {
  const std::vector<ReadEvent> events = read_events(start_records({.wall_time = 1794830400.125, .step = 20}));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[0].wall_time, 1794830400.125);
  EXPECT_EQ(events[1].session_status, 1) << "START";
  EXPECT_EQ(events[1].step, 20);
}

TEST(EventTest, AReportIsItsScalarsAtItsStepAndTheSecondsOfEachStep) {
  const std::vector<ReadEvent> events = read_events(report_records(whole_report(), 1794830400.125));
  ASSERT_EQ(events.size(), 3U);
  for (const ReadEvent& event : events) EXPECT_EQ(event.wall_time, 1794830400.125);
  EXPECT_EQ(events[0].step, 18);
  EXPECT_EQ(events[0].scalars.at(kStepSecondsTag), 0.25F);
  EXPECT_EQ(events[1].step, 19);
  EXPECT_EQ(events[1].scalars.at(kStepSecondsTag), 0.375F);
  EXPECT_EQ(events[2].step, 19);
  size_t tagged = 0;
  for (const MetricValue& value : values_of(whole_report())) {
    if (value.tag.empty()) continue;
    ++tagged;
    ASSERT_TRUE(events[2].scalars.contains(value.tag)) << value.tag;
    EXPECT_EQ(events[2].scalars.at(value.tag), static_cast<float>(value.value)) << value.tag;
  }
  EXPECT_EQ(events[2].scalars.size(), tagged);
  EXPECT_EQ(events[2].scalars.at("experts/block03/share/1"), 0.75F);
}

TEST(EventTest, LogsWithoutTimesAreTimedByTheirSeconds) {
  EXPECT_EQ(wall_time_of(whole_report(), 5), 1794830400.125);
  EXPECT_EQ(wall_time_of({.step = 1, .steps = 1, .seconds = 0.5}, 5), 5.5);
}

}  // namespace
}  // namespace megacpp::metrics
