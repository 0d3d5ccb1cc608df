// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_codec.h"

#include <nlohmann/json.hpp>

namespace megacpp::checkpoint {

void HfCodec::put(std::string_view field, base::Json value) { (*config_)[std::string(field)] = std::move(value); }

void HfCodec::size(std::string_view field, int64_t& value) {
  if (reads())
    value = fields_->size(field);
  else
    put(field, value);
}

void HfCodec::size(std::string_view field, int64_t& value, int64_t otherwise) {
  if (reads())
    value = fields_->size_or(field, otherwise);
  else
    put(field, value);
}

void HfCodec::number(std::string_view field, double& value, double otherwise) {
  if (reads())
    value = fields_->number_or(field, otherwise);
  else
    put(field, value);
}

void HfCodec::flag(std::string_view field, bool& value, bool otherwise) {
  if (reads())
    value = fields_->flag_or(field, otherwise);
  else
    put(field, value);
}

bool HfCodec::writes_over(std::string_view field) const {
  const base::Json* value = base::find_member(*config_, field);
  return value != nullptr && !value->is_null();
}

void HfCodec::optional_number(std::string_view field, double& value, double otherwise) {
  if (reads())
    value = fields_->mentions(field) ? fields_->number_or(field, 0) : otherwise;
  else
    put(field, value == 0 ? base::Json() : base::Json(value));
}

void HfCodec::always(std::string_view field, bool value) {
  if (!reads())
    put(field, value);
  else if (fields_->flag_or(field, value) != value)
    fields_->refuse(field, value ? "false" : "true", value ? "true" : "false");
}

void HfCodec::optional_size(std::string_view field, int64_t& value) {
  if (reads())
    value = fields_->size_or(field, 0);
  else
    put(field, value == 0 ? base::Json() : base::Json(value));
}

void HfCodec::off(std::initializer_list<std::string_view> fields) {
  if (reads()) fields_->require_off(fields);
}

void HfCodec::word(std::string_view field, std::initializer_list<std::string_view> allowed) {
  if (reads())
    fields_->require_one_of(field, allowed);
  else
    put(field, *allowed.begin());
}

}  // namespace megacpp::checkpoint
