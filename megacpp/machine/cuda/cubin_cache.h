// SPDX-License-Identifier: Apache-2.0
// Compiled device code on disk, shared by runs: an entry is found by its source and by all that its compiler says of
// itself. Entries are whole or absent, carry a checksum and their key, and are never trusted: what is damaged or of
// another source is compiled anew and replaced. A folder is trusted as code is: the device runs what is there.
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace megacpp::runtime::cuda {

/// ${XDG_CACHE_HOME:-$HOME/.cache}/megacpp/cubins; empty without a home folder.
std::filesystem::path cubin_folder();

class CubinCache {
 public:
  /// An empty folder: nothing is kept. `compiler`: what its output depends on beside the source.
  CubinCache(std::filesystem::path folder, std::string compiler);

  std::optional<std::vector<char>> find(const std::string& source) const;
  /// Where the folder cannot be written, nothing is kept from then on: runs go on without. Both may be called by
  /// several threads at once.
  void keep(const std::string& source, const std::vector<char>& cubin);

  /// Where the entry of a source is or would be.
  std::filesystem::path entry(const std::string& source) const;

 private:
  std::string key_of(const std::string& source) const;

  std::filesystem::path folder_;
  std::string compiler_;
  std::atomic<bool> is_writable_ = true;
};

}  // namespace megacpp::runtime::cuda
