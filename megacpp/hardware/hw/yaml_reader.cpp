// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/hw/yaml_reader.h"

#include <set>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/suggest.h"
#include "megacpp/core/schema/yaml_text.h"

namespace megacpp::hw {
std::string YamlReader::kind_of(const YAML::Node& node) {
  if (node.IsMap()) return "a group";
  if (node.IsSequence()) return "a list";
  return node.IsScalar() ? "'" + node.Scalar() + "'" : "nothing";
}

std::string YamlReader::where(const YAML::Node& node) const {
  const int line = node.Mark().line;
  return line < 0 ? file_ : file_ + ":" + std::to_string(line + 1);
}

void YamlReader::refuse(const YAML::Node& node, std::string got, std::string wanted, std::string next) const {
  base::raise(base::Code::E1603,
              {.where = where(node), .got = std::move(got), .wanted = std::move(wanted), .next = std::move(next)});
}

YAML::Node YamlReader::parse(const std::string& text) const {
  YAML::Node root = schema::load_yaml(text, base::Code::E1603, file_);
  require_map(root, "the file");
  return root;
}

void YamlReader::require_map(const YAML::Node& node, const std::string& name) const {
  if (!node.IsMap())
    refuse(node, name + " is " + kind_of(node), "lines of key: value", "see the file in docs/hardware.md");
  std::set<std::string> seen;
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) refuse(entry.first, "a key that is no word", "key: value", "check the indentation");
    if (!seen.insert(entry.first.Scalar()).second)
      refuse(entry.first, "'" + entry.first.Scalar() + "' again", "each key once", "remove one of the two");
  }
}

std::string YamlReader::word(const YAML::Node& node, const std::string& name) const {
  if (!node.IsScalar() || node.Scalar().empty())
    refuse(node, name + " is " + kind_of(node), "a word", "write it behind the colon");
  return node.Scalar();
}

std::vector<std::string> YamlReader::words(const YAML::Node& node, const std::string& name) const {
  if (!node.IsSequence()) refuse(node, name + " is " + kind_of(node), "a list", "write [one, two]");
  std::vector<std::string> words;
  for (const YAML::Node& item : node) words.push_back(word(item, name));
  return words;
}

void YamlReader::refuse_key(const YAML::Node& key, const std::string& section,
                            const std::vector<std::string>& known) const {
  std::string all;
  for (const std::string& word : known) all += (all.empty() ? "" : ", ") + word;
  refuse(key, "'" + key.Scalar() + "' in " + section, "one of " + all,
         base::did_you_mean(key.Scalar(), known, "remove it, or see docs/hardware.md"));
}

}  // namespace megacpp::hw
