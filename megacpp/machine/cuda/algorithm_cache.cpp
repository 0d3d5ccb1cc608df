// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/algorithm_cache.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "megacpp/machine/plugins/plugin_places.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace megacpp::runtime::cuda {
namespace {

constexpr size_t kWordDigits = 16;

std::string hex_word(uint64_t word) {
  std::string text(kWordDigits, '0');
  for (size_t i = 0; i < kWordDigits; ++i) text[kWordDigits - 1 - i] = "0123456789abcdef"[(word >> (4 * i)) & 15];
  return text;
}

std::string hex_algorithm(const LtAlgorithm& algorithm) {
  std::string text;
  for (const uint64_t word : algorithm.data) text += hex_word(word);
  return text;
}

std::optional<LtAlgorithm> parse_algorithm(std::string_view text) {
  LtAlgorithm algorithm;
  if (text.size() != algorithm.data.size() * kWordDigits) return std::nullopt;
  for (uint64_t& word : algorithm.data) {
    const char* const end = text.data() + kWordDigits;
    const auto [at, error] = std::from_chars(text.data(), end, word, 16);
    if (error != std::errc() || at != end) return std::nullopt;
    text.remove_prefix(kWordDigits);
  }
  return algorithm;
}

std::optional<KeptAlgorithm> parse_entry(const base::Json& json, const std::string& key) {
  const base::Json* const for_key = base::find_member(json, "key");
  const base::Json* const bytes = base::find_member(json, "algorithm");
  const base::Json* const seconds = base::find_member(json, "seconds");
  const base::Json* const searched = base::find_member(json, "searched");
  if (for_key == nullptr || bytes == nullptr || seconds == nullptr || searched == nullptr) return std::nullopt;
  const std::string* const key_text = base::as_text(*for_key);
  const std::string* const digits = base::as_text(*bytes);
  if (key_text == nullptr || *key_text != key || digits == nullptr) return std::nullopt;
  const std::optional<LtAlgorithm> algorithm = parse_algorithm(*digits);
  const std::optional<double> time = base::as_number(*seconds);
  const std::optional<int64_t> among = base::as_integer(*searched);
  if (!algorithm || !time || !among || !std::isfinite(*time)) return std::nullopt;
  return KeptAlgorithm{*algorithm, *time, *among};
}

}  // namespace

std::string algorithm_key(const AlgorithmSetting& setting, const LtProblem& problem) {
  return setting.card + ", " + std::to_string(setting.multiprocessors) + " multiprocessors, driver " + setting.driver +
         ", cuBLASLt " + setting.library + ": " + to_string(problem);
}

std::filesystem::path AlgorithmCache::file_of(const std::string& key) const {
  return folder_ / (hex_word(XXH3_64bits(key.data(), key.size())) + ".json");
}

CacheAnswer AlgorithmCache::find(const std::string& key) const {
  if (folder_.empty()) return {std::nullopt, "there is no folder to keep any in"};
  const std::filesystem::path file = file_of(key);
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return {std::nullopt, "none is kept"};
  try {
    const base::Json json = base::parse_json(base::read_file(file), base::Code::E1008, file.string());
    std::optional<KeptAlgorithm> kept = parse_entry(json, key);
    if (!kept) return {std::nullopt, "the kept file is damaged or another's"};
    return {kept, {}};
  } catch (const base::Error&) {
    return {std::nullopt, "the kept file is not readable"};
  }
}

bool AlgorithmCache::keep(const std::string& key, const KeptAlgorithm& algorithm) const {
  if (folder_.empty()) return false;
  base::Json json = base::Json::object();
  json["key"] = key;
  json["algorithm"] = hex_algorithm(algorithm.algorithm);
  json["seconds"] = algorithm.seconds;
  json["searched"] = algorithm.searched;
  try {
    base::make_folder(folder_);
    base::write_file_atomically(file_of(key), base::to_text(json, 2) + "\n");
    return true;
  } catch (const base::Error&) {
    return false;
  }
}

std::filesystem::path algorithm_folder() {
  const std::filesystem::path folder = plugins::user_cache_folder(plugins::Surroundings::current());
  return folder.empty() ? folder : folder / "products";
}

}  // namespace megacpp::runtime::cuda
