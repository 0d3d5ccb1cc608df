// SPDX-License-Identifier: Apache-2.0
// An input as a file, for readers that take a path: one of this process, in a folder of its own below TMPDIR. It is
// left there, since a process may die of an input; who starts the process gives it a TMPDIR and removes that.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace megacpp::fuzz {

class ScratchFile {
 public:
  explicit ScratchFile(const std::string& name)
      : folder_(std::filesystem::temp_directory_path() / ("megacpp-fuzz-" + std::to_string(::getpid()))),
        path_(folder_ / name) {
    std::filesystem::create_directories(folder_);
  }

  const std::filesystem::path& folder() const { return folder_; }
  const std::filesystem::path& path() const { return path_; }
  void write(std::string_view content) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
  }

 private:
  std::filesystem::path folder_;
  std::filesystem::path path_;
};

}  // namespace megacpp::fuzz
