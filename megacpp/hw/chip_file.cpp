// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hw/chip_file.h"

#include <algorithm>
#include <charconv>

#include <yaml-cpp/yaml.h>

#include "megacpp/base/suggest.h"
#include "megacpp/hw/yaml_reader.h"

namespace megacpp::hw {
namespace {

using Words = std::vector<std::string>;

const Words kPeaks = {"bf16", "f16", "tf32", "f32", "f8", "int8"};

/// Keys of the section `memory`, and where they go.
struct MemoryKey {
  std::string name;
  Unit unit;
  void (*set)(Chip& chip, double value);
};
const std::vector<MemoryKey> kMemory = {
    {"nominal", Unit::bytes, [](Chip& chip, double value) { chip.nominal_bytes = static_cast<int64_t>(value); }},
    {"usable", Unit::bytes, [](Chip& chip, double value) { chip.usable_bytes = static_cast<int64_t>(value); }},
    {"reserved", Unit::bytes, [](Chip& chip, double value) { chip.reserved_bytes = static_cast<int64_t>(value); }},
    {"alignment", Unit::bytes, [](Chip& chip, double value) { chip.alignment = static_cast<int64_t>(value); }},
    {"bandwidth", Unit::rate, [](Chip& chip, double value) { chip.memory_bytes_per_second = value; }},
    {"code_least", Unit::bytes, [](Chip& chip, double value) { chip.code_bytes_least = static_cast<int64_t>(value); }},
    {"code_most", Unit::bytes, [](Chip& chip, double value) { chip.code_bytes_most = static_cast<int64_t>(value); }},
    {"gaps_most", Unit::ratio, [](Chip& chip, double value) { chip.gaps_most = value; }},
};

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
    if (is_complete_) chip_.plugin_name = file_.name;
    if (const YAML::Node sources = root["sources"]) read_sources(sources);
    for (const auto& entry : root) read_entry(entry.first, entry.second);
    validate(root);
    return chip_;
  }

 private:
  void read_entry(const YAML::Node& key, const YAML::Node& node) {
    const std::string& name = key.Scalar();
    if (name == "extends" || name == "sources") return;
    if (name == "title") {
      chip_.title = yaml_.word(node, name);
    } else if (name == "plugin_name") {
      chip_.plugin_name = yaml_.word(node, name);
    } else if (name == "aliases") {
      chip_.aliases = yaml_.words(node, name);
    } else if (name == "kind") {
      chip_.kind = chosen(node, name, {"tpu", "gpu"}) == 0 ? ChipKind::tpu : ChipKind::gpu;
    } else if (name == "memory") {
      read_memory(node);
    } else if (name == "compute") {
      read_compute(node);
    } else if (name == "tiles") {
      read_tiles(node);
    } else if (name == "links") {
      read_links(node);
    } else if (name == "slices") {
      read_slices(node);
    } else {
      yaml_.refuse_key(key, "the file",
                       {"title", "kind", "extends", "aliases", "plugin_name", "sources", "memory", "compute", "tiles",
                        "links", "slices"});
    }
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

  /// The place of a word among those allowed.
  size_t chosen(const YAML::Node& node, const std::string& name, const Words& allowed) const {
    const std::string word = yaml_.word(node, name);
    const auto found = std::find(allowed.begin(), allowed.end(), word);
    std::string all;
    for (const std::string& one : allowed) all += (all.empty() ? "" : " or ") + one;
    if (found == allowed.end())
      yaml_.refuse(node, name + ": '" + word + "'", all, base::did_you_mean(word, allowed, "take one of these"));
    return static_cast<size_t>(found - allowed.begin());
  }

  /// The source that stands for a whole section. The file itself, without a date, where none is named.
  Source source_of(const YAML::Node& section) const {
    const YAML::Node key = section["source"];
    if (!key) return {file_.file, ""};
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

  /// A number, plain or as {value: ..., source: ...}.
  double number(const YAML::Node& node, const std::string& name, Unit unit, const Source& section) {
    if (!node.IsMap()) {
      const double value = yaml_.number(node, name, unit);
      add_fact(name, node.Scalar(), section);
      return value;
    }
    yaml_.require_map(node, name);
    for (const auto& part : node)
      if (part.first.Scalar() != "value" && part.first.Scalar() != "source")
        yaml_.refuse_key(part.first, name, {"value", "source"});
    if (!node["value"]) yaml_.refuse(node, name + " without value", "{value: ..., source: ...}", "add the value");
    const double value = yaml_.number(node["value"], name, unit);
    add_fact(name, node["value"].Scalar(), node["source"] ? source_of(node) : section);
    return value;
  }

  void read_memory(const YAML::Node& node) {
    yaml_.require_map(node, "memory");
    const Source source = source_of(node);
    Words names = {"source"};
    for (const MemoryKey& key : kMemory) names.push_back(key.name);
    for (const auto& entry : node) {
      const std::string& name = entry.first.Scalar();
      if (name == "source") continue;
      const auto key = std::find_if(kMemory.begin(), kMemory.end(), [&](const MemoryKey& k) { return k.name == name; });
      if (key == kMemory.end()) yaml_.refuse_key(entry.first, "memory", names);
      key->set(chip_, number(entry.second, "memory." + name, key->unit, source));
    }
  }

  void read_compute(const YAML::Node& node) {
    yaml_.require_map(node, "compute");
    const Source source = source_of(node);
    for (const auto& entry : node) {
      const std::string& name = entry.first.Scalar();
      if (name == "source") continue;
      if (name == "devices") {
        chip_.devices = static_cast<int64_t>(number(entry.second, "compute.devices", Unit::count, source));
      } else if (std::find(kPeaks.begin(), kPeaks.end(), name) != kPeaks.end()) {
        chip_.peak_flops[name] = number(entry.second, "compute." + name, Unit::rate, source);
      } else {
        Words names = {"source", "devices"};
        names.insert(names.end(), kPeaks.begin(), kPeaks.end());
        yaml_.refuse_key(entry.first, "compute", names);
      }
    }
  }

  void read_rows(const YAML::Node& node, const std::string& name, const Source& source, std::map<int, int64_t>& rows) {
    yaml_.require_map(node, name);
    for (const auto& entry : node) {
      const std::string& bits = entry.first.Scalar();
      if (bits != "8" && bits != "16" && bits != "32") yaml_.refuse_key(entry.first, name, {"8", "16", "32"});
      rows[std::stoi(bits)] = static_cast<int64_t>(number(entry.second, name + "." + bits, Unit::count, source));
    }
  }

  void read_tiles(const YAML::Node& node) {
    yaml_.require_map(node, "tiles");
    const Source source = source_of(node);
    for (const auto& entry : node) {
      const std::string& name = entry.first.Scalar();
      if (name == "source") continue;
      if (name == "lanes") {
        chip_.tiling.lanes = static_cast<int64_t>(number(entry.second, "tiles.lanes", Unit::count, source));
      } else if (name == "rows") {
        read_rows(entry.second, "tiles.rows", source, chip_.tiling.rows);
      } else if (name == "tall_rows") {
        read_rows(entry.second, "tiles.tall_rows", source, chip_.tiling.tall_rows);
      } else {
        yaml_.refuse_key(entry.first, "tiles", {"source", "lanes", "rows", "tall_rows"});
      }
    }
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
    for (const YAML::Node& item : node) {
      yaml_.require_map(item, "a link");
      if (!item["name"]) yaml_.refuse(item, "a link without name", "name: ici", "name it");
      const Source source = source_of(item);
      const std::string name = yaml_.word(item["name"], "name"), prefix = "links." + name + ".";
      Link& link = link_named(name);
      for (const auto& entry : item) {
        const std::string& key = entry.first.Scalar();
        if (key == "name" || key == "source") continue;
        if (key == "scope") {
          link.scope = static_cast<LinkScope>(chosen(entry.second, prefix + key, {"slice", "node", "cluster"}));
        } else if (key == "bytes_per_second") {
          link.bytes_per_second = number(entry.second, prefix + key, Unit::rate, source);
        } else if (key == "ports") {
          link.ports = static_cast<int64_t>(number(entry.second, prefix + key, Unit::count, source));
        } else if (key == "latency") {
          link.latency = number(entry.second, prefix + key, Unit::seconds, source);
        } else {
          yaml_.refuse_key(entry.first, "link " + name,
                           {"name", "scope", "source", "bytes_per_second", "ports", "latency"});
        }
      }
      if (link.bytes_per_second <= 0)
        yaml_.refuse(item, "link " + name + " without bytes_per_second", "bytes a second in one direction", "add them");
    }
  }

  Sizes sizes(const YAML::Node& node, const std::string& name) const {
    const std::string text = yaml_.word(node, name);
    const std::optional<Sizes> sizes = read_sizes(text);
    if (!sizes)
      yaml_.refuse(node, name + ": '" + text + "'", "chips along each dimension, such as 4x8", "write numbers and x");
    return *sizes;
  }

  void read_slices(const YAML::Node& node) {
    yaml_.require_map(node, "slices");
    const Source source = source_of(node);
    SliceRules& rules = chip_.slices;
    for (const auto& entry : node) {
      const std::string& key = entry.first.Scalar();
      const std::string name = "slices." + key;
      if (key == "source") continue;
      if (key == "shape") {
        rules.shape = chosen(entry.second, name, {"torus", "nodes"}) == 0 ? SliceShape::torus : SliceShape::nodes;
      } else if (key == "valid") {
        read_valid(entry.second, source);
      } else if (key == "host") {
        rules.host = sizes(entry.second, name);
        add_fact(name, entry.second.Scalar(), source);
      } else if (key == "block") {
        rules.block = static_cast<int64_t>(number(entry.second, name, Unit::count, source));
      } else if (key == "largest") {
        rules.largest = static_cast<int64_t>(number(entry.second, name, Unit::count, source));
      } else if (key == "ring_multiple") {
        rules.ring_multiple = static_cast<int64_t>(number(entry.second, name, Unit::count, source));
      } else if (key == "rings_need_all") {
        rules.rings_need_all = chosen(entry.second, name, {"false", "true"}) == 1;
      } else {
        yaml_.refuse_key(entry.first, "slices",
                         {"source", "shape", "valid", "host", "block", "largest", "ring_multiple", "rings_need_all"});
      }
    }
  }

  void read_valid(const YAML::Node& node, const Source& source) {
    if (!node.IsSequence()) yaml_.refuse(node, "slices.valid is no list", "[2x2, 4x4]", "write a list");
    chip_.slices.valid.clear();
    std::string text;
    for (const YAML::Node& item : node) {
      chip_.slices.valid.push_back(sizes(item, "slices.valid"));
      text += (text.empty() ? "" : " ") + item.Scalar();
    }
    add_fact("slices.valid", text, source);
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
    require(root, chip_.code_bytes_least <= chip_.code_bytes_most, "memory.code_least above memory.code_most",
            "less or the same", "mend one of the two");
    require(root, chip_.gaps_most >= 1, "memory.gaps_most below 1", "1 or more", "mend it");
    require(root, chip_.memory_bytes_per_second > 0, "no memory.bandwidth", "bytes a second", "add it");
    require(root, !chip_.peak_flops.empty(), "no rate under compute", "at least bf16 or f32", "add one");
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

  const ChipText& file_;
  const FindChip& find_;
  YamlReader yaml_;
  Chip chip_;
  bool is_complete_ = true;
  std::map<std::string, Source> sources_;
};

}  // namespace

Chip read_chip(const ChipText& file, const FindChip& find) { return ChipReader(file, find).read(); }

std::vector<std::string> read_aliases(const ChipText& file) {
  const YamlReader yaml(file.file);
  const YAML::Node aliases = yaml.parse(file.text)["aliases"];
  return aliases ? yaml.words(aliases, "aliases") : Words{};
}

}  // namespace megacpp::hw
