// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/hw/chip_library.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "megacpp/core/base/environment.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/suggest.h"
#include "megacpp/hardware/hw/builtin_chips.h"
#include "megacpp/hardware/hw/chip_file.h"

namespace megacpp::hw {
namespace {

namespace fs = std::filesystem;

ChipText builtin(std::string_view name, std::string_view text) {
  return {.name = std::string(name),
          .file = "chips/" + std::string(name) + ".yaml",
          .origin = "built in",
          .text = std::string(text)};
}

ChipText from_file(const fs::path& file) {
  return {.name = file.stem().string(), .file = file.string(), .origin = file.string(), .text = base::read_file(file)};
}

/// Every text that stands for the name, the one that counts first.
std::vector<ChipText> texts_named(const std::string& name, const ChipPlaces& places) {
  std::vector<ChipText> texts;
  for (const fs::path& folder : places.folders)
    for (const char* ending : {".yaml", ".yml"}) {
      std::error_code ignored;
      if (const fs::path file = folder / (name + ending); fs::is_regular_file(file, ignored))
        texts.push_back(from_file(file));
    }
  for (const auto& [builtin_name, text] : builtin_chips())
    if (builtin_name == name) texts.push_back(builtin(builtin_name, text));
  return texts;
}

/// Chip files of a folder, sorted; none where there is no such folder.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const fs::path& entry : base::read_folder(folder).entries) {
    const fs::path ending = entry.extension();
    if ((ending == ".yaml" || ending == ".yml") && fs::is_regular_file(entry, ignored)) files.push_back(entry);
  }
  return files;
}

constexpr const char *kAliases = "aliases", *kDeviceNames = "device_names";

/// Chips by the names that a key of their files lists, those of the user's first. Reading them all takes milliseconds,
/// and only where a name is no chip's own.
std::map<std::string, std::string> chips_by(const std::string& key, const ChipPlaces& places) {
  std::map<std::string, std::string> chips;
  const auto add = [&](const ChipText& text) {
    for (const std::string& name : read_names(text, key)) chips.try_emplace(name, text.name);
  };
  for (const fs::path& folder : places.folders)
    for (const fs::path& file : files_in(folder)) {
      try {
        add(from_file(file));
      } catch (const base::Error&) {
        // Said to whoever asks for that chip.
      }
    }
  for (const auto& [name, text] : builtin_chips()) add(builtin(name, text));
  return chips;
}

std::set<std::string> all_names(const ChipPlaces& places) {
  std::set<std::string> names;
  for (const auto& [name, text] : builtin_chips()) names.insert(std::string(name));
  for (const fs::path& folder : places.folders)
    for (const fs::path& file : files_in(folder)) names.insert(file.stem().string());
  return names;
}

[[noreturn]] void refuse_unknown(const std::string& name, const std::string& where, const ChipPlaces& places) {
  std::string all;
  std::vector<std::string> known;
  for (const std::string& one : all_names(places)) {
    all += (all.empty() ? "" : ", ") + one;
    known.push_back(one);
  }
  for (const auto& [alias, chip] : chips_by(kAliases, places)) known.push_back(alias);
  known.push_back("host");
  base::raise(base::Code::E1601, {.where = where,
                                  .got = "'" + name + "'",
                                  .wanted = "one of " + all + ", host, or a file of yours",
                                  .next = base::did_you_mean(
                                      name, known, "megacpp hw lists what is known; docs/hardware.md adds a chip")});
}

/// Reads chips that may extend each other. `open` are the files being read: none of them is read again inside.
class Finder {
 public:
  explicit Finder(const ChipPlaces& places) : places_(places) {}

  Chip named(const std::string& name, const std::string& where) {
    std::vector<ChipText> texts = texts_named(name, places_);
    if (texts.empty()) {
      const auto aliases = chips_by(kAliases, places_);
      if (const auto alias = aliases.find(name); alias != aliases.end()) texts = texts_named(alias->second, places_);
    }
    if (texts.empty()) refuse_unknown(name, where, places_);
    for (const ChipText& text : texts)
      if (!open_.contains(text.file)) return read(text);
    base::raise(base::Code::E1603, {.where = where,
                                    .got = "extends: " + name + ", which extends this",
                                    .wanted = "a chip that stands without this file",
                                    .next = "extend one that is built in"});
  }

  Chip read(const ChipText& text) {
    open_.insert(text.file);
    Chip chip =
        read_chip(text, [this](const std::string& name, const std::string& where) { return named(name, where); });
    open_.erase(text.file);
    return chip;
  }

 private:
  const ChipPlaces& places_;
  std::set<std::string> open_;
};

}  // namespace

ChipPlaces ChipPlaces::current() {
  ChipPlaces places;
  std::istringstream folders(base::environment_variable("MEGACPP_HW_PATH"));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!folder.empty()) places.folders.push_back(folder);
  const std::string config = base::environment_variable("XDG_CONFIG_HOME"), home = base::environment_variable("HOME");
  if (!config.empty()) places.folders.push_back(fs::path(config) / "megacpp/hw");
  if (config.empty() && !home.empty()) places.folders.push_back(fs::path(home) / ".config/megacpp/hw");
  return places;
}

bool names_file(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".yaml") || text.ends_with(".yml");
}

Chip find_chip(const std::string& name, const ChipPlaces& places) {
  Finder finder(places);
  return names_file(name) ? finder.read(from_file(name)) : finder.named(name, "hardware '" + name + "'");
}

std::optional<Chip> find_chip_of_device(const std::string& device_name, const ChipPlaces& places) {
  const std::map<std::string, std::string> chips = chips_by(kDeviceNames, places);
  const auto found = chips.find(device_name);
  if (found == chips.end()) return std::nullopt;
  return find_chip(found->second, places);
}

std::vector<ListedChip> all_chips(const ChipPlaces& places) {
  std::vector<ListedChip> chips;
  for (const std::string& name : all_names(places)) {
    chips.push_back({.name = name});
    try {
      chips.back().chip = find_chip(name, places);
    } catch (const base::Error& error) {
      if (base::class_of(error.code()) == base::ErrorClass::internal) throw;
      chips.back().why_not = error;
    }
  }
  return chips;
}

}  // namespace megacpp::hw
