// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/json.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <unordered_set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace megacpp::base {
namespace {

constexpr size_t kMaxDepth = 200;     // deeper text is an attack or an accident
constexpr size_t kLongestQuote = 40;  // of a token, in messages

/// Where a bare word stood that the text now has a number for.
struct BareWord {
  size_t begin;
  bool is_nan;
};

/// JSON has no word for non-finite numbers. A number of the same length takes the place of each, so that positions
/// stay.
struct BareWordKind {
  std::string_view word;
  std::string_view number;
  std::string_view before;  // characters that may stand there, beside the text's begin
};
constexpr BareWordKind kBareWords[] = {{"NaN", "0e0", " \t\r\n,:["}, {"Infinity", "0e000000", " \t\r\n,:[-"}};

bool stands_at(const std::string& text, size_t at, const BareWordKind& kind) {
  if (text.compare(at, kind.word.size(), kind.word) != 0) return false;
  const size_t end = at + kind.word.size();
  return (at == 0 || kind.before.find(text[at - 1]) != std::string_view::npos) &&
         (end == text.size() || std::string_view(" \t\r\n,]}").find(text[end]) != std::string_view::npos);
}

std::vector<BareWord> replace_bare_words(std::string& text) {
  std::vector<BareWord> words;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (in_string && text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      for (const BareWordKind& kind : kBareWords) {
        if (!stands_at(text, at, kind)) continue;
        words.push_back({.begin = at, .is_nan = kind.word == "NaN"});
        text.replace(at, kind.number.size(), kind.number);
      }
    }
  }
  return words;
}

/// Hands out the text and counts what was read of it, which tells where in the text an event of the parser is.
struct CountedText {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  size_t* read;

  reference operator*() const { return *at; }
  CountedText& operator++() {
    ++at;
    ++*read;
    return *this;
  }
  bool operator==(const CountedText& other) const { return at == other.at; }
};

/// Builds the value from the events of the library's parser.
class ValueBuilder : public Json::json_sax_t {
 public:
  ValueBuilder(std::string_view text, std::vector<BareWord> words, Code code, const std::string& where)
      : text_(text), words_(std::move(words)), code_(code), where_(where) {}

  size_t* read() { return &read_; }
  Json take() { return std::move(root_); }

  [[noreturn]] void fail(const std::string& got, const std::string& wanted) const {
    raise(code_, {.where = fmt::format("{}, byte {}", where_, read_),
                  .got = got,
                  .wanted = wanted,
                  .next = "check that the file is complete and is JSON"});
  }

  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(int64_t value) override { return add(Json(value)); }
  bool number_unsigned(uint64_t value) override {
    // What fits is signed, as everywhere in this project.
    return std::in_range<int64_t>(value) ? add(Json(static_cast<int64_t>(value))) : add(Json(value));
  }
  bool number_float(double value, const std::string&) override {
    // The parser reports a number when it has read one character more, which no later word can be.
    if (next_word_ < words_.size() && read_ > words_[next_word_].begin) {
      value = words_[next_word_].is_nan ? std::numeric_limits<double>::quiet_NaN()
                                        : std::copysign(std::numeric_limits<double>::infinity(), value);
      ++next_word_;
    }
    return add(Json(value));
  }
  bool string(std::string& value) override { return add(Json(std::move(value))); }
  bool binary(Json::binary_t&) override { fail("binary data", "JSON"); }

  bool start_object(size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    if (!open_.back().keys.insert(name).second) fail("key " + json_quoted(name) + " twice", "each key once");
    // Added behind the others: ordered_json's own insertion looks through all of them first.
    open_.back().value->get_ref<Json::object_t&>().emplace_back(std::move(name), Json());
    return true;
  }

  /// In our own words: the library's differ between its versions. It counts the end of the text as a character read.
  bool parse_error(size_t position, const std::string& token, const nlohmann::detail::exception& error) override {
    constexpr int kNumberOverflow = 406;
    if (error.id == kNumberOverflow) fail("the number " + token.substr(0, kLongestQuote), "one that a double holds");
    if (position > text_.size() || read_ == 0) fail("the end of the text", "JSON");
    const auto byte = static_cast<unsigned char>(text_[read_ - 1]);
    fail(byte >= 0x20 && byte < 0x7f ? fmt::format("'{}'", text_[read_ - 1]) : fmt::format("byte 0x{:02x}", byte),
         "JSON");
  }

 private:
  struct Container {
    Json* value;
    std::unordered_set<std::string> keys;  // of an object
  };

  /// The place of the next value. Only the innermost container grows, so those around it stay where they are.
  Json& next_place() {
    if (open_.empty()) return root_;
    Json& container = *open_.back().value;
    if (container.is_array()) return container.get_ref<Json::array_t&>().emplace_back();
    return container.get_ref<Json::object_t&>().back().second;
  }
  bool add(Json value) {
    next_place() = std::move(value);
    return true;
  }
  bool open(Json container) {
    if (open_.size() == kMaxDepth) fail("values nested too deeply", fmt::format("at most {} levels", kMaxDepth));
    Json& place = next_place() = std::move(container);
    open_.push_back({.value = &place, .keys = {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  std::vector<BareWord> words_;
  Code code_;
  const std::string& where_;
  size_t next_word_ = 0;
  size_t read_ = 0;  // bytes
  Json root_;
  std::vector<Container> open_;
};

}  // namespace

Json parse_json(std::string_view text, Code code, const std::string& where) {
  std::string legal;
  std::vector<BareWord> words;
  if (text.find("NaN") != std::string_view::npos || text.find("Infinity") != std::string_view::npos) {
    legal = text;
    words = replace_bare_words(legal);
    text = legal;
  }
  ValueBuilder builder(text, std::move(words), code, where);
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    *builder.read() = nul;  // the library takes it for the end of the text
    builder.fail("a NUL byte", "JSON");
  }
  Json::sax_parse(CountedText{text.data(), builder.read()}, CountedText{text.data() + text.size(), builder.read()},
                  &builder);
  return builder.take();
}

std::string to_text(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string json_quoted(std::string_view text) { return to_text(Json(std::string(text))); }

const Json* find_member(const Json& value, std::string_view key) {
  if (!value.is_object()) return nullptr;
  for (const auto& [name, member] : value.get_ref<const Json::object_t&>())
    if (name == key) return &member;
  return nullptr;
}

std::optional<bool> as_flag(const Json& value) {
  return value.is_boolean() ? std::optional(value.get<bool>()) : std::nullopt;
}

std::optional<int64_t> as_integer(const Json& value) {
  if (value.is_number_unsigned() && !std::in_range<int64_t>(value.get<uint64_t>())) return std::nullopt;
  return value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt;
}

std::optional<double> as_number(const Json& value) {
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

const std::string* as_text(const Json& value) { return value.get_ptr<const std::string*>(); }

std::string_view kind_name(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return "a flag";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "an integer";
    case Json::value_t::number_float:
      return "a number";
    case Json::value_t::string:
      return "a text";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::binary:
    case Json::value_t::discarded:
      break;
  }
  return "nothing";
}

}  // namespace megacpp::base
