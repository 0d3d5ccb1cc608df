// SPDX-License-Identifier: Apache-2.0
// Pieces of a chip file with their lines: maps, words, lists, and errors that say where.
#pragma once

#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

namespace megacpp::hw {

class YamlReader {
 public:
  explicit YamlReader(std::string file) : file_(std::move(file)) {}

  const std::string& file() const { return file_; }
  std::string where(const YAML::Node& node) const;  // "my-chip.yaml:12"
  /// "a list", "nothing", or the scalar in quotes: for messages.
  static std::string kind_of(const YAML::Node& node);
  /// E1603.
  [[noreturn]] void refuse(const YAML::Node& node, std::string got, std::string wanted, std::string next) const;

  /// The whole text as a map; E1603 for text that is no YAML or no map.
  YAML::Node parse(const std::string& text) const;
  /// E1603 for anything but a map whose keys are each there once.
  void require_map(const YAML::Node& node, const std::string& name) const;
  std::string word(const YAML::Node& node, const std::string& name) const;
  std::vector<std::string> words(const YAML::Node& node, const std::string& name) const;
  /// With the nearest of the known keys.
  [[noreturn]] void refuse_key(const YAML::Node& key, const std::string& section,
                               const std::vector<std::string>& known) const;

 private:
  std::string file_;
};

}  // namespace megacpp::hw
