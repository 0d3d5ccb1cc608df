// SPDX-License-Identifier: Apache-2.0
// A setting of a record: its name in the text, what it may be, what it means, and where its value is stored. A table of
// keys is all that reading, checking, printing and documenting a record needs; none of them names a setting itself.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "megacpp/base/error.h"
#include "megacpp/schema/range.h"
#include "megacpp/schema/value.h"

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
  const Kind kind = kind_of(Member(static_cast<typename Of::value*>(nullptr)));
  return {{std::move(path), kind, std::move(range), std::move(doc)},
          [](typename Of::record& record) -> Member { return &(record.*field); }};
}

/// The value of the key's range nearest to `wish`, as YAML text; none for a key that is no number, and where a bound is
/// missing or excluded.
std::optional<std::string> nearest_value(const KeySpec& key, double wish);

/// "layout.zero: Split over the chips ...": what to read about a key.
std::string meaning_of(const KeySpec& key);

/// What to do about a value outside the key's range: the nearest one inside, or what to read.
std::string next_step(const KeySpec& key, const Member& member);

/// A row of a markdown table: key, kind, default, range, meaning. `shown` is the default as it is to be read.
std::string table_row(const KeySpec& key, const std::string& shown);

}  // namespace megacpp::schema
