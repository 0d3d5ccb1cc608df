// SPDX-License-Identifier: Apache-2.0
// A setting of a record: its name in the text, what it may be, what it means, and where its value is stored. A table of
// keys is all that reading, checking, printing and documenting a record needs; none of them names a setting itself.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "megacpp/core/base/error.h"
#include "megacpp/core/schema/range.h"
#include "megacpp/core/schema/value.h"

namespace megacpp::schema {

/// What is known of a setting without its record.
struct KeySpec {
  std::string path;  // "model.attention.heads"
  Kind kind;
  Range range;
  std::string doc;
};

template <typename Record>
struct Key : KeySpec {
  std::function<Member(Record& record)> member;
};

/// The member of a record that is only read.
template <typename Record>
Member member_of(const Key<Record>& key, const Record& record) {
  const Member member = key.member(const_cast<Record&>(record));  // accessors serve readers and writers alike
  MEGACPP_CHECK(kind_of(member) == key.kind) << key.path << " has another kind than its member";
  return member;
}

namespace detail {
template <typename Field>
struct FieldOf;
template <typename Record, typename Value>
struct FieldOf<Value Record::*> {
  using record = Record;
  using value = Value;
};
}  // namespace detail

/// The key of a field, with the kind of its type: key<&Attention::heads>("heads", between(1, 64), "Query heads.").
template <auto field>
Key<typename detail::FieldOf<decltype(field)>::record> key(std::string path, Range range, std::string doc) {
  using Of = detail::FieldOf<decltype(field)>;
  const Kind kind = kind_of(member_at(static_cast<typename Of::value*>(nullptr)));
  return {{std::move(path), kind, std::move(range), std::move(doc)},
          [](typename Of::record& record) { return member_at(&(record.*field)); }};
}

/// A setting that is an enum: its range is the words of the enum, and its documentation ends with what they mean.
template <base::HasWords Enum>
KeySpec mode(std::string path, std::string doc) {
  std::string meanings;
  for (const base::Word<Enum>& word : words_of(Enum{}))
    if (!word.doc.empty())
      meanings += (meanings.empty() ? " " : "; ") + std::string(word.name) + ": " + std::string(word.doc);
  return {std::move(path), Kind::text, words<Enum>(), std::move(doc) + meanings + (meanings.empty() ? "" : ".")};
}

/// The key of such a field.
template <auto field>
requires base::HasWords<typename detail::FieldOf<decltype(field)>::value>
    Key<typename detail::FieldOf<decltype(field)>::record> key(std::string path, std::string doc) {
  using Of = detail::FieldOf<decltype(field)>;
  return {mode<typename Of::value>(std::move(path), std::move(doc)),
          [](typename Of::record& record) { return member_at(&(record.*field)); }};
}

/// The value of the key's range nearest to `wish`, as YAML text; none for a key that is no number, and where a bound is
/// missing or excluded.
std::optional<std::string> nearest_value(const KeySpec& key, double wish);

/// "layout.zero: Split over the chips ...": what to read about a key.
std::string meaning_of(const KeySpec& key);

/// What to do about a value outside the key's range: the nearest one inside, or what to read.
std::string next_step(const KeySpec& key, const Member& member);
std::string next_step(const KeySpec& key, const std::string& text);

/// A row of a markdown table: key, kind, default, range, meaning. `shown` is the default as it is to be read.
std::string table_row(const KeySpec& key, const std::string& shown);

}  // namespace megacpp::schema
