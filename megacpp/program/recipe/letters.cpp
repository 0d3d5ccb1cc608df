// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/letters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/suggest.h"
#include "megacpp/program/blocks/block.h"
#include "megacpp/program/recipe/recompute.h"
#include "megacpp/program/recipe/synonyms.h"

namespace megacpp::recipe {
namespace {

constexpr std::string_view kLetters = "model.letters";
constexpr std::string_view kRecomputePrefix = "train.recompute.";

bool is_own_letter(std::string_view text) {
  return text.size() == 1 && text[0] >= 'A' && text[0] <= 'Z' && blocks::find_block(text[0]) == nullptr;
}

const blocks::BlockDef* family_with_section(std::string_view section) {
  const auto at = std::ranges::find(blocks::all_blocks(), section, &blocks::BlockDef::name);
  return at == blocks::all_blocks().end() ? nullptr : &*at;
}

/// "feed_forward.experts" for a setting that a family has.
bool is_setting(std::string_view section, std::string_view key) {
  const blocks::BlockDef* family = family_with_section(section);
  return family != nullptr && std::ranges::find(family->keys, key, &blocks::ConfigKey::path) != family->keys.end();
}

/// The word before the first '.', which is taken away with it.
std::string_view next_word(std::string_view& path) {
  const std::string_view word = path.substr(0, path.find('.'));
  path.remove_prefix(std::min(word.size() + 1, path.size()));
  return word;
}

std::string family_letters() {
  std::vector<std::string> letters;
  for (const blocks::BlockDef& def : blocks::all_blocks())
    letters.push_back(fmt::format("{} ({})", def.letter, def.name));
  return fmt::format("{}", fmt::join(letters, ", "));
}

/// The letter of the family that `word` was meant to be: "e", "feed_forward", "mamba2".
const blocks::BlockDef* meant_family(const std::string& word) {
  std::vector<std::string> names;
  for (const blocks::BlockDef& def : blocks::all_blocks()) {
    if (word.size() == 1 && std::toupper(static_cast<unsigned char>(word[0])) == def.letter) return &def;
    names.emplace_back(def.name);
  }
  const std::optional<std::string> name = schema::nearest_choice(word, names);
  return name ? family_with_section(*name) : nullptr;
}

std::string section_of(const std::string& setting) { return setting.substr(0, setting.find('.')); }

void check_family(char letter, const Letter& own, const Origins& origins) {
  const std::string path = fmt::format("{}.{}", kLetters, letter);
  if (own.family.size() == 1 && blocks::find_block(own.family[0]) != nullptr) return;
  const std::string& hint =
      !own.family.empty() || own.settings.empty() ? own.family : section_of(own.settings.begin()->first);
  const blocks::BlockDef* meant = meant_family(hint);
  base::raise(base::Code::E1003, {.where = place(origins, own.family.empty() ? path : path + ".family"),
                                  .got = own.family.empty() ? "no family" : "'" + own.family + "'",
                                  .wanted = "the letter of a family: " + family_letters(),
                                  .next = fmt::format("set {}.family: {}", path,
                                                      (meant != nullptr ? *meant : blocks::all_blocks()[0]).letter)});
}

void check_sections(char letter, const Letter& own, const Origins& origins) {
  const blocks::BlockDef& family = blocks::block_def(own.family[0]);
  for (const auto& [setting, value] : own.settings) {
    if (section_of(setting) == family.name) continue;
    const std::string path = fmt::format("{}.{}.{}", kLetters, letter, setting);
    base::raise(base::Code::E1001, {.where = place(origins, path),
                                    .got = fmt::format("'{}' of a letter of family {}", path, family.letter),
                                    .wanted = fmt::format("settings of {}.{}.{}", kLetters, letter, family.name),
                                    .next = fmt::format("remove it, or set {}.{}.family: {}", kLetters, letter,
                                                        family_with_section(section_of(setting))->letter)});
  }
}

void check_use(char letter, const Model& model, const Origins& origins) {
  MEGACPP_REQUIRE(model.pattern.find(letter) != std::string::npos, E1006,
                  {.where = place(origins, fmt::format("{}.{}", kLetters, letter)),
                   .got = fmt::format("letter {}, which is not in the pattern \"{}\"", letter, model.pattern),
                   .wanted = "letters that the pattern uses",
                   .next = fmt::format("put {} into model.pattern, or remove {}.{}", letter, kLetters, letter)});
}

void check_recompute(const Recipe& recipe, const Origins& origins) {
  for (const auto& [letter, level] : recipe.train.recompute) {
    const bool is_known = blocks::find_block(letter) != nullptr || recipe.model.letters.contains(letter);
    MEGACPP_REQUIRE(is_known, E1006,
                    {.where = place(origins, recompute_key(letter)),
                     .got = fmt::format("letter {}, which nobody defines", letter),
                     .wanted = "letters of families or of model.letters",
                     .next = fmt::format("define {}.{}, or remove it here", kLetters, letter)});
  }
}

}  // namespace

LetterPath letter_path(std::string_view path) {
  using To = LetterPath::To;
  if (path.starts_with(kRecomputePrefix) && is_own_letter(path.substr(kRecomputePrefix.size())))
    return {.to = To::recompute, .letter = std::string(path.substr(kRecomputePrefix.size()))};
  if (path == kLetters) return {.to = To::section};
  if (!path.starts_with(kLetters) || path[kLetters.size()] != '.') return {};
  path.remove_prefix(kLetters.size() + 1);
  LetterPath found{.to = To::section, .letter = std::string(next_word(path))};
  if (path.empty()) return found;
  found.setting = std::string(path);
  const std::string_view section = next_word(path);
  if (path.empty())
    found.to = section == "family" ? To::family : family_with_section(section) != nullptr ? To::section : To::unknown;
  else
    found.to = is_setting(section, path) ? To::setting : To::unknown;
  return found;
}

void require_own_letter(const std::string& letter, const std::string& where) {
  if (is_own_letter(letter)) return;
  const blocks::BlockDef* family = letter.size() == 1 ? blocks::find_block(letter[0]) : nullptr;
  const bool is_lower = letter.size() == 1 && std::islower(static_cast<unsigned char>(letter[0])) != 0;
  const std::string upper(
      1, letter.empty() ? 'D' : static_cast<char>(std::toupper(static_cast<unsigned char>(letter[0]))));
  base::raise(
      base::Code::E1006,
      {.where = where,
       .got = family != nullptr ? fmt::format("'{}', the letter of the {} family", letter, family->name)
                                : "'" + letter + "'",
       .wanted = "one uppercase letter that is no family's: not " + family_letters(),
       .next = family != nullptr ? fmt::format("its settings go under model.{}; or take another letter", family->name)
               : is_lower && is_own_letter(upper) ? "write '" + upper + "'"
                                                  : std::string("take a letter such as D")});
}

std::string suggest_letter_key(const LetterPath& path, std::string_view unknown) {
  const std::string prefix = fmt::format("{}.{}.", kLetters, path.letter);
  std::string_view word = unknown.substr(unknown.rfind('.') + 1);
  if (const auto ours = key_of_synonym(word)) word = ours->substr(ours->rfind('.') + 1);
  const std::string in_section = fmt::format("{}{}", unknown.substr(0, unknown.rfind('.') + 1), word);
  if (letter_path(in_section).to == LetterPath::To::setting) return "did you mean '" + in_section + "'?";
  std::vector<std::string> known = {prefix + "family"};
  for (const blocks::BlockDef& def : blocks::all_blocks()) {
    known.push_back(prefix + std::string(def.name));
    for (const blocks::ConfigKey& key : def.keys) {
      known.push_back(fmt::format("{}{}.{}", prefix, def.name, key.path));
      if (key.path == word) return "did you mean '" + known.back() + "'?";
    }
  }
  return base::did_you_mean(unknown, known, "a letter has a family and settings of its section");
}

void check_letters(const Recipe& recipe, const Origins& origins) {
  for (const auto& [letter, own] : recipe.model.letters) {
    check_family(letter, own, origins);
    check_sections(letter, own, origins);
    check_use(letter, recipe.model, origins);
  }
  check_recompute(recipe, origins);
}

std::string letter_rows() {
  const schema::KeySpec family{"model.letters.X.family",
                               Kind::text,
                               {},
                               "Defines the letter X, any that is no family's, for model.pattern: blocks of this "
                               "family (its letter) with settings of their own."};
  const schema::KeySpec setting{"model.letters.X.<section>.<key>",
                                Kind::text,
                                {},
                                "A setting of X blocks, of the kind and range of model.<section>.<key>; settings that "
                                "are not given are those of the family's section."};
  return schema::table_row(family, "none") + schema::table_row(setting, "`model.<section>.<key>`");
}

std::string letter_recompute_row() {
  const schema::KeySpec level{"train.recompute.X", Kind::text, schema::words<RecomputeLevel>(),
                              "The same for a letter of model.letters."};
  const schema::KeySpec all{"train.recompute", Kind::text, level.range,
                            "One level in place of the group: of all letters."};
  return schema::table_row(level, "that of its family") + schema::table_row(all, "that of each letter");
}

}  // namespace megacpp::recipe
