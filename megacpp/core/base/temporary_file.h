// SPDX-License-Identifier: Apache-2.0
// The file that a new content is written to before it takes its place: TARGET.tmpPID. It is locked as long as a process
// writes it, so that one which is not locked was left behind by a process that was killed.
#pragma once

#include <filesystem>

namespace megacpp::base {

class TemporaryFile {
 public:
  /// Empty, beside `target`. E3001, which speaks of the file that the user `named`.
  TemporaryFile(const std::filesystem::path& target, const std::filesystem::path& named);
  /// Removes it, unless take_place() has been called.
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int descriptor() const { return descriptor_; }
  /// Becomes the target, whatever that was. E3001.
  void take_place();

 private:
  std::filesystem::path target_, named_;
  std::filesystem::path path_;  // empty once it has its place
  int descriptor_;
};

/// Those of a target that processes left behind. What cannot be removed stays.
void remove_abandoned_temporaries(const std::filesystem::path& target);

}  // namespace megacpp::base
