// SPDX-License-Identifier: Apache-2.0
// TensorBoard's event files as an independent reader has them: every length and checksum is looked at.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <protozero/pbf_reader.hpp>

namespace megacpp::testing_support {

struct ReadEvent {
  double wall_time = 0;
  int64_t step = 0;
  std::string version = {};
  int32_t session_status = 0;
  std::map<std::string, float> scalars = {};
};

/// Bit by bit: slow and obvious.
inline uint32_t masked_crc32c(std::string_view bytes) {
  uint32_t crc = 0xffffffffU;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1U) != 0 ? (crc >> 1) ^ 0x82f63b78U : crc >> 1;
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

inline uint64_t read_little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  return value;
}

inline ReadEvent read_event(std::string_view message) {
  ReadEvent event;
  protozero::pbf_reader fields(message.data(), message.size());
  while (fields.next()) {
    if (fields.tag() == 1) {
      event.wall_time = fields.get_double();
    } else if (fields.tag() == 2) {
      event.step = fields.get_int64();
    } else if (fields.tag() == 3) {
      event.version = fields.get_string();
    } else if (fields.tag() == 7) {
      protozero::pbf_reader session = fields.get_message();
      while (session.next(1)) event.session_status = session.get_enum();
    } else if (fields.tag() == 5) {
      protozero::pbf_reader summary = fields.get_message();
      while (summary.next(1)) {
        protozero::pbf_reader value = summary.get_message();
        std::string tag;
        while (value.next()) {
          if (value.tag() == 1)
            tag = value.get_string();
          else if (value.tag() == 2)
            event.scalars[tag] = value.get_float();
          else
            value.skip();
        }
      }
    } else {
      ADD_FAILURE() << "field " << fields.tag();
      fields.skip();
    }
  }
  return event;
}

inline std::vector<ReadEvent> read_events(std::string_view file) {
  std::vector<ReadEvent> events;
  while (file.size() >= 16) {
    const uint64_t length = read_little_endian(file.substr(0, 8));
    EXPECT_EQ(read_little_endian(file.substr(8, 4)), masked_crc32c(file.substr(0, 8)));
    if (length > file.size() - 16) break;
    const std::string_view message = file.substr(12, length);
    EXPECT_EQ(read_little_endian(file.substr(12 + length, 4)), masked_crc32c(message));
    events.push_back(read_event(message));
    file.remove_prefix(16 + length);
  }
  EXPECT_TRUE(file.empty()) << file.size() << " bytes of no whole record";
  return events;
}

}  // namespace megacpp::testing_support
