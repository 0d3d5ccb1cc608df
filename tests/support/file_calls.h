// SPDX-License-Identifier: Apache-2.0
// Which files a piece of code writes, syncs and renames, in order: what a loss of power may not take. This header
// defines those functions of the system for the whole program, so one file of a test program may include it.
#pragma once

#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace megacpp::testing_support {

struct FileCall {
  enum class Kind : uint8_t { write, sync, rename };
  Kind kind;
  std::filesystem::path path;     // of a file or a folder; of a rename the name before it
  std::filesystem::path to = {};  // of a rename
};

/// Records the successful calls of its thread while it lives.
class FileCalls {
 public:
  FileCalls() { recording() = this; }
  ~FileCalls() { recording() = nullptr; }
  FileCalls(const FileCalls&) = delete;
  FileCalls& operator=(const FileCalls&) = delete;

  const std::vector<FileCall>& calls() const { return calls_; }

  /// Names under which files were put, in order.
  std::vector<std::string> renamed() const {
    std::vector<std::string> names;
    for (const FileCall& call : calls_)
      if (call.kind == FileCall::Kind::rename) names.push_back(call.to.filename().string());
    return names;
  }

  /// Names that were given before the bytes behind them were synced; of a folder, before the names in it were.
  std::vector<std::string> renamed_too_early() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < calls_.size(); ++i)
      if (calls_[i].kind == FileCall::Kind::rename && !is_synced(calls_[i].path, i))
        names.push_back(calls_[i].to.filename().string());
    return names;
  }

  /// Whether the folder was synced after something in it got this name, and before anything else was renamed.
  bool is_name_synced(const std::filesystem::path& path) const {
    const std::filesystem::path named = resolved(path);
    bool is_named = false;
    for (const FileCall& call : calls_) {
      if (call.kind == FileCall::Kind::rename) {
        if (is_named) return false;
        is_named = call.to == named;
      }
      if (is_named && call.kind == FileCall::Kind::sync && call.path == named.parent_path()) return true;
    }
    return false;
  }

  static void note(FileCall::Kind kind, int file) {
    if (recording() == nullptr) return;
    std::error_code ignored;
    const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file), ignored);
    recording()->calls_.push_back({.kind = kind, .path = path});
  }
  static void note_rename(const char* from, const char* to) {
    if (recording() == nullptr) return;
    recording()->calls_.push_back({.kind = FileCall::Kind::rename, .path = resolved(from), .to = resolved(to)});
  }

 private:
  static FileCalls*& recording() {
    thread_local FileCalls* one = nullptr;
    return one;
  }

  /// As the system names what a descriptor leads to. The file itself may have another name by now.
  static std::filesystem::path resolved(const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path).parent_path(), ignored) / path.filename();
  }

  static bool changes(const FileCall& call, const std::filesystem::path& path) {
    return call.kind == FileCall::Kind::rename ? call.to.parent_path() == path
                                               : call.kind == FileCall::Kind::write && call.path == path;
  }

  bool is_synced(const std::filesystem::path& path, size_t end) const {
    bool synced = true;  // what nobody has changed
    for (size_t i = 0; i < end; ++i) {
      if (changes(calls_[i], path)) synced = false;
      if (calls_[i].kind == FileCall::Kind::sync && calls_[i].path == path) synced = true;
    }
    return synced;
  }

  std::vector<FileCall> calls_;
};

template <typename Function>
Function* system_function(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace megacpp::testing_support

#define MEGACPP_INTERPOSED extern "C" __attribute__((visibility("default")))

MEGACPP_INTERPOSED ssize_t write(int file, const void* data, size_t bytes) {
  using namespace megacpp::testing_support;
  const ssize_t written = system_function<ssize_t(int, const void*, size_t)>("write")(file, data, bytes);
  if (written > 0) FileCalls::note(FileCall::Kind::write, file);
  return written;
}

MEGACPP_INTERPOSED int fsync(int file) {
  using namespace megacpp::testing_support;
  const int failed = system_function<int(int)>("fsync")(file);
  if (failed == 0) FileCalls::note(FileCall::Kind::sync, file);
  return failed;
}

MEGACPP_INTERPOSED int rename(const char* from, const char* to) noexcept {
  using namespace megacpp::testing_support;
  const int failed = system_function<int(const char*, const char*)>("rename")(from, to);
  if (failed == 0) FileCalls::note_rename(from, to);
  return failed;
}
