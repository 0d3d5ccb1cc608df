// SPDX-License-Identifier: Apache-2.0
// One description of a Hugging Face config for both directions: a function that names each field and the member it
// stands for. Reading fills the members from the config, writing the config from the members.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "megacpp/core/base/json.h"
#include "megacpp/run/checkpoint/hf_fields.h"

namespace megacpp::checkpoint {

class HfCodec {
 public:
  /// What is given must outlive the codec.
  static HfCodec reader(const HfFields& fields) { return HfCodec(&fields, nullptr); }
  static HfCodec writer(base::Json& config) { return HfCodec(nullptr, &config); }

  bool reads() const { return fields_ != nullptr; }
  /// What is read, for fields that are no single member.
  const HfFields& fields() const { return *fields_; }
  /// Sets a field of the config that is written.
  void put(std::string_view field, base::Json value);
  /// Whether the config that is written came with such a field.
  bool writes_over(std::string_view field) const;

  /// A size that must be given.
  void size(std::string_view field, int64_t& value);
  /// `otherwise` holds where the field is absent.
  void size(std::string_view field, int64_t& value, int64_t otherwise);
  void number(std::string_view field, double& value, double otherwise);
  void flag(std::string_view field, bool& value, bool otherwise);
  /// A number that is absent where the value is 0; a config without the field at all has `otherwise`.
  void optional_number(std::string_view field, double& value, double otherwise);
  /// A size that is absent where the value is 0.
  void optional_size(std::string_view field, int64_t& value);

  /// Options that we lack: refused where they are on. Written files leave them out, which is off.
  void off(std::initializer_list<std::string_view> fields);
  /// A text that is one of these, or absent; written is the first.
  void word(std::string_view field, std::initializer_list<std::string_view> allowed);
  /// A field that stands for nothing of ours but must be this where it is given.
  void always(std::string_view field, bool value);

 private:
  HfCodec(const HfFields* fields, base::Json* config) : fields_(fields), config_(config) {}

  const HfFields* fields_;  // nullptr while writing
  base::Json* config_;      // nullptr while reading
};

}  // namespace megacpp::checkpoint
