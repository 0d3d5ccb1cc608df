// SPDX-License-Identifier: Apache-2.0
#include "megacpp/base/json_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_set>

namespace megacpp::base {
namespace {

constexpr int kMaxDepth = 200;  // deeper text is an attack or an accident; the parser recurses

void append_utf8(std::string& out, uint32_t point) {
  const auto put = [&out](uint32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0 | (point >> 6));
    put(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    put(0xE0 | (point >> 12));
    put(0x80 | ((point >> 6) & 0x3F));
    put(0x80 | (point & 0x3F));
  } else {
    put(0xF0 | (point >> 18));
    put(0x80 | ((point >> 12) & 0x3F));
    put(0x80 | ((point >> 6) & 0x3F));
    put(0x80 | (point & 0x3F));
  }
}

class Parser {
 public:
  Parser(std::string_view text, Code code, const std::string& where) : text_(text), code_(code), where_(where) {}

  Json parse_whole() {
    Json value = parse_value();
    skip_space();
    if (at_ != text_.size()) fail("text after the value", "the end");
    return value;
  }

 private:
  [[noreturn]] void fail(std::string_view got, std::string_view wanted) const {
    raise(code_, {.where = fmt::format("{}, byte {}", where_, at_),
                  .got = std::string(got),
                  .wanted = std::string(wanted),
                  .next = "check that the file is complete and is JSON"});
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }

  char peek() {
    skip_space();
    if (at_ == text_.size()) fail("the end of the text", "a JSON value");
    return text_[at_];
  }

  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  void expect(char c) {
    if (peek() != c) fail(fmt::format("'{}'", text_[at_]), fmt::format("'{}'", c));
    ++at_;
  }

  Json parse_value() {
    switch (peek()) {
      case '{':
        return parse_object();
      case '[':
        return parse_array();
      case '"':
        return Json(parse_string());
      default:
        return parse_word_or_number();
    }
  }

  Json parse_word_or_number() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (take("true")) return Json(true);
    if (take("false")) return Json(false);
    if (take("null")) return Json();
    if (take("NaN")) return Json(std::numeric_limits<double>::quiet_NaN());
    if (take("Infinity")) return Json(kInfinity);
    if (take("-Infinity")) return Json(-kInfinity);
    return parse_number();
  }

  Json parse_number() {
    const size_t end = std::min(text_.find_first_not_of("+-0123456789.eE", at_), text_.size());
    const std::string_view digits = text_.substr(at_, end - at_);
    const auto whole = [&](auto& number) {
      const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number);
      return !digits.empty() && result.ec == std::errc() && result.ptr == digits.data() + digits.size();
    };
    int64_t integer = 0;
    double real = 0;
    const bool is_integer = whole(integer);
    if (!is_integer && !whole(real)) fail(fmt::format("'{}'", text_.substr(at_, 12)), "a JSON value");
    at_ = end;
    return is_integer ? Json(integer) : Json(real);
  }

  uint32_t parse_hex4() {
    uint32_t unit = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
    if (digits.size() != 4 || result.ptr != digits.data() + 4) fail("a broken \\u escape", "four hex digits");
    at_ += 4;
    return unit;
  }

  uint32_t parse_code_point() {
    const uint32_t high = parse_hex4();
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || !take("\\u")) fail("half of a surrogate pair", "both halves");
    const uint32_t low = parse_hex4();
    if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair", "both halves");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  void parse_escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (take("u")) return append_utf8(out, parse_code_point());
    const size_t which = at_ < text_.size() ? kNames.find(text_[at_]) : std::string_view::npos;
    if (which == std::string_view::npos) fail("an unknown escape", "one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u");
    out += kMeanings[which];
    ++at_;
  }

  std::string parse_string() {
    std::string out;
    for (++at_; at_ < text_.size();) {
      const char c = text_[at_];
      if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string", "an escape");
      ++at_;
      if (c == '"') return out;
      if (c == '\\') {
        parse_escape(out);
      } else {
        out += c;
      }
    }
    fail("the end of the text", "a closing quote");
  }

  /// Reads "open item, item, ... close", calling item() for each.
  template <typename Item>
  void parse_items(char close, const Item& item) {
    ++at_;
    if (++depth_ > kMaxDepth) fail("values nested too deeply", fmt::format("at most {} levels", kMaxDepth));
    if (peek() != close) {
      item();
      while (peek() == ',') {
        ++at_;
        item();
      }
    }
    expect(close);
    --depth_;
  }

  Json parse_array() {
    Json::Array items;
    parse_items(']', [&] { items.push_back(parse_value()); });
    return Json(std::move(items));
  }

  Json parse_object() {
    Json::Object members;
    std::unordered_set<std::string> seen;
    parse_items('}', [&] {
      if (peek() != '"') fail(fmt::format("'{}'", text_[at_]), "a quoted key");
      std::string key = parse_string();
      if (!seen.insert(key).second) fail("key " + json_quoted(key) + " twice", "each key once");
      expect(':');
      members.emplace_back(std::move(key), parse_value());
    });
    return Json(std::move(members));
  }

  std::string_view text_;
  Code code_;
  const std::string& where_;
  size_t at_ = 0;
  int depth_ = 0;
};

void append(std::string& out, const Json& value);

struct Writer {
  std::string& out;

  void operator()(std::nullptr_t) const { out += "null"; }
  void operator()(bool flag) const { out += flag ? "true" : "false"; }
  void operator()(int64_t number) const { out += std::to_string(number); }
  void operator()(double number) const { out += std::isfinite(number) ? fmt::format("{}", number) : "null"; }
  void operator()(const std::string& text) const { out += json_quoted(text); }
  void operator()(const Json::Array& items) const {
    out += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += ',';
      append(out, items[i]);
    }
    out += ']';
  }
  void operator()(const Json::Object& members) const {
    out += '{';
    for (size_t i = 0; i < members.size(); ++i) {
      if (i > 0) out += ',';
      out += json_quoted(members[i].first) + ":";
      append(out, members[i].second);
    }
    out += '}';
  }
};

void append(std::string& out, const Json& value) { value.visit(Writer{out}); }

}  // namespace

std::optional<double> Json::number() const {
  if (const auto* integer = get_if<int64_t>()) return static_cast<double>(*integer);
  if (const auto* real = get_if<double>()) return *real;
  return std::nullopt;
}

const Json* Json::find(std::string_view key) const {
  const auto* members = get_if<Object>();
  if (members == nullptr) return nullptr;
  for (const auto& [name, value] : *members) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::string_view Json::kind_name() const {
  constexpr std::string_view kNames[] = {"null", "a flag", "an integer", "a number", "a text", "a list", "an object"};
  return kNames[value_.index()];
}

Json parse_json(std::string_view text, Code code, const std::string& where) {
  return Parser(text, code, where).parse_whole();
}

std::string to_text(const Json& value) {
  std::string out;
  append(out, value);
  return out;
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace megacpp::base
