// SPDX-License-Identifier: Apache-2.0
#include "megacpp/recipe/parse.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <limits>

#include "megacpp/base/error.h"
#include "megacpp/base/file.h"
#include "megacpp/recipe/schema.h"
#include "megacpp/recipe/validate.h"

namespace megacpp::recipe {
namespace {

/// What is being filled, and where each key came from.
struct Draft {
  Recipe recipe;
  Origins origins;
};

std::string line_of(const std::string& file, const YAML::Node& node) {
  return fmt::format("{}:{}", file, node.Mark().line + 1);
}

std::string next_for(const Key& key, const std::string& text) {
  const auto size = key.kind == Kind::bytes ? nearest_byte_size(text) : std::nullopt;
  return size ? "did you mean '" + *size + "'?" : meaning_of(key);
}

/// `text` is the scalar that was given, if one was.
[[noreturn]] void refuse_kind(const Key& key, const std::string& where, const std::string& got,
                              const std::string& text = "") {
  base::raise(base::Code::E1002, {.where = where + " " + key.path,
                                  .got = got,
                                  .wanted = std::string(kind_name(key.kind)),
                                  .next = next_for(key, text)});
}

/// A number, but none that fits 64 bits.
bool is_beyond_counting(const std::string& text) {
  int64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  return result.ec == std::errc::result_out_of_range && result.ptr == text.data() + text.size();
}

[[noreturn]] void refuse_beyond_counting(const Key& key, const std::string& where, const std::string& text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto nearest = nearest_value(key, text.starts_with('-') ? -kInfinity : kInfinity);
  base::raise(base::Code::E1003, {.where = where + " " + key.path,
                                  .got = text,
                                  .wanted = describe(key.range) + (nearest ? "" : ", in 64 bits"),
                                  .next = nearest ? "set " + key.path + ": " + *nearest : meaning_of(key)});
}

template <typename Number>
bool parse_number(const std::string& text, Number& number) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && result.ec == std::errc() && result.ptr == text.data() + text.size();
}

/// Turns one YAML scalar into the member's type; false when the text is of another kind.
struct ScalarReader {
  const std::string& text;

  bool operator()(int64_t* value) const { return parse_number(text, *value); }
  bool operator()(double* value) const {
    if (text != ".inf") return parse_number(text, *value) && text.find("n") == std::string::npos;
    *value = std::numeric_limits<double>::infinity();
    return true;
  }
  bool operator()(bool* value) const {
    *value = text == "true";
    return text == "true" || text == "false";
  }
  bool operator()(std::string* value) const {
    *value = text;
    return !text.empty();
  }
  bool operator()(std::vector<std::string>* value) const {
    *value = {text};
    return !text.empty();
  }
  bool operator()(ByteSize* value) const {
    const std::optional<ByteSize> size = parse_byte_size(text);
    if (size) *value = *size;
    return size.has_value();
  }
};

void assign_list(const Key& key, const YAML::Node& node, const std::string& where, std::vector<std::string>& list) {
  list.clear();
  for (const YAML::Node& item : node) {
    if (!item.IsScalar()) refuse_kind(key, where, "a list with an item that is no text");
    list.push_back(item.Scalar());
  }
}

void assign(Draft& draft, const Key& key, const YAML::Node& node, const std::string& where) {
  const Member member = key.member(draft.recipe);
  draft.origins[key.path] = where;
  if (node.IsSequence() && key.kind == Kind::list) {
    assign_list(key, node, where, *std::get<std::vector<std::string>*>(member));
    return;
  }
  if (!node.IsScalar()) refuse_kind(key, where, node.IsMap() ? "a group" : node.IsNull() ? "nothing" : "a list");
  const bool is_emptied = key.range.empty_allowed && node.Scalar().empty();
  if (std::visit(ScalarReader{node.Scalar()}, member) || is_emptied) return;
  if (key.kind == Kind::integer && is_beyond_counting(node.Scalar())) refuse_beyond_counting(key, where, node.Scalar());
  refuse_kind(key, where, "'" + node.Scalar() + "'", node.Scalar());
}

[[noreturn]] void refuse_unknown(const std::string& path, const std::string& where) {
  base::raise(base::Code::E1001,
              {.where = where, .got = "'" + path + "'", .wanted = "a documented key", .next = suggest_key(path)});
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
    if (const Key* key = find_key(path)) {
      assign(draft, *key, entry.second, where);
    } else if (!is_section(path)) {
      refuse_unknown(path, where);
    } else if (entry.second.IsMap()) {
      read_section(draft, entry.second, path + ".", file);
    } else {
      MEGACPP_REQUIRE(entry.second.IsNull(), E1002,
                      {.where = where + " " + path,
                       .got = "a value",
                       .wanted = "a group of keys",
                       .next = "indent its keys below it"});
    }
  }
}

YAML::Node load_yaml(std::string_view yaml, const std::string& file) {
  try {
    return YAML::Load(std::string(yaml));
  } catch (const YAML::Exception& error) {
    base::raise(base::Code::E1004, {.where = fmt::format("{}:{}", file, error.mark.line + 1),
                                    .got = error.msg,
                                    .wanted = "YAML",
                                    .next = "check the indentation and the quotes of that line"});
  }
}

void apply_override(Draft& draft, const std::string& assignment) {
  const std::string where = "--set " + assignment;
  const size_t equals = assignment.find('=');
  MEGACPP_REQUIRE(
      equals != std::string::npos && equals > 0, E1007,
      {.where = where, .got = "'" + assignment + "'", .wanted = "key=value", .next = "e.g. --set train.steps=100"});
  const std::string path = assignment.substr(0, equals);
  const std::string value = assignment.substr(equals + 1);
  const Key* key = find_key(path);
  if (key == nullptr && is_section(path)) {
    base::raise(base::Code::E1002, {.where = where,
                                    .got = "a value for a group of keys",
                                    .wanted = "one key of " + path,
                                    .next = "write --set " + path + ".<key>=value"});
  }
  if (key == nullptr) refuse_unknown(path, where);
  // Only lists need YAML's brackets; any other value is taken as it stands.
  assign(draft, *key, key->kind == Kind::list ? load_yaml(value, where) : YAML::Node(value), "--set");
}

Recipe parse_named(std::string_view yaml, const std::string& file, std::span<const std::string> overrides,
                   const std::string& default_name) {
  const YAML::Node root = load_yaml(yaml, file);
  MEGACPP_REQUIRE(root.IsMap(), E1004,
                  {.where = file,
                   .got = root.IsNull() ? "an empty text" : "no mapping",
                   .wanted = "key: value lines",
                   .next = "start from one of the shipped recipes"});
  Draft draft;
  draft.recipe.name = default_name;
  read_section(draft, root, "", file);
  for (const std::string& assignment : overrides) apply_override(draft, assignment);
  draft.recipe.model.name = draft.recipe.name;
  validate(draft.recipe, draft.origins);
  return draft.recipe;
}

}  // namespace

Recipe parse(std::string_view yaml, const std::string& file, std::span<const std::string> overrides) {
  return parse_named(yaml, file, overrides, "unnamed");
}

void apply_overrides(Recipe& recipe, std::span<const std::string> overrides) {
  Draft draft;
  draft.recipe = std::move(recipe);
  for (const std::string& assignment : overrides) apply_override(draft, assignment);
  for (const auto& [path, origin] : draft.origins) validate_key(*find_key(path), draft.recipe, draft.origins);
  recipe = std::move(draft.recipe);
}

Recipe load(const std::filesystem::path& path, std::span<const std::string> overrides) {
  return parse_named(base::read_file(path), path.string(), overrides, path.stem().string());
}

}  // namespace megacpp::recipe
