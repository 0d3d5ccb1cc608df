// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_fields.h"

#include <algorithm>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

namespace megacpp::checkpoint {
namespace {

bool is_off(const base::Json& value) {
  if (const auto flag = base::as_flag(value)) return !*flag;
  if (const auto number = base::as_number(value)) return *number == 0;
  return value.is_object() && value.empty();
}

/// A number; infinity may be spelled {"__float__": "Infinity"}, since JSON has no word for it.
std::optional<double> number_of(const base::Json& value) {
  const base::Json* special = base::find_member(value, "__float__");
  const std::string* word = special == nullptr ? nullptr : base::as_text(*special);
  if (word != nullptr && *word == "Infinity") return std::numeric_limits<double>::infinity();
  return base::as_number(value);
}

}  // namespace

HfFields::HfFields(const base::Json& config, std::string context) : config_(config), context_(std::move(context)) {
  MEGACPP_REQUIRE(config.is_object(), E1202,
                  {.where = context_,
                   .got = std::string(base::kind_name(config)),
                   .wanted = "an object",
                   .next = "give the model's config.json"});
}

const base::Json* HfFields::find(std::string_view field) const {
  const base::Json* value = base::find_member(config_, field);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void HfFields::refuse(std::string_view field, const std::string& got, const std::string& wanted) const {
  base::raise(base::Code::E1202, {.where = context_ + " " + std::string(field),
                                  .got = got.empty() ? "an empty text" : got,
                                  .wanted = wanted,
                                  .next = "this option is not supported; convert the model without it"});
}

int64_t HfFields::size(std::string_view field) const {
  const base::Json* value = find(field);
  if (value == nullptr) refuse(field, "nothing", "a size of at least 1");
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();  // products of two stay inside 64 bits
  const auto size = base::as_integer(*value);
  if (!size || *size < 1 || *size > kLargest)
    refuse(field, base::to_text(*value), "a size from 1 to " + std::to_string(kLargest));
  return *size;
}

int64_t HfFields::size_or(std::string_view field, int64_t otherwise) const {
  return has(field) ? size(field) : otherwise;
}

bool HfFields::mentions(std::string_view field) const { return base::find_member(config_, field) != nullptr; }

double HfFields::number(std::string_view field) const {
  if (!has(field)) refuse(field, "nothing", "a number");
  return number_or(field, 0);
}

double HfFields::number_or(std::string_view field, double otherwise) const {
  const base::Json* value = find(field);
  if (value == nullptr) return otherwise;
  const auto number = base::as_number(*value);
  if (!number) refuse(field, std::string(base::kind_name(*value)), "a number");
  return *number;
}

bool HfFields::flag_or(std::string_view field, bool otherwise) const {
  const base::Json* value = find(field);
  if (value == nullptr) return otherwise;
  const auto flag = base::as_flag(*value);
  if (!flag) refuse(field, std::string(base::kind_name(*value)), "true or false");
  return *flag;
}

bool HfFields::is_text(std::string_view field) const {
  const base::Json* value = find(field);
  return value != nullptr && base::as_text(*value) != nullptr;
}

std::string HfFields::text_or(std::string_view field, const std::string& otherwise) const {
  const base::Json* value = find(field);
  if (value == nullptr) return otherwise;
  const std::string* text = base::as_text(*value);
  if (text == nullptr) refuse(field, std::string(base::kind_name(*value)), "a text");
  return *text;
}

std::vector<std::string> HfFields::texts(std::string_view field) const {
  const base::Json* value = find(field);
  if (value == nullptr || !value->is_array())
    refuse(field, value == nullptr ? "nothing" : std::string(base::kind_name(*value)), "a list of texts");
  std::vector<std::string> texts;
  for (const base::Json& item : *value) {
    const std::string* text = base::as_text(item);
    if (text == nullptr) refuse(field, "a list with " + std::string(base::kind_name(item)), "a list of texts");
    texts.push_back(*text);
  }
  return texts;
}

std::vector<int64_t> HfFields::integers(std::string_view field) const {
  const base::Json* value = find(field);
  if (value == nullptr) return {};
  if (!value->is_array()) refuse(field, std::string(base::kind_name(*value)), "a list of integers");
  std::vector<int64_t> integers;
  for (const base::Json& item : *value) {
    const auto integer = base::as_integer(item);
    if (!integer) refuse(field, "a list with " + std::string(base::kind_name(item)), "a list of integers");
    integers.push_back(*integer);
  }
  return integers;
}

HfInterval HfFields::interval_or(std::string_view field, HfInterval otherwise) const {
  const base::Json* value = find(field);
  if (value == nullptr) return otherwise;
  if (!value->is_array() || value->size() != 2) refuse(field, base::to_text(*value), "a list of two numbers");
  const auto low = number_of((*value)[0]);
  const auto high = number_of((*value)[1]);
  if (!low || !high) refuse(field, base::to_text(*value), "a list of two numbers");
  return {*low, *high};
}

HfFields HfFields::object(std::string_view field) const {
  const base::Json* value = find(field);
  if (value == nullptr) refuse(field, "nothing", "an object");
  return HfFields(*value, context_ + " " + std::string(field));
}

std::vector<std::string> HfFields::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : config_.items()) names.push_back(name);
  return names;
}

void HfFields::require_off(std::initializer_list<std::string_view> fields) const {
  for (const std::string_view field : fields) {
    const base::Json* value = find(field);
    if (value != nullptr && !is_off(*value)) refuse(field, base::to_text(*value), "off: false, 0 or null");
  }
}

void HfFields::require_one_of(std::string_view field, std::initializer_list<std::string_view> allowed) const {
  if (!has(field)) return;
  const std::string text = text_or(field, "");
  if (std::find(allowed.begin(), allowed.end(), text) != allowed.end()) return;
  std::string wanted;
  for (const std::string_view word : allowed) wanted += (wanted.empty() ? "" : " or ") + std::string(word);
  refuse(field, text, wanted);
}

}  // namespace megacpp::checkpoint
