// SPDX-License-Identifier: Apache-2.0
// The published schema is what the writer writes by; what it writes is judged by a reader of JSON Schema of its own.
#include "megacpp/evidence/receipt/json_schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "megacpp/evidence/receipt/store.h"
#include "tests/support/clean_receipt.h"

namespace megacpp::receipt {
namespace {

using base::Json;

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return type == "null" && value.is_null();
}

/// The keywords that the schema uses; nothing where the value keeps to it.
std::vector<std::string> violations(const Json& value, const Json& schema, const std::string& path) {
  if (const Json* const any = base::find_member(schema, "anyOf")) {
    for (const Json& one : *any)
      if (violations(value, one, path).empty()) return {};
    return {path + ": none of anyOf"};
  }
  if (!is_of_type(value, schema.at("type").get<std::string>())) return {path + ": not of type"};
  std::vector<std::string> found;
  if (const Json* const words = base::find_member(schema, "enum"))
    if (std::ranges::count(*words, value) == 0) found.push_back(path + ": none of enum");
  if (const Json* const wanted = base::find_member(schema, "const"))
    if (*wanted != value) found.push_back(path + ": not const");
  const auto add = [&](const std::vector<std::string>& more) { found.insert(found.end(), more.begin(), more.end()); };
  if (value.is_array())
    for (const Json& each : value) add(violations(each, schema.at("items"), path + "[]"));
  if (!value.is_object()) return found;
  for (const Json& name : schema.at("required"))
    if (!value.contains(name.get<std::string>())) found.push_back(path + ": lacks " + name.get<std::string>());
  for (const auto& [name, member] : value.items()) {
    const Json* const known = base::find_member(schema.at("properties"), name);
    if (known == nullptr)
      found.push_back(path + "." + name + ": not in the schema");
    else
      add(violations(member, *known, path + "." + name));
  }
  return found;
}

Json parsed(const std::string& text) { return base::parse_json(text, base::Code::E9001, "test"); }

TEST(JsonSchemaTest, ThePublishedFileIsTheSchemaOfTheWriter) {
  EXPECT_EQ(base::read_file(MEGACPP_SOURCE_DIR "/docs/receipt.schema.json"), json_schema())
      << "run: megacpp receipt schema > docs/receipt.schema.json";
}

TEST(JsonSchemaTest, WhatTheWriterWritesKeepsToTheSchema) {
  const Json schema = parsed(json_schema());
  Receipt failed = testing_support::clean_receipt();
  failed.ending.kind = EndingKind::out_of_memory;
  failed.ending.failure = Failure{.code = "E2004", .step = 3};
  for (const Receipt& receipt : {testing_support::clean_receipt(), failed, Receipt{}})
    EXPECT_EQ(violations(parsed(to_text(receipt)), schema, "receipt"), std::vector<std::string>{});
}

TEST(JsonSchemaTest, WhatTheWriterDoesNotWriteViolatesIt) {
  const Json schema = parsed(json_schema());
  const Json whole = parsed(to_text(testing_support::clean_receipt()));
  Json newer = whole, lacking = whole, other = whole, word = whole;
  newer["schema"] = 2;
  lacking["times"].erase("steady");
  other["header"]["model"]["depth"] = "4";
  word["ending"]["kind"] = "exploded";
  for (const Json& bad : {newer, lacking, other, word}) EXPECT_EQ(violations(bad, schema, "receipt").size(), 1U);
}

}  // namespace
}  // namespace megacpp::receipt
