// SPDX-License-Identifier: Apache-2.0
// A run of six steps, saved every two, as a user types it, and what it leaves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "tests/support/command_line.h"

namespace megacpp::testing_support {

inline std::vector<std::string> tiny_train(const std::filesystem::path& run, std::vector<std::string> settings,
                                           const std::vector<std::string>& more = {}) {
  settings.insert(settings.begin(),
                  {"model.depth=2", "train.batch=2", "train.sequence=16", "train.threads=1", "train.log_every=1",
                   "train.steps=6", "checkpoint.every=2", "data.text=[" + std::string(MEGACPP_SOURCE_DIR) + "/docs]"});
  std::vector<std::string> words = {"--run-dir", run.string()};
  words.insert(words.end(), more.begin(), more.end());
  return on_recipe("train", "nam52-tiny.yaml", settings, words);
}

inline std::map<std::string, std::string> checkpoint_files(const std::filesystem::path& run, int64_t step) {
  std::map<std::string, std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(run / "checkpoints" / ("step-0000000" + std::to_string(step))))
    files[entry.path().filename().string()] = base::read_file(entry.path());
  return files;
}

/// Steps and losses of a log.
inline std::vector<std::pair<int64_t, double>> losses_of(const std::filesystem::path& run) {
  std::vector<std::pair<int64_t, double>> losses;
  std::ifstream log(run / "log.jsonl");
  for (std::string line; std::getline(log, line);) {
    const base::Json json = base::Json::parse(line);
    losses.emplace_back(json.at("step").get<int64_t>(), json.at("loss").get<double>());
  }
  return losses;
}

}  // namespace megacpp::testing_support
