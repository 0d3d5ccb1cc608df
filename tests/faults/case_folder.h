// SPDX-License-Identifier: Apache-2.0
// The folder of one case: a copy of the catalog that all cases begin with, on a disk of its own where the fault wants
// one. Gone with the case.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tests/faults/fault.h"

namespace megacpp::faults {

class CaseFolder {
 public:
  /// Throws std::system_error where the folder, its disk or the copy cannot be had.
  CaseFolder(std::filesystem::path path, const std::filesystem::path& catalog, const std::optional<Disk>& disk);
  ~CaseFolder();
  CaseFolder(const CaseFolder&) = delete;
  CaseFolder& operator=(const CaseFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// The disk has room again; a read-only one stays so, since it can be read.
  void lift_fault() const;

 private:
  void remove() const;
  void mount_disk(const std::filesystem::path& catalog) const;
  /// mount(2) on the folder.
  void mount(unsigned long flags, const std::string& options) const;

  const std::filesystem::path path_;
  const std::optional<Disk> disk_;
};

}  // namespace megacpp::faults
