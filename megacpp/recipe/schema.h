// SPDX-License-Identifier: Apache-2.0
// The table of recipe keys made from schema.inc: where each value lives, what it may be, what it means.
// Everything that reads, checks, prints or documents recipes walks this table and names no key itself.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "megacpp/recipe/recipe.h"

namespace megacpp::recipe {

/// The alternatives stand in the order of Member's.
enum class Kind { integer, number, flag, text, list, bytes };
using Member = std::variant<int64_t*, double*, bool*, std::string*, std::vector<std::string>*, ByteSize*>;

/// What a value may be: an interval for numbers, a set of words for texts, or one of both for a text that may be a
/// number.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_excluded = false;
  bool high_excluded = false;
  bool infinity_allowed = false;
  bool integer_allowed = false;      // beside the choices
  bool empty_allowed = false;        // a text that may be given as ""
  std::vector<std::string> choices;  // empty = any text
};

struct Key {
  std::string path;  // "model.attention.heads"
  Kind kind;
  Range range;
  std::string doc;
  Member (*member)(Recipe& recipe);
};

/// All keys, in printing order.
std::span<const Key> keys();
const Key* find_key(std::string_view path);
/// Whether `path` is a group of keys, e.g. "model.attention".
bool is_section(std::string_view path);
/// The family whose section the key belongs to ('A', 'M', 'E', 'R'), or nothing for keys every recipe has.
std::optional<char> family_of(const Key& key);

std::string_view kind_name(Kind kind);     // "an integer"
std::string describe(const Range& range);  // "at least 1", "swiglu or relu2", ""
bool contains(const Range& range, const Member& member);
/// The value of the key's range nearest to `wish`, as YAML text; none for a key that is no number, and where a bound is
/// missing or excluded.
std::optional<std::string> nearest_value(const Key& key, double wish);
/// The value as YAML text, e.g. 0.02, .inf, "A|E", [a.txt, b.txt].
std::string value_text(const Member& member);
/// The member of a recipe that is only read.
Member member_of(const Key& key, const Recipe& recipe);

/// "layout.zero: Split over the chips ...": what to read about a key.
std::string meaning_of(const Key& key);

/// "did you mean 'model.hidden'?" for an unknown path, or where to find the keys.
std::string suggest_key(std::string_view unknown);

/// Markdown table of all keys: key, kind, default, range, meaning.
std::string key_table();

}  // namespace megacpp::recipe
