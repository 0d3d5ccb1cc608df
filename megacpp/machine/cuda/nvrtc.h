// SPDX-License-Identifier: Apache-2.0
// NVIDIA's run-time compiler: from CUDA C++ text that needs no header to a cubin. It needs no GPU. What was compiled
// before, by any run, is taken from disk.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "megacpp/machine/cuda/cubin_cache.h"
#include "megacpp/machine/cuda/library.h"

namespace megacpp::runtime::cuda {

class Nvrtc {
 public:
  /// `architecture`: "sm_90a"; `folder`: where cubins are kept. E1509 where the library lacks a function.
  Nvrtc(const Library& library, std::string architecture, const std::filesystem::path& folder = cubin_folder());
  ~Nvrtc();
  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;

  /// "13.0".
  const std::string& version() const { return version_; }

  /// E3204 with what the compiler says where it refuses the text or the architecture. May be called by several threads
  /// at once.
  std::vector<char> cubin(const std::string& source);

  int64_t compiles() const { return compiles_; }
  int64_t cache_hits() const { return cache_hits_; }

 private:
  struct Functions;
  struct Program;

  std::vector<char> compiled(const std::string& source) const;
  void check(const char* call, int result) const;
  std::string log_of(const Program& program) const;

  std::unique_ptr<const Functions> functions_;
  std::string architecture_;
  std::string version_;
  std::unique_ptr<CubinCache> cache_;
  std::atomic<int64_t> compiles_ = 0, cache_hits_ = 0;
};

}  // namespace megacpp::runtime::cuda
