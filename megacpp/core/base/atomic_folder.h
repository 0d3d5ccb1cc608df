// SPDX-License-Identifier: Apache-2.0
// A new folder that is complete or absent: written beside its place under a name of this process's own, and renamed
// there by commit(); removed where that never comes. The counterpart of write_file_atomically() in file.h.
#pragma once

#include <filesystem>

namespace megacpp::base {

class AtomicFolder {
 public:
  /// A slash at the end of `place` means nothing. E3001 where something is there, or the folder cannot be made.
  explicit AtomicFolder(const std::filesystem::path& place);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  /// Where to write.
  const std::filesystem::path& path() const { return partial_; }
  void commit();

 private:
  std::filesystem::path place_;
  std::filesystem::path partial_;  // empty once it has its place
};

}  // namespace megacpp::base
