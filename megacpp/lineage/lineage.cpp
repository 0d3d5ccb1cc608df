// SPDX-License-Identifier: Apache-2.0
#include "megacpp/lineage/lineage.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace megacpp::lineage {
namespace {

using base::Json;

class Writer {
 public:
  explicit Writer(Json& object) : object_(object) {}

  void operator()(const char* name, const std::string& value) const { object_[name] = value; }
  template <typename Record>
  void operator()(const char* name, const std::vector<Record>& records) const {
    Json array = Json::array();
    for (const Record& record : records) array.push_back(json_of(record));
    object_[name] = std::move(array);
  }

 private:
  static Json json_of(const Fact& fact) {
    Json object = Json::object();
    visit_fact(Writer(object), fact);
    return object;
  }
  static Json json_of(const Drift& drift) {
    Json object = Json::object();
    visit_drift(Writer(object), drift);
    return object;
  }

  Json& object_;
};

class Reader {
 public:
  explicit Reader(const Json& object) : object_(object) {}

  void operator()(const char* name, std::string& value) const {
    const Json* const member = base::find_member(object_, name);
    const std::string* const text = member == nullptr ? nullptr : base::as_text(*member);
    if (text != nullptr) value = *text;
  }
  template <typename Record>
  void operator()(const char* name, std::vector<Record>& records) const {
    const Json* const member = base::find_member(object_, name);
    if (member == nullptr || !member->is_array()) return;
    for (const Json& each : *member) read(each, records.emplace_back());
  }

 private:
  static void read(const Json& json, Fact& fact) { visit_fact(Reader(json), fact); }
  static void read(const Json& json, Drift& drift) { visit_drift(Reader(json), drift); }

  const Json& object_;
};

}  // namespace

const std::string* find_value(const Facts& facts, std::string_view name) {
  const auto at = std::ranges::find(facts, name, &Fact::name);
  return at == facts.end() ? nullptr : &at->value;
}

base::Json to_json(const Lineage& lineage) {
  Json object = Json::object();
  visit_lineage(Writer(object), lineage);
  return object;
}

Lineage lineage_of(const base::Json& json) {
  Lineage lineage;
  visit_lineage(Reader(json), lineage);
  return lineage;
}

std::string to_text(const Drift& drift) {
  return fmt::format("{} {}, documented {}: {}", drift.name, drift.live, drift.documented, drift.fix);
}

}  // namespace megacpp::lineage
