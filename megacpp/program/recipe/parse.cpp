// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/parse.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <limits>
#include <map>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/utf8.h"
#include "megacpp/core/schema/next_for_kind.h"
#include "megacpp/core/schema/yaml_text.h"
#include "megacpp/program/blocks/block.h"
#include "megacpp/program/recipe/global_batch.h"
#include "megacpp/program/recipe/letters.h"
#include "megacpp/program/recipe/other_inputs.h"
#include "megacpp/program/recipe/recompute.h"
#include "megacpp/program/recipe/schema.h"
#include "megacpp/program/recipe/validate.h"

namespace megacpp::recipe {
namespace {

/// What is being filled, and where each key came from.
struct Draft {
  Recipe recipe;
  Origins origins;
  /// Texts that are no word of their key, by its path: refused unless an override gives one that is.
  std::map<std::string, base::Problem> unknown_words;
};

std::string line_of(const std::string& file, const YAML::Node& node) {
  return fmt::format("{}:{}", file, node.Mark().line + 1);
}

/// `text` is the scalar that was given, if one was.
[[noreturn]] void refuse_kind(const schema::KeySpec& key, const std::string& where, const std::string& got,
                              const std::string& text = "") {
  base::raise(base::Code::E1002, {.where = where + " " + key.path,
                                  .got = got,
                                  .wanted = std::string(kind_name(key.kind)),
                                  .next = schema::next_for_kind(key, text)});
}

[[noreturn]] void refuse_beyond_counting(const schema::KeySpec& key, const std::string& where,
                                         const std::string& text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto nearest = nearest_value(key, text.starts_with('-') ? -kInfinity : kInfinity);
  base::raise(base::Code::E1003, {.where = where + " " + key.path,
                                  .got = text,
                                  .wanted = describe(key.range) + (nearest ? "" : ", in 64 bits"),
                                  .next = nearest ? "set " + key.path + ": " + *nearest : meaning_of(key)});
}

void assign_list(const schema::KeySpec& key, const YAML::Node& node, const std::string& where,
                 std::vector<std::string>& list) {
  list.clear();
  for (const YAML::Node& item : node) {
    if (!item.IsScalar()) refuse_kind(key, where, "a list with an item that is no text");
    list.push_back(item.Scalar());
  }
}

/// Whether the node is a text where the key wants one of a few words, and none of them.
bool is_unknown_word(const Member& member, const YAML::Node& node) {
  return std::holds_alternative<schema::TextValue>(member) && node.IsScalar() && !node.Scalar().empty() &&
         !schema::read_scalar(node.Scalar(), member);
}

base::Problem unknown_word(const schema::KeySpec& key, const std::string& where, std::string word) {
  return {.where = where + " " + key.path,
          .got = value_text(&word),
          .wanted = describe(key.range),
          .next = schema::next_step(key, word)};
}

void refuse_unknown_words(const Draft& draft) {
  for (const auto& [path, problem] : draft.unknown_words) base::raise(base::Code::E1003, problem);
}

/// Stores a value in a member of the key's kind: E1002, E1003.
void store(const schema::KeySpec& key, const Member& member, const YAML::Node& node, const std::string& where) {
  if (node.IsSequence() && key.kind == Kind::list) {
    assign_list(key, node, where, *std::get<std::vector<std::string>*>(member));
    return;
  }
  if (!node.IsScalar()) refuse_kind(key, where, node.IsMap() ? "a group" : node.IsNull() ? "nothing" : "a list");
  const bool is_emptied = key.range.empty_allowed && node.Scalar().empty();
  if (schema::read_scalar(node.Scalar(), member) || is_emptied) return;
  if (key.kind == Kind::integer && schema::is_beyond_counting(node.Scalar()))
    refuse_beyond_counting(key, where, node.Scalar());
  refuse_kind(key, where, "'" + node.Scalar() + "'", node.Scalar());
}

void assign(Draft& draft, const Key& key, const YAML::Node& node, const std::string& where) {
  draft.origins[key.path] = where;
  draft.unknown_words.erase(key.path);
  if (const Member member = key.member(draft.recipe); is_unknown_word(member, node))
    draft.unknown_words.emplace(key.path, unknown_word(key, where, node.Scalar()));
  else
    store(key, member, node, where);
}

/// What the text of a setting is to be kept as: one scalar of the key's kind, in its range.
std::string scalar_of(Key key, const std::string& path, const YAML::Node& node, const std::string& where) {
  Recipe scratch;
  key.path = path;
  const Member member = key.member(scratch);
  if (is_unknown_word(member, node)) base::raise(base::Code::E1003, unknown_word(key, where, node.Scalar()));
  store(key, member, node, where);
  validate_key(key, scratch, {{{path, where}}});
  return key.kind == Kind::text ? node.Scalar() : value_text(member_of(key, scratch));
}

RecomputeLevel recompute_level_of(const std::string& path, const YAML::Node& node, const std::string& where) {
  const Key& of_a_letter = *find_key(recompute_key(blocks::all_blocks()[0].letter));
  RecomputeLevel level{};
  MEGACPP_CHECK(base::read_text(scalar_of(of_a_letter, path, node, where), level)) << "only words are stored";
  return level;
}

/// train.recompute as one level.
void assign_recompute(Draft& draft, const YAML::Node& node, const std::string& where) {
  draft.origins[kRecompute] = where;
  set_recompute_levels(draft.recipe, recompute_level_of(kRecompute, node, where));
}

/// A value of a letter that the recipe defines.
void assign_letter(Draft& draft, const LetterPath& at, const std::string& path, const YAML::Node& node,
                   const std::string& where) {
  draft.origins[path] = where;
  if (at.to == LetterPath::To::recompute) {
    draft.recipe.train.recompute[at.letter[0]] = recompute_level_of(path, node, where);
    return;
  }
  require_own_letter(at.letter, where);
  Letter& letter = draft.recipe.model.letters[at.letter[0]];
  if (at.to == LetterPath::To::family) {
    store({path, Kind::text, {}, "The letter of a family."}, &letter.family, node, where);
  } else {
    letter.settings[at.setting] = scalar_of(*find_key("model." + at.setting), path, node, where);
  }
}

[[noreturn]] void refuse_unknown(const std::string& path, const std::string& where) {
  const LetterPath letter = letter_path(path);
  const std::string next = letter.to == LetterPath::To::unknown ? suggest_letter_key(letter, path) : suggest_key(path);
  base::raise(base::Code::E1001, {.where = where, .got = "'" + path + "'", .wanted = "a documented key", .next = next});
}

/// Whether `path` is a group of keys in the text.
bool is_group(const std::string& path, const LetterPath& letter) {
  return letter.to == LetterPath::To::section || is_section(path);
}

bool is_letter_value(const LetterPath& path) {
  using To = LetterPath::To;
  return path.to == To::family || path.to == To::setting || path.to == To::recompute;
}

/// A letter is there once its section is, whatever stands in it.
void define_letter(Draft& draft, const LetterPath& path, const std::string& where) {
  require_own_letter(path.letter, where);
  draft.recipe.model.letters.try_emplace(path.letter[0]);
  draft.origins.try_emplace("model.letters." + path.letter, where);
}

void read_section(Draft& draft, const YAML::Node& section, const std::string& prefix, const std::string& file) {
  Origins seen;
  for (const auto& entry : section) {
    const std::string where = line_of(file, entry.first);
    MEGACPP_REQUIRE(
        entry.first.IsScalar(), E1004,
        {.where = where, .got = "a key that is no word", .wanted = "key: value", .next = "check the indentation"});
    const std::string path = prefix + entry.first.Scalar();
    const auto [first, is_new] = seen.emplace(path, where);
    MEGACPP_REQUIRE(is_new, E1004,
                    {.where = where,
                     .got = "'" + path + "' again",
                     .wanted = "each key once",
                     .next = "remove this line or the one at " + first->second});
    const LetterPath letter = letter_path(path);
    if (const Key* key = find_key(path)) {
      assign(draft, *key, entry.second, where);
    } else if (is_letter_value(letter)) {
      assign_letter(draft, letter, path, entry.second, where);
    } else if (!is_group(path, letter)) {
      refuse_unknown(path, where);
    } else if (entry.second.IsMap() || entry.second.IsNull()) {
      if (!letter.letter.empty()) define_letter(draft, letter, where);
      read_section(draft, entry.second, path + ".", file);
    } else if (path == kRecompute) {
      assign_recompute(draft, entry.second, where);
    } else {
      base::raise(base::Code::E1002, {.where = where + " " + path,
                                      .got = "a value",
                                      .wanted = "a group of keys",
                                      .next = letter.letter.empty() || !letter.setting.empty()
                                                  ? std::string("indent its keys below it")
                                                  : fmt::format("write {}: {{family: E}}", letter.letter)});
    }
  }
}

YAML::Node load_yaml(std::string_view yaml, const std::string& file) {
  return schema::load_yaml(std::string(yaml), base::Code::E1004, file);
}

void apply_override(Draft& draft, const std::string& assignment) {
  const std::string where = "--set " + assignment;
  const size_t equals = assignment.find('=');
  MEGACPP_REQUIRE(
      equals != std::string::npos && equals > 0, E1007,
      {.where = where, .got = "'" + assignment + "'", .wanted = "key=value", .next = "e.g. --set train.steps=100"});
  MEGACPP_REQUIRE(base::printable(assignment) == assignment, E1003,
                  {.where = where,
                   .got = "'" + assignment.substr(equals + 1) + "'",
                   .wanted = "text in UTF-8 without control characters",
                   .next = "remove what is shown as \\x.."});
  const std::string path = assignment.substr(0, equals);
  const std::string value = assignment.substr(equals + 1);
  const Key* key = find_key(path);
  const LetterPath letter = letter_path(path);
  if (path == kRecompute) return assign_recompute(draft, YAML::Node(value), kSetOrigin);
  if (key == nullptr && is_group(path, letter)) {
    base::raise(base::Code::E1002, {.where = where,
                                    .got = "a value for a group of keys",
                                    .wanted = "one key of " + path,
                                    .next = "write --set " + path + ".<key>=value"});
  }
  if (is_letter_value(letter)) return assign_letter(draft, letter, path, YAML::Node(value), kSetOrigin);
  if (key == nullptr) refuse_unknown(path, where);
  // Only lists need YAML's brackets; any other value is taken as it stands.
  assign(draft, *key, key->kind == Kind::list ? load_yaml(value, where) : YAML::Node(value), kSetOrigin);
}

/// A text and where it came from.
struct Text {
  std::string_view yaml;
  std::string file;
  std::string default_name;           // of a recipe that gives none
  const GivenModel* given = nullptr;  // nullptr: the text says what the model is
};

void read_keys(Draft& draft, std::string_view yaml, const std::string& file) {
  const YAML::Node root = load_yaml(yaml, file);
  MEGACPP_REQUIRE(root.IsMap(), E1004,
                  {.where = file,
                   .got = root.IsNull() ? "an empty text" : "no mapping",
                   .wanted = "key: value lines",
                   .next = "start from one of the shipped recipes"});
  read_section(draft, root, "", file);
}

Recipe parse_text(const Text& text, std::span<const std::string> overrides) {
  Draft draft;
  draft.recipe.name = text.default_name;
  if (text.given != nullptr) draft.recipe.model = text.given->model;
  read_keys(draft, text.yaml, text.file);
  for (const std::string& assignment : overrides) apply_override(draft, assignment);
  draft.recipe.model.name = draft.recipe.name;
  if (text.given != nullptr) require_given_model(draft.recipe, draft.origins, *text.given);
  if (draft.recipe.train.global_batch != 0) resolve_global_batch(draft.recipe, draft.origins);
  refuse_unknown_words(draft);
  validate(draft.recipe, draft.origins);
  draft.recipe.origins = std::move(draft.origins);
  return draft.recipe;
}

Recipe load_file(const std::filesystem::path& path, const GivenModel* given, std::span<const std::string> overrides) {
  refuse_model_folder(path);
  const std::string yaml = base::read_file(path);
  refuse_model_file(path, yaml);
  return parse_text({.yaml = yaml, .file = path.string(), .default_name = path.stem().string(), .given = given},
                    overrides);
}

}  // namespace

Recipe parse(std::string_view yaml, const std::string& file, std::span<const std::string> overrides) {
  return parse_text({.yaml = yaml, .file = file, .default_name = "unnamed"}, overrides);
}

void apply_overrides(Recipe& recipe, std::span<const std::string> overrides) {
  Draft draft;
  draft.recipe = std::move(recipe);
  for (const std::string& assignment : overrides) apply_override(draft, assignment);
  refuse_unknown_words(draft);
  for (const auto& [path, origin] : draft.origins)
    if (const Key* key = find_key(path)) validate_key(*key, draft.recipe, draft.origins);
  if (draft.recipe.train.global_batch != 0) resolve_global_batch(draft.recipe, draft.origins);
  recipe = std::move(draft.recipe);
}

Recipe load(const std::filesystem::path& path, std::span<const std::string> overrides) {
  return load_file(path, nullptr, overrides);
}

Recipe load_around(const GivenModel& given, const std::filesystem::path& path, std::span<const std::string> overrides) {
  return load_file(path, &given, overrides);
}

Recipe parse_around(const GivenModel& given, std::string_view yaml, const std::string& file,
                    std::span<const std::string> overrides) {
  return parse_text({.yaml = yaml, .file = file, .default_name = given.model.name, .given = &given}, overrides);
}

Model parse_model(std::span<const Setting> settings, const std::string& file) {
  Draft draft;
  read_keys(draft, to_yaml(settings), file);
  refuse_unknown_words(draft);
  validate_key(*find_key("model.depth"), draft.recipe, draft.origins);
  check_letters(draft.recipe, draft.origins);
  return std::move(draft.recipe.model);
}

}  // namespace megacpp::recipe
