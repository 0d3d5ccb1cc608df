// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hw/yaml_reader.h"

#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "megacpp/base/error.h"
#include "megacpp/base/suggest.h"

namespace megacpp::hw {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 8> kUnits = {{{"KiB", 0x1p10},
                                                                        {"MiB", 0x1p20},
                                                                        {"GiB", 0x1p30},
                                                                        {"TiB", 0x1p40},
                                                                        {"kB", 1e3},
                                                                        {"MB", 1e6},
                                                                        {"GB", 1e9},
                                                                        {"TB", 1e12}}};
constexpr double kLargest = 1e21;
constexpr double kLargestWhole = 0x1p53;

std::string wanted_of(Unit unit) {
  switch (unit) {
    case Unit::bytes:
      return "bytes: a whole number, or one with a unit such as 32GiB or 0.5GB";
    case Unit::count:
      return "a whole number above 0";
    case Unit::ratio:
      return "a number above 0";
    case Unit::rate:
      return "a number above 0, per second: 918e12";
    case Unit::seconds:
      return "seconds, a number above 0: 1e-6";
  }
  return "";
}

/// What stands behind the number multiplies it; 0 for other words.
double factor_of(std::string_view suffix, Unit unit) {
  if (suffix.empty()) return 1;
  for (const auto& [name, factor] : kUnits)
    if (unit == Unit::bytes && suffix == name) return factor;
  return 0;
}

std::string kind_of(const YAML::Node& node) {
  if (node.IsMap()) return "a group";
  if (node.IsSequence()) return "a list";
  return node.IsScalar() ? "'" + node.Scalar() + "'" : "nothing";
}

}  // namespace

std::string YamlReader::where(const YAML::Node& node) const {
  const int line = node.Mark().line;
  return line < 0 ? file_ : file_ + ":" + std::to_string(line + 1);
}

void YamlReader::refuse(const YAML::Node& node, std::string got, std::string wanted, std::string next) const {
  base::raise(base::Code::E1603,
              {.where = where(node), .got = std::move(got), .wanted = std::move(wanted), .next = std::move(next)});
}

YAML::Node YamlReader::parse(const std::string& text) const {
  try {
    YAML::Node root = YAML::Load(text);
    require_map(root, "the file");
    return root;
  } catch (const YAML::Exception& error) {
    const std::string line = error.mark.is_null() ? "" : ":" + std::to_string(error.mark.line + 1);
    base::raise(base::Code::E1603, {.where = file_ + line,
                                    .got = error.msg,
                                    .wanted = "YAML",
                                    .next = "mend the line; docs/hardware.md has a whole file"});
  }
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

double YamlReader::number(const YAML::Node& node, const std::string& name, Unit unit) const {
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  value *= factor_of(std::string_view(text).substr(static_cast<size_t>(end - text.data())), unit);
  const bool is_whole = unit == Unit::bytes || unit == Unit::count;
  if (is_whole && end != text.data() + text.size()) value = std::floor(value);  // 79.1GiB
  const bool fits = value > 0 && value <= (is_whole ? kLargestWhole : kLargest);
  if (error != std::errc() || !fits || (is_whole && value != std::floor(value)))
    refuse(node, name + ": " + kind_of(node), wanted_of(unit), "write it as this says");
  return value;
}

void YamlReader::refuse_key(const YAML::Node& key, const std::string& section,
                            const std::vector<std::string>& known) const {
  std::string all;
  for (const std::string& word : known) all += (all.empty() ? "" : ", ") + word;
  refuse(key, "'" + key.Scalar() + "' in " + section, "one of " + all,
         base::did_you_mean(key.Scalar(), known, "remove it, or see docs/hardware.md"));
}

}  // namespace megacpp::hw
