// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/record_from_json.h"
#include "megacpp/core/base/record_schema.h"
#include "megacpp/core/base/record_to_json.h"

#include <gtest/gtest.h>

namespace megacpp::record_json_test {

enum class Colour : uint8_t { red, blue };
constexpr auto words_of(Colour /*colour*/) {
  return std::to_array<base::Word<Colour>>({{Colour::red, "red"}, {Colour::blue, "blue"}});
}

struct Inner {
  std::optional<int64_t> bytes = {};
  std::vector<double> shares = {};

  bool operator==(const Inner&) const = default;
};

struct Outer {
  std::string name = {};
  bool is_on = false;
  double rate = 0;
  Colour colour = Colour::red;
  std::vector<Inner> parts = {};
  std::optional<Inner> spare = {};
  std::map<std::string, double> rates = {};
  std::vector<std::pair<std::string, std::string>> settings = {};

  bool operator==(const Outer&) const = default;
};

template <typename Visit, base::Is<Inner> Self>
void visit_fields(const Visit& visit, Self& self) {
  visit("bytes", self.bytes, "at the peak");
  visit("shares", self.shares);
}

template <typename Visit, base::Is<Outer> Self>
void visit_fields(const Visit& visit, Self& self) {
  visit("name", self.name);
  visit("on", self.is_on);
  visit("rate", self.rate);
  visit("colour", self.colour);
  visit("parts", self.parts);
  visit("spare", self.spare);
  visit("rates", self.rates);
  visit("settings", self.settings, "in their order");
}

namespace {

using base::Json;
using base::record_json;
using base::to_text;

const Outer kWhole{.name = "one",
                   .is_on = true,
                   .rate = 0.25,
                   .colour = Colour::blue,
                   .parts = {{.bytes = 3, .shares = {0.5, 1}}, {.bytes = {}, .shares = {}}},
                   .spare = Inner{.bytes = 7, .shares = {}},
                   .rates = {{"b", 0.5}, {"c", 2}},
                   .settings = {{"train.batch", "4"}, {"a", ""}}};

Outer read_back(const std::string& text, std::vector<std::string>* mismatches = nullptr) {
  Outer read;
  const Json json = base::parse_json(text, base::Code::E1008, "test");
  const auto note = [&](const std::string& path, std::string_view wanted) {
    if (mismatches != nullptr) mismatches->push_back(path + ": " + std::string(wanted));
  };
  base::read_record(json, read, "", {.on_mismatch = note});
  return read;
}

TEST(RecordJsonTest, WhatIsWrittenIsReadBack) {
  EXPECT_EQ(read_back(to_text(record_json(kWhole))), kWhole);
  EXPECT_EQ(read_back(to_text(record_json(Outer{}))), Outer{});
}

TEST(RecordJsonTest, AbsentIsNullAndNeverZero) {
  EXPECT_EQ(to_text(record_json(Inner{})), R"({"bytes":null,"shares":[]})");
}

TEST(RecordJsonTest, OtherKindsAreNamedByTheirPath) {
  std::vector<std::string> mismatches;
  const Outer read = read_back(R"({"name":1,"on":"yes","rate":null,"colour":"green","parts":[{"bytes":"x"},3],)"
                               R"("rates":{"b":true},"settings":[],"new":1})",
                               &mismatches);
  EXPECT_EQ(mismatches, (std::vector<std::string>{"name: a text", "on: a flag", "rate: a number",
                                                  "colour: one of its words", "parts[0].bytes: a number",
                                                  "parts[1]: an object", "rates.b: a number", "settings: an object"}));
  EXPECT_EQ(read.name, "");
  EXPECT_FALSE(read.parts.at(0).bytes) << "what is of another kind is absent, not 0";
}

TEST(RecordJsonTest, AWholeRecordLacksNothing) {
  std::vector<std::string> refused;
  const auto note = [&](const std::string& path, std::string_view wanted) {
    refused.push_back(path + ": " + std::string(wanted));
  };
  const auto whole = base::record_json(kWhole);
  EXPECT_EQ(base::whole_record<Outer>(whole, note), kWhole);
  EXPECT_EQ(refused, std::vector<std::string>{});
  Json lacking = whole;
  lacking["parts"][1].erase("bytes");
  lacking.erase("rate");
  base::whole_record<Outer>(lacking, note);
  EXPECT_EQ(refused, (std::vector<std::string>{"rate: there", "parts[1].bytes: there"}));
}

TEST(RecordJsonTest, ASchemaDescribesEveryMember) {
  const Json schema = base::record_schema<Outer>(), properties = schema.at("properties");
  EXPECT_EQ(schema.at("required").size(), properties.size());
  EXPECT_EQ(to_text(properties.at("colour")), R"({"type":"string","enum":["red","blue"]})");
  EXPECT_EQ(to_text(properties.at("settings")),
            R"({"type":"object","additionalProperties":{"type":"string"},"description":"in their order"})");
  EXPECT_EQ(to_text(properties.at("parts").at("items").at("properties").at("bytes")),
            R"({"anyOf":[{"type":"integer"},{"type":"null"}],"description":"at the peak"})");
}

// A type that is no record is refused where it is used, not deep inside.
static_assert(base::Record<Outer> && base::Record<Inner>);
static_assert(!base::Record<std::string> && !base::Record<Colour> && base::HasWords<Colour>);

}  // namespace
}  // namespace megacpp::record_json_test
