// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/case_folder.h"

#include <sys/mount.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "tests/faults/command.h"

namespace megacpp::faults {

CaseFolder::CaseFolder(std::filesystem::path path, const std::filesystem::path& catalog,
                       const std::optional<Disk>& disk)
    : path_(std::move(path)), disk_(disk) {
  std::filesystem::create_directory(path_);
  try {
    if (disk_) mount_disk(catalog);
    std::filesystem::copy_file(catalog, path_ / kCatalogFile);
    if (disk_ && disk_->read_only) mount(MS_REMOUNT | MS_RDONLY, "");
  } catch (...) {
    remove();
    throw;
  }
}

CaseFolder::~CaseFolder() { remove(); }

void CaseFolder::remove() const {
  if (disk_) ::umount2(path_.c_str(), MNT_DETACH);
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void CaseFolder::lift_fault() const {
  if (disk_ && !disk_->read_only) mount(MS_REMOUNT, "size=64m");
}

void CaseFolder::mount_disk(const std::filesystem::path& catalog) const {
  constexpr int64_t kPage = 4096;  // of a tmpfs
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(catalog));
  const int64_t kib = (bytes + kPage - 1) / kPage * kPage / 1024 + disk_->free_kib;
  mount(0, "size=" + std::to_string(kib) + "k");
}

// The system calls a file system busy while a process that another case has just forked still holds the descriptor
// through which the catalog was copied: until its exec.
void CaseFolder::mount(unsigned long flags, const std::string& options) const {
  const char* const data = options.empty() ? nullptr : options.c_str();
  for (int attempt = 0; ::mount("none", path_.c_str(), "tmpfs", flags, data) != 0; ++attempt) {
    if (errno != EBUSY || attempt == 200)
      throw std::system_error(errno, std::generic_category(), "mount " + path_.string());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace megacpp::faults
