// SPDX-License-Identifier: Apache-2.0
// The keys of a record's members (base/record.h): visit("heads", attention.heads, between(1, 64), "Query heads.") is a
// key with the kind of its member, its range and its documentation. Without a range it may be anything of its kind.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "megacpp/base/record.h"
#include "megacpp/schema/key.h"

namespace megacpp::schema {

/// Makes a key of every member that it visits. Members stand at the same place in every record of a type.
template <typename Owner>
class KeyLister {
 public:
  KeyLister(std::vector<Key<Owner>>& keys, const Owner& owner) : keys_(keys), owner_(owner) {}

  template <typename T, typename... About>
  void operator()(const char* path, const T& member, const About&... about) const {
    const auto place = reinterpret_cast<const char*>(&member) - reinterpret_cast<const char*>(&owner_);
    const auto member_of = [place](Owner& owner) -> Member {
      return reinterpret_cast<T*>(reinterpret_cast<char*>(&owner) + place);
    };
    Range range;
    [[maybe_unused]] const auto take = [&range](const auto& one) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(one)>, Range>) range = one;
    };
    (take(about), ...);
    const Kind kind = kind_of(Member(static_cast<T*>(nullptr)));
    keys_.push_back({{path, kind, std::move(range), std::string(base::doc_of(about...))}, member_of});
  }

 private:
  std::vector<Key<Owner>>& keys_;
  const Owner& owner_;
};

template <base::Record Owner>
std::vector<Key<Owner>> keys_of() {
  std::vector<Key<Owner>> keys;
  const Owner owner{};
  visit_fields(KeyLister(keys, owner), owner);
  return keys;
}

}  // namespace megacpp::schema
