// SPDX-License-Identifier: Apache-2.0
#include "megacpp/recipe/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "megacpp/base/error.h"
#include "megacpp/base/json.h"
#include "megacpp/base/suggest.h"
#include "megacpp/optim/optimizer_def.h"

namespace megacpp::recipe {
namespace {

// Far above any model that is trained, and low enough that products of a few sizes stay inside 64 bits.
constexpr double kMaxDepth = 100'000;
constexpr double kMaxWidth = 1 << 20;
constexpr double kMaxTokens = 1 << 24;
constexpr double kMaxParts = 1 << 16;
constexpr double kMaxSteps = 1e9;
constexpr double kMaxThreads = 1024;
constexpr double kMaxSeconds = 1e6;

// Keys of older recipes.
struct RenamedKey {
  std::string_view old_path, path;
};
constexpr RenamedKey kRenamedKeys[] = {{"layout.lane", "layout.policy"}};

Range any() { return {}; }
Range any_or_empty() { return {.empty_allowed = true, .choices = {}}; }
Range at_least(double low) { return {.low = low, .choices = {}}; }
Range above(double low) { return {.low = low, .low_excluded = true, .choices = {}}; }
Range above_or_infinite(double low) {
  return {.low = low, .low_excluded = true, .infinity_allowed = true, .choices = {}};
}
Range between(double low, double high) { return {.low = low, .high = high, .choices = {}}; }
Range at_least_and_below(double low, double high) {
  return {.low = low, .high = high, .high_excluded = true, .choices = {}};
}
template <typename... Words>
Range one_of(Words... words) {
  return {.choices = {std::string(words)...}};
}

template <typename... Words>
Range one_of_or_integer(double low, double high, Words... words) {
  return {.low = low, .high = high, .integer_allowed = true, .choices = {std::string(words)...}};
}

Range one_of_optimizers() { return {.choices = optim::optimizer_names()}; }

std::vector<Key> make_keys() {
  return {
#define MEGACPP_KEY(path, member, kind, range, doc) \
  Key{path, Kind::kind, range, doc, [](Recipe& recipe) -> Member { return &recipe.member; }},
#include "megacpp/recipe/schema.inc"
#undef MEGACPP_KEY
  };
}

std::string_view last_word(std::string_view path) { return path.substr(path.rfind('.') + 1); }

std::vector<std::string> all_paths() {
  std::vector<std::string> paths;
  for (const Key& key : keys()) {
    for (size_t dot = key.path.find('.'); dot != std::string::npos; dot = key.path.find('.', dot + 1)) {
      const std::string section = key.path.substr(0, dot);
      if (std::find(paths.begin(), paths.end(), section) == paths.end()) paths.push_back(section);
    }
    paths.push_back(key.path);
  }
  return paths;
}

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
};

bool inside(const Range& range, double value) {
  const bool low_ok = range.low_excluded ? value > range.low : value >= range.low;
  const bool high_ok = range.high_excluded ? value < range.high : value <= range.high;
  return low_ok && high_ok && (range.infinity_allowed || std::isfinite(value));
}

bool is_integer_inside(const Range& range, const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && inside(range, static_cast<double>(value));
}

std::string interval_text(const Range& range) {
  std::string text;
  if (std::isfinite(range.low)) text = fmt::format("{} {}", range.low_excluded ? "above" : "at least", range.low);
  if (std::isfinite(range.high)) {
    text += fmt::format("{}{} {}", text.empty() ? "" : " and ", range.high_excluded ? "below" : "at most", range.high);
  }
  return text;
}

}  // namespace

std::span<const Key> keys() {
  static const std::vector<Key> table = make_keys();
  return table;
}

const Key* find_key(std::string_view path) {
  for (const Key& key : keys()) {
    if (key.path == path) return &key;
  }
  return nullptr;
}

bool is_section(std::string_view path) {
  const std::string prefix = std::string(path) + ".";
  return std::any_of(keys().begin(), keys().end(), [&](const Key& key) { return key.path.rfind(prefix, 0) == 0; });
}

std::optional<char> family_of(const Key& key) {
  constexpr std::array<std::pair<std::string_view, char>, 4> kSections = {
      {{"model.attention.", 'A'}, {"model.mamba.", 'M'}, {"model.feed_forward.", 'E'}, {"model.recurrent.", 'R'}}};
  for (const auto& [prefix, family] : kSections) {
    if (key.path.rfind(prefix, 0) == 0) return family;
  }
  return std::nullopt;
}

std::string_view kind_name(Kind kind) {
  constexpr std::string_view kNames[] = {"an integer",      "a number",
                                         "true or false",   "a text",
                                         "a list of texts", "a number of bytes: 512MiB, 1.5GiB, 2GB or 4096"};
  return kNames[static_cast<size_t>(kind)];
}

std::string describe(const Range& range) {
  if (range.choices.empty()) return interval_text(range);
  std::vector<std::string> words = range.choices;
  if (range.integer_allowed) words.push_back("an integer " + interval_text(range));
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

bool contains(const Range& range, const Member& member) {
  if (const auto* integer = std::get_if<int64_t*>(&member)) return inside(range, static_cast<double>(**integer));
  if (const auto* number = std::get_if<double*>(&member)) return inside(range, **number);
  if (const auto* text = std::get_if<std::string*>(&member); text != nullptr && !range.choices.empty()) {
    return std::find(range.choices.begin(), range.choices.end(), **text) != range.choices.end() ||
           (range.integer_allowed && is_integer_inside(range, **text));
  }
  return true;
}

std::optional<std::string> nearest_value(const Key& key, double wish) {
  if (key.kind != Kind::integer && key.kind != Kind::number) return std::nullopt;
  const bool is_low = wish < key.range.low || (key.range.low_excluded && wish == key.range.low);
  const double bound = is_low ? key.range.low : key.range.high;
  const bool is_excluded = is_low ? key.range.low_excluded : key.range.high_excluded;
  if (is_excluded || !std::isfinite(bound) || std::isnan(wish)) return std::nullopt;
  return fmt::format("{}", bound);
}

std::string value_text(const Member& member) { return std::visit(ValueWriter{}, member); }

Member member_of(const Key& key, const Recipe& recipe) {
  const Member member = key.member(const_cast<Recipe&>(recipe));  // accessors serve readers and writers alike
  MEGACPP_CHECK(member.index() == static_cast<size_t>(key.kind)) << key.path << " has another kind than its member";
  return member;
}

std::string meaning_of(const Key& key) { return key.path + ": " + key.doc; }

std::string suggest_key(std::string_view unknown) {
  for (const RenamedKey& renamed : kRenamedKeys)
    if (renamed.old_path == unknown) return fmt::format("it is '{}' now: rename it", renamed.path);
  // A right name in the wrong section is likelier than a near spelling.
  for (const Key& key : keys()) {
    if (last_word(key.path) == last_word(unknown)) return "did you mean '" + key.path + "'?";
  }
  return base::did_you_mean(unknown, all_paths(), "see the recipe keys in the documentation");
}

std::string key_table() {
  const Recipe defaults;
  std::string table = "| key | kind | default | range | meaning |\n| --- | --- | --- | --- | --- |\n";
  for (const Key& key : keys()) {
    const Member member = member_of(key, defaults);
    const bool required = !contains(key.range, member) || key.path == "name" || key.path == "model.pattern";
    std::string row = fmt::format("| `{}` | {} | {} | {} | ", key.path, kind_name(key.kind),
                                  required ? "required" : "`" + value_text(member) + "`", describe(key.range));
    for (const char c : key.doc) row += c == '|' ? std::string("\\|") : std::string(1, c);
    table += row + " |\n";
  }
  return table;
}

}  // namespace megacpp::recipe
