// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/pjrt/protobuf_reader.h"

#include "megacpp/base/error.h"

namespace megacpp::runtime::pjrt {

void ProtobufReader::fail(const std::string& reason) const {
  base::raise(base::Code::E3201, {.where = std::string("the compiled program, ") + message_,
                                  .got = reason,
                                  .wanted = "a whole protobuf message",
                                  .next = "compile again; if it stays, try another version of the plugin"});
}

uint64_t ProtobufReader::varint(std::string_view& from) const {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (from.empty()) fail("it ends within a number");
    const auto byte = static_cast<unsigned char>(from.front());
    from.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7fu) << shift;
    if (byte < 0x80u) return value;
  }
  fail("a number of more than 64 bits");
}

bool ProtobufReader::next() {
  if (rest_.empty()) return false;
  const uint64_t tag = varint(rest_);
  constexpr uint64_t kLargestField = (uint64_t{1} << 29) - 1;
  if (tag >> 3 == 0 || tag >> 3 > kLargestField) fail("no field has number " + std::to_string(tag >> 3));
  field_ = static_cast<int>(tag >> 3);
  wire_ = static_cast<Wire>(tag & 7u);
  uint64_t size = 0;
  switch (wire_) {
    case Wire::varint:
      value_ = varint(rest_);
      return true;
    case Wire::fixed64:
      size = 8;
      break;
    case Wire::fixed32:
      size = 4;
      break;
    case Wire::bytes:
      size = varint(rest_);
      break;
    default:
      fail("field " + std::to_string(field_) + " has the unknown wire type " + std::to_string(tag & 7u));
  }
  if (size > rest_.size()) fail("it ends within field " + std::to_string(field_));
  bytes_ = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return true;
}

int64_t ProtobufReader::integer() const {
  if (wire_ != Wire::varint) fail("field " + std::to_string(field_) + " is no integer");
  return static_cast<int64_t>(value_);
}

std::string_view ProtobufReader::bytes() const {
  if (wire_ != Wire::bytes) fail("field " + std::to_string(field_) + " is neither text nor a message");
  return bytes_;
}

void ProtobufReader::append_integers(std::vector<int64_t>& values) const {
  if (wire_ == Wire::varint) {
    values.push_back(integer());
    return;
  }
  for (std::string_view packed = bytes(); !packed.empty();) values.push_back(static_cast<int64_t>(varint(packed)));
}

}  // namespace megacpp::runtime::pjrt
