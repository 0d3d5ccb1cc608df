// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/protobuf_reader.h"

#include <protozero/exception.hpp>
#include <protozero/iterators.hpp>

#include "megacpp/core/base/error.h"

namespace megacpp::runtime::pjrt {

namespace {

using protozero::pbf_wire_type;

std::string reason_of(const protozero::exception& error) {
  if (dynamic_cast<const protozero::end_of_buffer_exception*>(&error) != nullptr) return "it ends too early";
  if (dynamic_cast<const protozero::varint_too_long_exception*>(&error) != nullptr)
    return "a number of more than 64 bits";
  if (dynamic_cast<const protozero::unknown_pbf_wire_type_exception*>(&error) != nullptr)
    return "a field of an unknown wire type";
  if (dynamic_cast<const protozero::invalid_tag_exception*>(&error) != nullptr) return "a field number that none has";
  return error.what();
}

}  // namespace

void ProtobufReader::fail(const std::string& reason) const {
  base::raise(base::Code::E3201, {.where = std::string("the compiled program, ") + message_,
                                  .got = reason,
                                  .wanted = "a whole protobuf message",
                                  .next = "compile again; if it stays, try another version of the plugin"});
}

bool ProtobufReader::next() {
  try {
    if (!fields_.next()) return false;
    field_ = fields_.tag();
    wire_type_ = fields_.wire_type();
    if (wire_type_ == pbf_wire_type::varint) {
      integer_ = fields_.get_int64();
    } else if (wire_type_ == pbf_wire_type::length_delimited) {
      const protozero::data_view view = fields_.get_view();
      bytes_ = {view.data(), view.size()};
    } else {
      fields_.skip();
    }
    return true;
  } catch (const protozero::exception& error) {
    fail(reason_of(error) + (field_ == 0 ? ", in its first field" : ", in or after field " + std::to_string(field_)));
  }
}

int64_t ProtobufReader::integer() const {
  if (wire_type_ != pbf_wire_type::varint) fail("field " + std::to_string(field_) + " is no integer");
  return integer_;
}

std::string_view ProtobufReader::bytes() const {
  if (wire_type_ != pbf_wire_type::length_delimited)
    fail("field " + std::to_string(field_) + " is neither text nor a message");
  return bytes_;
}

void ProtobufReader::append_integers(std::vector<int64_t>& values) const {
  if (wire_type_ == pbf_wire_type::varint) {
    values.push_back(integer());
    return;
  }
  const std::string_view packed = bytes();
  using Integers = protozero::const_varint_iterator<int64_t>;
  try {
    const Integers end(packed.data() + packed.size(), packed.data() + packed.size());
    for (Integers at(packed.data(), packed.data() + packed.size()); at != end; ++at) values.push_back(*at);
  } catch (const protozero::exception& error) {
    fail(reason_of(error) + ", in the list of field " + std::to_string(field_));
  }
}

}  // namespace megacpp::runtime::pjrt
