// SPDX-License-Identifier: Apache-2.0
// The configurations of the golden files, one of each class and option that is tested, with members changed.
#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/run/checkpoint/safetensors.h"
#include "tests/fuzz/hf_check.h"
#include "tests/fuzz/json_tree.h"

namespace megacpp::fuzz {
namespace {

/// As config.json has them: with the class among the members. In the order of the files' names.
std::vector<base::Json> golden_configs() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(MEGACPP_SOURCE_DIR "/tests/golden/models"))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<base::Json> configs;
  for (const std::filesystem::path& file : files) {
    const std::string meta = checkpoint::SafetensorsFile(file).metadata().at("meta");
    const base::Json json = base::parse_json(meta, base::Code::E1202, file.string());
    base::Json config = json.at("config");
    config["architectures"] = base::Json::array({json.at("cls")});
    configs.push_back(std::move(config));
  }
  return configs;
}

void read_changed_config(Bytes input) {
  static const std::vector<base::Json> kConfigs = golden_configs();
  Choices choices(input);
  base::Json config = choices.any_of(kConfigs);
  change_tree(config, choices);
  read_hf_config(base::to_text(config));
}

}  // namespace

Target hf_config_keys_target() {
  return {.name = "hf_config_keys",
          .subject = "members of Hugging Face configurations",
          .weight = 100,
          .run = read_changed_config};
}

}  // namespace megacpp::fuzz
