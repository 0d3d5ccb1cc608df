// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/metrics/event.h"

#include <array>

#include <protozero/pbf_writer.hpp>

#include "megacpp/evidence/metrics/metric.h"

namespace megacpp::metrics {
namespace {

using protozero::pbf_writer;

/// The remainders of all bytes; bits are in reversed order, as the polynomial 0x1edc6f41 is then.
constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0x82f63b78U : 0U);
    table[byte] = remainder;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = crc_table();

/// A checksum of bytes that hold checksums would be of little use: files have it rotated and moved.
uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

template <typename Unsigned>
std::string little_endian(Unsigned value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(value); ++i) bytes += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  return bytes;
}

void write_time(pbf_writer& event, const EventTime& at) {
  event.add_double(1, at.wall_time);
  event.add_int64(2, at.step);
}

struct TaggedScalar {
  std::string tag;
  double value = 0;
};

/// An Event whose Summary has these values.
std::string summary_record(const EventTime& at, const std::vector<TaggedScalar>& scalars) {
  std::string message;
  pbf_writer event(message);
  write_time(event, at);
  pbf_writer summary(event, 5);
  for (const TaggedScalar& scalar : scalars) {
    pbf_writer value(summary, 1);
    value.add_string(1, scalar.tag);
    value.add_float(2, static_cast<float>(scalar.value));
  }
  summary.commit();
  return record_of(message);
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char c : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

std::string record_of(std::string_view message) {
  const std::string length = little_endian(static_cast<uint64_t>(message.size()));
  return length + little_endian(masked_crc(length)) + std::string(message) + little_endian(masked_crc(message));
}

std::string start_records(const EventTime& at) {
  std::string version, session;
  pbf_writer version_event(version);
  write_time(version_event, {.wall_time = at.wall_time});
  version_event.add_string(3, "brain.Event:2");
  pbf_writer session_event(session);
  write_time(session_event, at);
  pbf_writer(session_event, 7).add_enum(1, 1);  // SessionLog: START
  return record_of(version) + record_of(session);
}

std::string report_records(const train::StepReport& report, double wall_time) {
  std::string records;
  const size_t timed = report.step_seconds.size();
  for (size_t i = 0; i < timed; ++i) {
    const int64_t step = report.step - static_cast<int64_t>(timed - 1 - i);
    records += summary_record({.wall_time = wall_time, .step = step},
                              {{.tag = kStepSecondsTag, .value = report.step_seconds[i]}});
  }
  std::vector<TaggedScalar> scalars;
  for (const MetricValue& value : values_of(report))
    if (!value.tag.empty()) scalars.push_back({.tag = value.tag, .value = value.value});
  return records + summary_record({.wall_time = wall_time, .step = report.step}, scalars);
}

double wall_time_of(const train::StepReport& report, double time_before) {
  return report.logged_at.value_or(time_before + report.seconds);
}

}  // namespace megacpp::metrics
