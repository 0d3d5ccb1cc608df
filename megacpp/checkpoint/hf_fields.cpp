// SPDX-License-Identifier: Apache-2.0
#include "megacpp/checkpoint/hf_fields.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace megacpp::checkpoint {
namespace {

bool is_off(const base::Json& value) {
  if (const auto* flag = value.get_if<bool>()) return !*flag;
  if (const auto number = value.number()) return *number == 0;
  if (const auto* members = value.get_if<base::Json::Object>()) return members->empty();
  return false;
}

/// A number; infinity may be spelled {"__float__": "Infinity"}, since JSON has no word for it.
std::optional<double> number_of(const base::Json& value) {
  const base::Json* special = value.find("__float__");
  const auto* word = special == nullptr ? nullptr : special->get_if<std::string>();
  if (word != nullptr && *word == "Infinity") return std::numeric_limits<double>::infinity();
  return value.number();
}

}  // namespace

HfFields::HfFields(const base::Json& config, std::string context) : config_(config), context_(std::move(context)) {
  MEGACPP_REQUIRE(config.get_if<base::Json::Object>() != nullptr, E1202,
                  {.where = context_,
                   .got = std::string(config.kind_name()),
                   .wanted = "an object",
                   .next = "give the model's config.json"});
}

const base::Json* HfFields::find(std::string_view field) const {
  const base::Json* value = config_.find(field);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void HfFields::refuse(std::string_view field, const std::string& got, const std::string& wanted) const {
  base::raise(base::Code::E1202, {.where = context_ + " " + std::string(field),
                                  .got = got,
                                  .wanted = wanted,
                                  .next = "this option is not supported; convert the model without it"});
}

int64_t HfFields::size(std::string_view field) const {
  const base::Json* value = find(field);
  if (value == nullptr) refuse(field, "nothing", "a size of at least 1");
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();  // products of two stay inside 64 bits
  const auto* size = value->get_if<int64_t>();
  if (size == nullptr || *size < 1 || *size > kLargest)
    refuse(field, base::to_text(*value), "a size from 1 to " + std::to_string(kLargest));
  return *size;
}

int64_t HfFields::size_or(std::string_view field, int64_t otherwise) const {
  return has(field) ? size(field) : otherwise;
}

double HfFields::number_or(std::string_view field, double otherwise) const {
  const base::Json* value = find(field);
  if (value == nullptr) return otherwise;
  const auto number = value->number();
  if (!number) refuse(field, std::string(value->kind_name()), "a number");
  return *number;
}

bool HfFields::flag_or(std::string_view field, bool otherwise) const {
  const base::Json* value = find(field);
  if (value == nullptr) return otherwise;
  const auto* flag = value->get_if<bool>();
  if (flag == nullptr) refuse(field, std::string(value->kind_name()), "true or false");
  return *flag;
}

std::string HfFields::text_or(std::string_view field, const std::string& otherwise) const {
  const base::Json* value = find(field);
  if (value == nullptr) return otherwise;
  const auto* text = value->get_if<std::string>();
  if (text == nullptr) refuse(field, std::string(value->kind_name()), "a text");
  return *text;
}

std::vector<std::string> HfFields::texts(std::string_view field) const {
  const base::Json* value = find(field);
  const auto* items = value == nullptr ? nullptr : value->get_if<base::Json::Array>();
  if (items == nullptr)
    refuse(field, value == nullptr ? "nothing" : std::string(value->kind_name()), "a list of texts");
  std::vector<std::string> texts;
  for (const base::Json& item : *items) {
    const auto* text = item.get_if<std::string>();
    if (text == nullptr) refuse(field, "a list with " + std::string(item.kind_name()), "a list of texts");
    texts.push_back(*text);
  }
  return texts;
}

HfInterval HfFields::interval_or(std::string_view field, HfInterval otherwise) const {
  const base::Json* value = find(field);
  if (value == nullptr) return otherwise;
  const auto* items = value->get_if<base::Json::Array>();
  if (items == nullptr || items->size() != 2) refuse(field, base::to_text(*value), "a list of two numbers");
  const auto low = number_of((*items)[0]);
  const auto high = number_of((*items)[1]);
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
  for (const auto& [name, value] : *config_.get_if<base::Json::Object>()) names.push_back(name);
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
