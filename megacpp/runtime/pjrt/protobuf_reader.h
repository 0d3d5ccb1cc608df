// SPDX-License-Identifier: Apache-2.0
// Reads the fields of one serialized protobuf message in the order they stand. Messages come from a plugin: damaged
// bytes are E3201 with the message's name, never a read outside of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace megacpp::runtime::pjrt {

class ProtobufReader {
 public:
  /// `message` names it in errors; `bytes` must stay.
  ProtobufReader(std::string_view bytes, const char* message) : rest_(bytes), message_(message) {}

  /// Moves to the next field; false at the end. A field nobody asks for is passed over.
  bool next();
  int field() const { return field_; }

  /// The present field's value in the form the message's definition has for it.
  int64_t integer() const;
  bool flag() const { return integer() != 0; }
  std::string_view bytes() const;
  std::string text() const { return std::string(bytes()); }
  /// Of a repeated integer: all of them when packed, otherwise one.
  void append_integers(std::vector<int64_t>& values) const;

  [[noreturn]] void fail(const std::string& reason) const;

 private:
  enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  uint64_t varint(std::string_view& from) const;

  std::string_view rest_;
  const char* message_;
  int field_ = 0;
  Wire wire_ = Wire::varint;
  uint64_t value_ = 0;      // of a varint
  std::string_view bytes_;  // of the others
};

}  // namespace megacpp::runtime::pjrt
