// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/pre_tokenizer.h"

#include <nlohmann/json.hpp>

#include "megacpp/run/data/bpe/json_checks.h"

namespace megacpp::data::bpe {
namespace {

constexpr size_t kMostSplits = 64;

/// An expression that matches `text` and nothing else.
std::string quoted_regex(const std::string& text) {
  std::string regex;
  for (const char c : text) {
    if (static_cast<uint8_t>(c) < 0x80 && std::isalnum(static_cast<unsigned char>(c)) == 0) regex += '\\';
    regex += c;
  }
  return regex;
}

}  // namespace

class PreTokenizerReader {
 public:
  void add(const JsonPlace& place) {
    if (steps_.size() >= kMostSplits)
      refuse_tokenizer(place.path, "more than " + std::to_string(kMostSplits) + " pre-tokenizers", "fewer");
    const std::string& type = place.text("type");
    if (type == "Sequence") return add_sequence(place);
    if (saw_byte_level_) refuse_tokenizer_part(place.path, type + " behind ByteLevel", "ByteLevel as the last");
    if (type == "ByteLevel") return add_byte_level(place);
    if (type == "Split") return add_split(place);
    if (type == "Digits") return add_digits(place);
    refuse_tokenizer_part(place.path, "the pre-tokenizer " + type, "ByteLevel, Split, Digits or a Sequence of these");
  }

  PreTokenizer finish(const std::string& where) {
    if (!saw_byte_level_)
      refuse_tokenizer_part(where + ": pre_tokenizer", "no ByteLevel", "a pre-tokenizer that ends with ByteLevel");
    PreTokenizer made;
    made.steps_ = std::move(steps_);
    return made;
  }

 private:
  void add_sequence(const JsonPlace& place) {
    const JsonPlace list = place.member("pretokenizers");
    if (!list.value.is_array()) refuse_tokenizer(list.path, std::string(base::kind_name(list.value)), "a list");
    for (size_t i = 0; i < list.value.size(); ++i) add({list.value[i], list.path + "[" + std::to_string(i) + "]"});
  }

  void add_byte_level(const JsonPlace& place) {
    if (place.flag("add_prefix_space", true))
      refuse_tokenizer_part(place.path + ".add_prefix_space", "true", "false: text is to come back as it was");
    if (place.flag("use_regex", true)) steps_.push_back({.pattern = &gpt2_words()});
    saw_byte_level_ = true;
  }

  void add_split(const JsonPlace& place) {
    const JsonPlace pattern = place.member("pattern");
    const bool is_regex = base::find_member(pattern.value, "Regex") != nullptr;
    const std::string& text = pattern.text(is_regex ? "Regex" : "String");
    const std::string& behavior = place.text("behavior");
    const bool only_matches = behavior == "Removed" && place.flag("invert", false);
    if (behavior != "Isolated" && !only_matches)
      refuse_tokenizer_part(place.path + ".behavior", behavior, "Isolated, or Removed with invert");
    add_regex(is_regex ? text : quoted_regex(text), pattern.path, !only_matches);
  }

  void add_digits(const JsonPlace& place) {
    add_regex(place.flag("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)", place.path, true);
  }

  void add_regex(const std::string& regex, const std::string& path, bool keeps_gaps) {
    const WordPattern* known = word_pattern_of(regex);
    steps_.push_back({.pattern = known,
                      .regex = known != nullptr ? nullptr : std::make_unique<const Regex>(regex, path),
                      .keeps_gaps = keeps_gaps});
  }

  std::vector<PreTokenizer::Step> steps_;
  bool saw_byte_level_ = false;
};

PreTokenizer PreTokenizer::parse(const base::Json* value, const std::string& where) {
  PreTokenizerReader reader;
  if (value != nullptr && !value->is_null()) reader.add({*value, where + ": pre_tokenizer"});
  return reader.finish(where);
}

}  // namespace megacpp::data::bpe
