// SPDX-License-Identifier: Apache-2.0
// Reads the fields of one serialized protobuf message in the order they stand. protozero decodes them; this class adds
// what a plugin's bytes need: damage of any kind, a field of another type included, is E3201 with the message's name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <protozero/pbf_reader.hpp>

namespace megacpp::runtime::pjrt {

class ProtobufReader {
 public:
  /// `message` names it in errors; `bytes` must stay.
  ProtobufReader(std::string_view bytes, const char* message)
      : fields_(bytes.data(), bytes.size()), message_(message) {}

  /// Moves to the next field; false at the end. A field nobody reads is passed over.
  bool next();
  int field() const { return static_cast<int>(field_); }

  /// The present field's value in the form the message's definition has for it.
  int64_t integer() const;
  bool flag() const { return integer() != 0; }
  std::string_view bytes() const;
  std::string text() const { return std::string(bytes()); }
  /// Of a repeated integer: all of them when packed, otherwise one.
  void append_integers(std::vector<int64_t>& values) const;

  [[noreturn]] void fail(const std::string& reason) const;

 private:
  protozero::pbf_reader fields_;
  const char* message_;
  protozero::pbf_tag_type field_ = 0;
  protozero::pbf_wire_type wire_type_ = protozero::pbf_wire_type::unknown;
  int64_t integer_ = 0;     // of a varint
  std::string_view bytes_;  // of a length-delimited field
};

}  // namespace megacpp::runtime::pjrt
