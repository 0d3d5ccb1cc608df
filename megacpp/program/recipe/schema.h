// SPDX-License-Identifier: Apache-2.0
// The table of recipe keys made from schema.inc and the block families: where each value is stored, what it may be,
// what it means. Everything that reads, checks, prints or documents recipes walks this table and names no key itself.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "megacpp/core/schema/key.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::recipe {

using schema::Kind;
using schema::kind_name;
using schema::Member;
using schema::member_of;
using schema::Range;
using schema::value_text;
using Key = schema::Key<Recipe>;

/// All keys, in printing order, but those of letters that a recipe defines (letters.h).
std::span<const Key> keys();
const Key* find_key(std::string_view path);
/// Whether `path` is a group of keys, e.g. "model.attention".
bool is_section(std::string_view path);
/// The letter of the family whose settings the key belongs to, or nothing for keys every recipe has.
std::optional<char> family_of(const Key& key);

/// Whether a recipe has to give the key: what it has by default will not do.
bool is_required(const Key& key);

/// "did you mean 'model.hidden'?" for an unknown path, or where to find the keys.
std::string suggest_key(std::string_view unknown);

/// Markdown table of all keys: key, kind, default, range, meaning.
std::string key_table();

}  // namespace megacpp::recipe
