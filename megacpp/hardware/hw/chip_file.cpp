// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/hw/chip_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>

#include <yaml-cpp/yaml.h>

#include "megacpp/core/base/suggest.h"
#include "megacpp/core/schema/next_for_kind.h"
#include "megacpp/hardware/hw/chip_keys.h"
#include "megacpp/hardware/hw/yaml_reader.h"

namespace megacpp::hw {
namespace {

using schema::Kind;
using Words = std::vector<std::string>;

// Beside the keys of the table: they are no values of a chip.
const Words kOtherSections = {"extends", "sources", "links"};

struct Source {
  std::string text;
  std::string date;
};

bool is_date(const std::string& text) {  // 2026-11-15
  const auto fits = [&](size_t i) { return i == 4 || i == 7 ? text[i] == '-' : text[i] >= '0' && text[i] <= '9'; };
  for (size_t i = 0; i < text.size(); ++i)
    if (i >= 10 || !fits(i)) return false;
  return text.size() == 10;
}

/// Whole numbers may also be written as 103e9.
bool read_whole(const std::string& text, int64_t& whole) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && end == text.data() + text.size() && number == std::floor(number) &&
                        std::abs(number) <= 0x1p53;
  if (is_whole) whole = static_cast<int64_t>(number);
  return is_whole;
}

bool read_value(const std::string& text, Kind kind, FileValue& value) {
  if (schema::read_scalar(text, value.member(kind))) return true;
  if (kind == Kind::integer) return read_whole(text, value.integer);
  return kind == Kind::bytes && read_whole(text, value.bytes.bytes);
}

/// "a number above 0", "tpu or gpu", "a number of bytes: ...".
std::string wanted_of(const schema::KeySpec& key) {
  const std::string range = schema::describe(key.range), kind(schema::kind_name(key.kind));
  if (key.kind == Kind::bytes || range.empty()) return kind;
  return key.range.choices.empty() ? kind + " " + range : range;
}

class ChipReader {
 public:
  ChipReader(const ChipText& file, const FindChip& find) : file_(file), find_(find), yaml_(file.file) {}

  Chip read() {
    const YAML::Node root = yaml_.parse(file_.text);
    if (const YAML::Node base = root["extends"]) chip_ = find_(yaml_.word(base, "extends"), yaml_.where(base));
    is_complete_ = !root["extends"];
    chip_.name = file_.name;
    chip_.origin = file_.origin;
    chip_.aliases.clear();
    chip_.device_names.clear();
    if (is_complete_) chip_.plugin_name = file_.name;
    if (const YAML::Node sources = root["sources"]) read_sources(sources);
    read_section(root, "", {file_.file, ""});
    validate(root);
    return chip_;
  }

 private:
  /// `section` is "" for the file; `around` is the source for what names none itself.
  void read_section(const YAML::Node& node, const std::string& section, const Source& around) {
    yaml_.require_map(node, section.empty() ? "the file" : section);
    const Source source = node["source"] && !section.empty() ? source_of(node) : around;
    for (const auto& entry : node) {
      const std::string& word = entry.first.Scalar();
      const std::string path = section.empty() ? word : section + "." + word;
      if (const FileKey* key = find_chip_key(path)) {
        assign(*key, path, chip_, {entry.second, source});
      } else if (!words_of(path).empty()) {
        read_section(entry.second, path, source);
      } else if (path == "links") {
        read_links(entry.second);
      } else if (section.empty() ? !is_other_section(word) : word != "source") {
        refuse_key(entry.first, section);
      }
    }
  }

  static bool is_other_section(const std::string& word) {
    return std::find(kOtherSections.begin(), kOtherSections.end(), word) != kOtherSections.end();
  }

  [[noreturn]] void refuse_key(const YAML::Node& key, const std::string& section) const {
    const std::string& word = key.Scalar();
    if (find_chip_key("xla." + word) != nullptr)
      yaml_.refuse(key, "'" + word + "' in " + section, "it in the section xla",
                   "write it as xla: {" + word + ": ...}");
    Words known = words_of(section);
    if (section.empty()) {
      known.insert(known.end(), kOtherSections.begin(), kOtherSections.end());
    } else {
      known.push_back("source");
    }
    yaml_.refuse_key(key, section.empty() ? "the file" : section, known);
  }

  void read_sources(const YAML::Node& node) {
    yaml_.require_map(node, "sources");
    for (const auto& entry : node) {
      const std::string name = "sources." + entry.first.Scalar();
      yaml_.require_map(entry.second, name);
      Source source;
      for (const auto& part : entry.second) {
        if (part.first.Scalar() == "text") {
          source.text = yaml_.word(part.second, name + ".text");
        } else if (part.first.Scalar() == "date") {
          source.date = yaml_.word(part.second, name + ".date");
          if (!is_date(source.date))
            yaml_.refuse(part.second, "'" + source.date + "'", "a date such as 2026-11-15",
                         "write the day it was read");
        } else {
          yaml_.refuse_key(part.first, name, {"text", "date"});
        }
      }
      if (source.text.empty() || source.date.empty())
        yaml_.refuse(entry.first, name + " without " + (source.text.empty() ? "text" : "date"),
                     "{text: where the numbers are from, date: 2026-11-15}", "add what is missing");
      sources_[entry.first.Scalar()] = source;
    }
  }

  /// The source that the key `source` of a group names.
  Source source_of(const YAML::Node& group) const {
    const YAML::Node key = group["source"];
    const auto found = sources_.find(yaml_.word(key, "source"));
    if (found != sources_.end()) return found->second;
    Words known;
    for (const auto& [name, source] : sources_) known.push_back(name);
    yaml_.refuse(key, "source: '" + key.Scalar() + "'", "a name listed under sources",
                 base::did_you_mean(key.Scalar(), known, "add it to sources, with its text and date"));
  }

  void add_fact(const std::string& name, const std::string& value, const Source& source) {
    const Fact fact{name, value, source.text, source.date};
    for (Fact& known : chip_.facts)
      if (known.name == name) {
        known = fact;
        return;
      }
    chip_.facts.push_back(fact);
  }

  struct Given {
    YAML::Node node;
    Source source;
  };

  /// What `{value: ..., source: ...}` holds of a fact, which may also be given plainly.
  Given given_of(const std::string& path, const Given& given) const {
    if (!given.node.IsMap()) return given;
    yaml_.require_map(given.node, path);
    for (const auto& part : given.node)
      if (part.first.Scalar() != "value" && part.first.Scalar() != "source")
        yaml_.refuse_key(part.first, path, {"value", "source"});
    if (!given.node["value"])
      yaml_.refuse(given.node, path + " without value", "{value: ..., source: ...}", "add the value");
    return {given.node["value"], given.node["source"] ? source_of(given.node) : given.source};
  }

  template <typename Record>
  void assign(const FileKey& key, const std::string& path, Record& record, const Given& written) {
    const Given given = key.is_fact ? given_of(path, written) : written;
    FileValue value;
    std::string text;
    if (key.kind == Kind::list) {
      value.list = yaml_.words(given.node, path);
      for (const std::string& item : value.list) text += (text.empty() ? "" : " ") + item;
    } else {
      text = given.node.IsScalar() ? given.node.Scalar() : "";
      if (!read_value(text, key.kind, value)) refuse_value(key, path, given.node, schema::next_for_kind(key, text));
      if (!schema::contains(key.range, value.member(key.kind)))
        refuse_value(key, path, given.node, schema::next_step(key, value.member(key.kind)));
    }
    if (!store(record, key, value)) refuse_value(key, path, given.node, schema::meaning_of(key));
    if (key.is_fact) add_fact(path, text, given.source);
  }

  [[noreturn]] void refuse_value(const schema::KeySpec& key, const std::string& path, const YAML::Node& node,
                                 std::string next) const {
    yaml_.refuse(node, path + ": " + yaml_.kind_of(node), wanted_of(key), std::move(next));
  }

  /// The link of that name, new or inherited.
  Link& link_named(const std::string& name) {
    for (Link& link : chip_.links)
      if (link.name == name) return link;
    chip_.links.push_back({.name = name});
    return chip_.links.back();
  }

  void read_links(const YAML::Node& node) {
    if (!node.IsSequence())
      yaml_.refuse(node, "links is no list", "- {name: ici, scope: slice, ...}", "put a dash before each link");
    for (const YAML::Node& item : node) read_link(item);
  }

  void read_link(const YAML::Node& item) {
    yaml_.require_map(item, "a link");
    if (!item["name"]) yaml_.refuse(item, "a link without name", "name: ici", "name it");
    const Source source = item["source"] ? source_of(item) : Source{file_.file, ""};
    const std::string name = yaml_.word(item["name"], "name");
    Link& link = link_named(name);
    for (const auto& entry : item) {
      const std::string& word = entry.first.Scalar();
      Words known = {"source"};
      const FileKey* key = nullptr;
      for (const FileKey& each : link_keys()) {
        if (each.path == word) key = &each;
        known.push_back(each.path);
      }
      if (key != nullptr) assign(*key, "links." + name + "." + word, link, {entry.second, source});
      if (key == nullptr && word != "source") yaml_.refuse_key(entry.first, "link " + name, known);
    }
    if (link.bytes_per_second <= 0)
      yaml_.refuse(item, "link " + name + " without bytes_per_second", "bytes a second in one direction", "add them");
  }

  void require(const YAML::Node& root, bool holds, const char* got, const char* wanted, const char* next) const {
    if (!holds) yaml_.refuse(root, got, wanted, next);
  }

  void validate(const YAML::Node& root) const {
    const SliceRules& rules = chip_.slices;
    require(root, !is_complete_ || root["kind"], "no kind", "kind: tpu or kind: gpu", "add it, or extend a chip");
    require(root, chip_.nominal_bytes > 0, "no memory.nominal", "bytes of a chip", "add it, or extend a chip");
    require(root, chip_.usable_bytes > 0, "no memory.usable", "bytes a program may use", "add it, or extend a chip");
    require(root, chip_.usable_bytes <= chip_.nominal_bytes, "memory.usable above memory.nominal", "less or the same",
            "mend one of the two");
    const CompiledByXla& xla = chip_.xla;
    require(root, xla.code_least <= xla.code_most, "xla.code_least above xla.code_most", "less or the same",
            "mend one of the two");
    require(root, (xla.off_most > 0) == (xla.unrolled_off_most > 0), "xla.off_most or xla.unrolled_off_most alone",
            "both or none: the rule says something of either", "add the other one");
    require(root, chip_.memory_bytes_per_second > 0, "no memory.bandwidth", "bytes a second", "add it");
    require(root, !chip_.peak_flops.empty(), "no rate under compute", "at least bf16 or f32", "add one");
    validate_reached(root, "reached", chip_.reached);
    for (const auto& [backend, reached] : chip_.reached_by) {
      const std::string section = "reached." + backend;
      validate_reached(root, section, reached);
      if (!reached.is_known())
        yaml_.refuse(root, section + " without its rates", section + ".products and " + section + ".traffic",
                     "add them: nothing of reached holds for that backend then");
    }
    require(root, chip_.tiling.exists() == (chip_.tiling.rows.size() == 3), "tiles are not whole",
            "lanes, and rows for 8, 16 and 32 bits", "add what is missing");
    require(root, !rules.host.empty(), "no slices.host", "chips of a host, such as 2x2 or 8", "add it");
    require(root, rules.shape != SliceShape::nodes || rules.host.size() == 1, "nodes with a host of several dimensions",
            "slices.host: 8", "give the chips of a node");
    require(root, rules.shape != SliceShape::torus || rules.block > 0 || !rules.valid.empty(), "a torus without slices",
            "slices.valid: [2x2, 4x4]", "list them");
    require(root, rules.block == 0 || rules.largest > 0, "slices.block without slices.largest",
            "chips of the largest slice", "add it");
    for (const Sizes& slice : rules.valid)
      require(root, slice.size() == rules.host.size(), "slices.valid and slices.host of different dimensions",
              "as many numbers in each", "mend one of them");
  }

  /// Of all lanes, or of one.
  void validate_reached(const YAML::Node& root, const std::string& section, const Reached& reached) const {
    const auto check = [&](bool holds, const std::string& got, const std::string& wanted, const char* next) {
      if (!holds) yaml_.refuse(root, got, wanted, next);
    };
    check((reached.products > 0) == (reached.traffic > 0), section + ".products or " + section + ".traffic alone",
          "both or none: a step has products and other work", "add the other one");
    check((reached.step_least > 0) == (reached.step_most > 0) && reached.step_least <= reached.step_most,
          section + ".step_least without or above " + section + ".step_most", "both, the least first",
          "mend one of the two");
    for (const auto& [key, value] :
         {std::pair{".step_most", reached.step_most}, {".beside_collectives", reached.beside_collectives}})
      check(value == 0 || reached.is_known(), section + key + " without the rates it is about",
            section + ".products and " + section + ".traffic", "add them");
  }

  const ChipText& file_;
  const FindChip& find_;
  YamlReader yaml_;
  Chip chip_;
  bool is_complete_ = true;
  std::map<std::string, Source> sources_;
};

}  // namespace

Chip read_chip(const ChipText& file, const FindChip& find) { return ChipReader(file, find).read(); }

std::vector<std::string> read_names(const ChipText& file, const std::string& key) {
  const YamlReader yaml(file.file);
  const YAML::Node root = yaml.parse(file.text), names = root[key];
  return names ? yaml.words(names, key) : Words{};
}

}  // namespace megacpp::hw
