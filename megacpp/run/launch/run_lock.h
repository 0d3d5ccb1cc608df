// SPDX-License-Identifier: Apache-2.0
// The lock of a run directory. It belongs to an open file in it, so the system drops it when the process ends, however
// that ends.
#pragma once

#include <chrono>
#include <filesystem>

namespace megacpp::launch {

/// The file, in the run directory.
inline constexpr const char* kRunLock = "lock";

/// Held by the process that trains there, as long as the object lives.
class RunLock {
 public:
  /// E3003 where another process has it, E3001 where the folder cannot be written.
  explicit RunLock(const std::filesystem::path& run);
  ~RunLock();
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&&) = delete;

  bool is_held() const { return file_ >= 0; }  // false: moved from
  /// Whether the path still leads to the folder that was locked.
  bool is_of(const std::filesystem::path& run) const;
  /// Where the folder that was locked is now; empty: it is deleted.
  std::filesystem::path place() const;

 private:
  int file_, folder_;  // descriptors
};

/// A run that somebody looks at. Where nobody trains in it, nobody begins to as long as the object lives.
class IdleRun {
 public:
  explicit IdleRun(const std::filesystem::path& run);
  ~IdleRun();
  IdleRun(const IdleRun&) = delete;
  IdleRun& operator=(const IdleRun&) = delete;

  bool is_idle() const { return is_idle_; }

 private:
  int file_;  // descriptor; -1: there is no lock
  bool is_idle_;
};

/// Whether a process trains in it now.
bool is_in_use(const std::filesystem::path& run);
/// E3003. `waited`: for it to be free, so far.
[[noreturn]] void refuse_run_in_use(const std::filesystem::path& run, std::chrono::seconds waited = {});

}  // namespace megacpp::launch
