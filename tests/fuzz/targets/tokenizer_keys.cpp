// SPDX-License-Identifier: Apache-2.0
// A sound tokenizer.json with members changed; its expression is one of several, dear ones among them.
#include <nlohmann/json.hpp>

#include "megacpp/core/base/json.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/json_tree.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/tokenizer_check.h"

namespace megacpp::fuzz {
namespace {

using base::Json;

Json pre_tokenizer_with(const char* regex) {
  const Json split = {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, digits, bytes}}};
}

void read_changed_tokenizer(Bytes input) {
  static const Json kSmall = Json::parse(small_tokenizer_json());
  static const Json kExpressions = {pre_tokenizer_with(R"(\w+|[^\w\s]+)"), pre_tokenizer_with(R"((a+)+b|(a|aa)+$)"),
                                    pre_tokenizer_with(R"(\s?[!-/:-~]+(?=x)|(?<=a)b)"), kSmall.at("pre_tokenizer")};
  Choices choices(input);
  Json file = kSmall;
  Json rest = {{"normalizer", {{"type", "NFC"}}},
               {"pre_tokenizer", kExpressions[choices.below(kExpressions.size())]},
               {"added_tokens", file["added_tokens"]}};
  if (choices.one_in(2)) rest["normalizer"] = nullptr;
  change_tree(rest, choices, 3);
  for (const auto& [key, value] : rest.items()) file[key] = value;
  if (choices.one_in(4)) change_tree(file["model"], choices, 1);
  read_tokenizer_json(base::to_text(file));
}

}  // namespace

Target tokenizer_keys_target() {
  return {
      .name = "tokenizer_keys", .subject = "members of a tokenizer.json", .weight = 10, .run = read_changed_tokenizer};
}

}  // namespace megacpp::fuzz
