// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/entry_notes.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/hardware/hw/slice.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/processor.h"
#include "megacpp/program/blocks/block.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/launch/build.h"

namespace megacpp::launch {
namespace {

/// Words of signatures that are named otherwise in a recipe.
struct FeatureKey {
  std::string_view word;
  std::string_view key;
};
constexpr FeatureKey kFeatureKeys[] = {{"optimizer=", "optimizer.name="},
                                       {"placement=", "xla.placement="},
                                       {"attention=", "xla.attention="},
                                       {"loops=", "xla.loops="}};

/// Distinct lines, in the order they came.
class Notes {
 public:
  void add(std::string note) {
    if (std::find(lines_.begin(), lines_.end(), note) == lines_.end()) lines_.push_back(std::move(note));
  }
  /// Where this build refuses to set a key so.
  void check_setting(const std::string& assignment) {
    recipe::Recipe recipe;
    try {
      recipe::apply_overrides(recipe, std::vector<std::string>{assignment});
    } catch (const base::Error& error) {
      add(fmt::format("names {}, which this build does not have: {}", assignment, error.problem().got));
    }
  }
  void check_settings(const std::string& section, const std::string& words) {
    std::istringstream text(words);
    for (std::string word; text >> word;)
      if (word.find('=') != std::string::npos) check_setting(section + word);
  }

  std::vector<std::string> lines() && { return std::move(lines_); }

 private:
  std::vector<std::string> lines_;
};

void check_hardware(const std::string& hardware, const std::vector<runtime::Platform>& platforms, Notes& notes) {
  const std::string target = hardware.substr(0, hardware.find(' '));
  const std::string chip = target.substr(0, target.find(':'));
  if (chip.empty() || chip == "host" || std::ranges::count(platforms, chip, &runtime::Platform::name) > 0) return;
  try {
    hw::parse_target(target);
  } catch (const base::Error& error) {
    notes.add(fmt::format("names the hardware {}, which this build does not have: {}", target, error.problem().got));
  }
}

/// Letters of the recipe's own stand among the features with their families; entries of older builds lack them.
void check_families(const catalog::Signature& signature, Notes& notes) {
  constexpr std::string_view kRecompute = "recompute.", kLetter = "letter.";
  const auto letter_of = [](const std::string& word, std::string_view prefix) {
    return word.starts_with(prefix) && word.size() > prefix.size() ? word[prefix.size()] : char{0};
  };
  const auto is_known = [](char letter) { return blocks::find_block(letter) != nullptr; };
  std::string own;
  std::istringstream features(signature.features), shape(signature.shape);
  for (std::string word; features >> word;)
    if (const char letter = letter_of(word, kLetter); letter != 0) {
      own += letter;
      if (!is_known(word.back()))
        notes.add(fmt::format("names model.letters.{}, of a block family that this build does not have: {}", letter,
                              word.back()));
    }
  for (std::string word; shape >> word;)
    if (const char letter = letter_of(word, kRecompute);
        letter != 0 && !is_known(letter) && own.find(letter) == std::string::npos)
      notes.add(
          fmt::format("names train.{}, a letter of its recipe or a block family that this build does not have", word));
}

void check_features(const std::string& features, Notes& notes) {
  std::istringstream text(features);
  for (std::string word; text >> word;)
    for (const FeatureKey& feature : kFeatureKeys)
      if (word.starts_with(feature.word))
        notes.check_setting(std::string(feature.key) + word.substr(feature.word.size()));
}

}  // namespace

std::vector<runtime::Platform> all_platforms() {
  std::vector<runtime::Platform> all;
  for (const runtime::Backend& backend : runtime::all_backends()) {
    all.insert(all.end(), backend.platforms.begin(), backend.platforms.end());
    if (backend.platforms.empty() && backend.device_name)  // devices of its own, with a driver and libraries below it
      all.push_back({.name = backend.name, .identity = [&backend] { return backend.identity({}); }});
  }
  return all;
}

ThisBuild::ThisBuild(std::vector<runtime::Platform> platforms)
    : platforms_(std::move(platforms)), processor_(runtime::this_processor().name()) {}

bool ThisBuild::has_platform(const std::string& identity) const {
  for (size_t i = 0; i < platforms_.size(); ++i) {
    if (i == identities_.size()) identities_.push_back(platforms_[i].identity());
    if (identities_[i] == identity) return true;
  }
  return false;
}

bool ThisBuild::wrote(const catalog::Signature& signature) const {
  const catalog::Build& build = signature.build;
  if (build.code_version != code_version()) return false;
  if (!build.processor.empty() && build.processor != processor_) return false;
  return build.platform.empty() || has_platform(build.platform);
}

std::vector<std::string> ThisBuild::notes_of(const catalog::Entry& entry) const {
  const catalog::Signature& signature = entry.signature;
  Notes notes;
  if (!wrote(signature))
    notes.add(fmt::format("learnt by another build or machine ({}): a launch estimates again before it trusts this",
                          catalog::to_text(signature.build)));
  check_hardware(signature.hardware, platforms_, notes);
  notes.check_settings("layout.", signature.layout);
  notes.check_settings("train.", signature.shape);
  check_families(signature, notes);
  check_features(signature.features, notes);
  for (const catalog::Sample& sample : entry.samples)
    notes.check_setting("backend=" + sample.lane.substr(0, sample.lane.find(' ')));
  for (const catalog::Start& start : entry.starts)
    for (const auto& [key, value] : start.settings) notes.check_setting(key + "=" + value);
  return std::move(notes).lines();
}

}  // namespace megacpp::launch
