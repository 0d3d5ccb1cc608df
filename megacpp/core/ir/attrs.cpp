// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/attrs.h"

#include <algorithm>

#include "megacpp/core/base/error.h"

namespace megacpp::ir {
namespace {

template <typename T>
const T& demand(const Attr* attr, std::string_view name) {
  MEGACPP_CHECK(attr != nullptr) << "attribute '" << name << "' is missing";
  const T* value = std::get_if<T>(attr);
  MEGACPP_CHECK(value != nullptr) << "attribute '" << name << "' has another type";
  return *value;
}

}  // namespace

Attrs::Attrs(std::initializer_list<std::pair<std::string, Attr>> entries) {
  for (const auto& [name, value] : entries) set(name, value);
}

void Attrs::set(std::string name, Attr value) {
  Entries& entries = own();
  const auto at = std::lower_bound(entries.begin(), entries.end(), name,
                                   [](const auto& entry, const std::string& key) { return entry.first < key; });
  if (at != entries.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    entries.emplace(at, std::move(name), std::move(value));
  }
}

void Attrs::erase(std::string_view name) {
  if (has(name)) std::erase_if(own(), [name](const auto& entry) { return entry.first == name; });
}

Attrs::Entries& Attrs::own() {
  if (!entries_)
    entries_ = std::make_shared<Entries>();
  else if (entries_.use_count() > 1)
    entries_ = std::make_shared<Entries>(*entries_);
  return *entries_;
}

const Attr* Attrs::find(std::string_view name) const {
  for (const auto& [key, value] : entries())
    if (key == name) return &value;
  return nullptr;
}

int64_t Attrs::integer(std::string_view name) const { return demand<int64_t>(find(name), name); }
int64_t Attrs::integer(std::string_view name, int64_t otherwise) const {
  const Attr* attr = find(name);
  return attr == nullptr ? otherwise : demand<int64_t>(attr, name);
}
double Attrs::real(std::string_view name) const { return demand<double>(find(name), name); }
double Attrs::real(std::string_view name, double otherwise) const {
  const Attr* attr = find(name);
  return attr == nullptr ? otherwise : demand<double>(attr, name);
}
const std::string& Attrs::text(std::string_view name) const { return demand<std::string>(find(name), name); }
std::string Attrs::text(std::string_view name, std::string_view otherwise) const {
  const Attr* attr = find(name);
  return attr == nullptr ? std::string(otherwise) : demand<std::string>(attr, name);
}
const std::vector<int64_t>& Attrs::list(std::string_view name) const {
  return demand<std::vector<int64_t>>(find(name), name);
}

}  // namespace megacpp::ir
