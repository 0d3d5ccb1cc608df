// SPDX-License-Identifier: Apache-2.0
#include "megacpp/base/json_record.h"

#include <gtest/gtest.h>

#include <concepts>

namespace megacpp::json_record_test {

enum class Colour : uint8_t { red, blue };
inline std::string_view text_of(Colour colour) { return colour == Colour::red ? "red" : "blue"; }
inline bool read_text(std::string_view text, Colour& colour) {
  colour = text == "blue" ? Colour::blue : Colour::red;
  return text == "red" || text == "blue";
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

  bool operator==(const Outer&) const = default;
};

template <typename Visit, typename Self>
requires std::same_as<std::remove_const_t<Self>, Inner>
void visit_fields(const Visit& visit, Self& self) {
  visit("bytes", self.bytes, "at the peak");
  visit("shares", self.shares);
}

template <typename Visit, typename Self>
requires std::same_as<std::remove_const_t<Self>, Outer>
void visit_fields(const Visit& visit, Self& self) {
  visit("name", self.name);
  visit("on", self.is_on);
  visit("rate", self.rate);
  visit("colour", self.colour);
  visit("parts", self.parts);
  visit("spare", self.spare);
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
                   .spare = Inner{.bytes = 7, .shares = {}}};

Outer read_back(const std::string& text, std::vector<std::string>* mismatches = nullptr) {
  Outer read;
  const Json json = base::parse_json(text, base::Code::E1008, "test");
  base::read_record(json, read, "", [&](const std::string& path, std::string_view wanted) {
    if (mismatches != nullptr) mismatches->push_back(path + ": " + std::string(wanted));
  });
  return read;
}

TEST(JsonRecordTest, WhatIsWrittenIsReadBack) {
  EXPECT_EQ(read_back(to_text(record_json(kWhole))), kWhole);
  EXPECT_EQ(read_back(to_text(record_json(Outer{}))), Outer{});
}

TEST(JsonRecordTest, AbsentIsNullAndNeverZero) {
  EXPECT_EQ(to_text(record_json(Inner{})), R"({"bytes":null,"shares":[]})");
}

TEST(JsonRecordTest, OtherKindsAreNamedByTheirPath) {
  std::vector<std::string> mismatches;
  const Outer read =
      read_back(R"({"name":1,"on":"yes","rate":null,"colour":"green","parts":[{"bytes":"x"},3],"new":1})", &mismatches);
  EXPECT_EQ(mismatches,
            (std::vector<std::string>{"name: a text", "on: a flag", "rate: a number", "colour: one of its words",
                                      "parts[0].bytes: a number", "parts[1]: an object"}));
  EXPECT_EQ(read.name, "");
  EXPECT_FALSE(read.parts.at(0).bytes) << "what is of another kind is absent, not 0";
}

}  // namespace
}  // namespace megacpp::json_record_test
