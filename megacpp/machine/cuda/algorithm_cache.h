// SPDX-License-Identifier: Apache-2.0
// Algorithms found for products, on disk: one file for each problem on each kind of card with each version of the
// driver and the library. Files are whole or absent and say what they are for; what is damaged or another's is as good
// as absent, with the cause. What is read is checked with the library before it runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "megacpp/machine/cuda/cublaslt.h"

namespace megacpp::runtime::cuda {

/// What an algorithm depends on beside the problem.
struct AlgorithmSetting {
  std::string card;         // "NVIDIA H200"
  int multiprocessors = 0;  // of the card
  std::string driver;       // as it states its version
  std::string library;      // cuBLASLt's version
};

/// The text that a file is found and recognised by.
std::string algorithm_key(const AlgorithmSetting& setting, const LtProblem& problem);

struct KeptAlgorithm {
  LtAlgorithm algorithm = {};
  double seconds = 0;    // of one product, when it was found
  int64_t searched = 0;  // among so many
};

struct CacheAnswer {
  std::optional<KeptAlgorithm> kept;
  std::string cause = {};  // why there is none: "none kept", "kept file is damaged"
};

class AlgorithmCache {
 public:
  /// An empty folder keeps nothing.
  explicit AlgorithmCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  CacheAnswer find(const std::string& key) const;
  /// Whether it is kept now; runs go on where a file cannot be written.
  bool keep(const std::string& key, const KeptAlgorithm& algorithm) const;

  std::filesystem::path file_of(const std::string& key) const;

 private:
  std::filesystem::path folder_;
};

/// ${XDG_CACHE_HOME:-$HOME/.cache}/megacpp/products; empty without a home folder.
std::filesystem::path algorithm_folder();

}  // namespace megacpp::runtime::cuda
