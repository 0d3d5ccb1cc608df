// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/schema/value.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "megacpp/core/base/json.h"

namespace megacpp::schema {
namespace {

bool is_plain_word(std::string_view text) {
  constexpr std::string_view kRest = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
  const bool starts_well = !text.empty() && (std::isalpha(static_cast<unsigned char>(text[0])) || text[0] == '/');
  return starts_well && text.find_first_not_of(kRest) == std::string_view::npos && text != "null" && text != "Null" &&
         text != "NULL";
}

std::string quoted(const std::string& text) { return is_plain_word(text) ? text : base::json_quoted(text); }

struct ValueWriter {
  std::string operator()(const int64_t* value) const { return std::to_string(*value); }
  std::string operator()(const double* value) const {
    if (std::isnan(*value)) return ".nan";
    if (std::isinf(*value)) return *value > 0 ? ".inf" : "-.inf";
    return fmt::format("{}", *value);
  }
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const std::string* value) const { return quoted(*value); }
  std::string operator()(const std::vector<std::string>* values) const {
    std::string text = "[";
    for (const std::string& value : *values) text += (text.size() > 1 ? ", " : "") + quoted(value);
    return text + "]";
  }
  std::string operator()(const ByteSize* size) const { return to_string(*size); }
  std::string operator()(const TextValue& choice) const { return quoted(choice.text(choice.value)); }
};

template <typename Number>
bool parse_number(const std::string& text, Number& number) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && result.ec == std::errc() && result.ptr == text.data() + text.size();
}

struct ScalarReader {
  const std::string& text;

  bool operator()(int64_t* value) const { return parse_number(text, *value); }
  bool operator()(double* value) const {
    if (text != ".inf") return parse_number(text, *value) && text.find("n") == std::string::npos;
    *value = std::numeric_limits<double>::infinity();
    return true;
  }
  bool operator()(bool* value) const {
    *value = text == "true";
    return text == "true" || text == "false";
  }
  bool operator()(std::string* value) const {
    *value = text;
    return !text.empty();
  }
  bool operator()(std::vector<std::string>* value) const {
    *value = {text};
    return !text.empty();
  }
  bool operator()(ByteSize* value) const {
    const std::optional<ByteSize> size = parse_byte_size(text);
    if (size) *value = *size;
    return size.has_value();
  }
  bool operator()(const TextValue& choice) const { return !text.empty() && choice.read(text, choice.value); }
};

}  // namespace

std::string_view kind_name(Kind kind) {
  constexpr std::string_view kNames[] = {"an integer",      "a number",
                                         "true or false",   "a text",
                                         "a list of texts", "a number of bytes: 512MiB, 1.5GiB, 2GB or 4096"};
  return kNames[static_cast<size_t>(kind)];
}

std::string value_text(const Member& member) { return std::visit(ValueWriter{}, member); }

std::optional<std::string> plain_text(const Member& member) {
  if (const auto* choice = std::get_if<TextValue>(&member)) return choice->text(choice->value);
  if (const auto* text = std::get_if<std::string*>(&member)) return **text;
  return std::nullopt;
}

bool read_scalar(const std::string& text, const Member& member) { return std::visit(ScalarReader{text}, member); }

bool is_beyond_counting(const std::string& text) {
  int64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  return result.ec == std::errc::result_out_of_range && result.ptr == text.data() + text.size();
}

}  // namespace megacpp::schema
