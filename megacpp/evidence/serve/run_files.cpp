// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/run_files.h"

#include <sys/stat.h>

#include <array>

#include <fmt/format.h>

#include "megacpp/core/base/hash.h"
#include "megacpp/evidence/receipt/store.h"
#include "megacpp/run/launch/run_directory.h"

namespace megacpp::serve {
namespace {

constexpr std::array<const char*, 3> kReadFiles = {"recipe.yaml", receipt::kReceiptFile, "log.jsonl"};

int64_t nanoseconds(const timespec& time) {
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + static_cast<int64_t>(time.tv_nsec);
}

}  // namespace

RunFiles look_at(const std::filesystem::path& run) {
  RunFiles files;
  std::string text;
  for (const char* name : kReadFiles) {
    struct stat status {};
    if (::lstat((run / name).c_str(), &status) != 0) {
      text += fmt::format("{} -\n", name);
      continue;
    }
    if (!S_ISREG(status.st_mode)) files.problem = fmt::format("{} is no regular file", name);
    text += fmt::format("{} {} {} {}\n", name, status.st_ino, status.st_size, nanoseconds(status.st_mtim));
    if (name == kReadFiles[0]) files.started = nanoseconds(status.st_mtim);
    if (name == kReadFiles[1]) files.has_receipt = true;
    if (name == kReadFiles[2]) files.logged = nanoseconds(status.st_mtim);
  }
  files.stamp = base::hash_text(text);
  return files;
}

bool is_live(const std::filesystem::path& run) {
  struct stat lock {};
  return ::lstat((run / "lock").c_str(), &lock) == 0 && S_ISREG(lock.st_mode) && launch::is_in_use(run);
}

receipt::Receipt stored_receipt(const std::filesystem::path& run, const RunFiles& files) {
  return files.has_receipt ? receipt::receipt_of(run / receipt::kReceiptFile)
                           : receipt::receipt_of(run, receipt::Completion::not_stored);
}

std::string problem_text(const base::Error& error) {
  return fmt::format("{} {}: {}", base::code_name(error.code()), base::code_title(error.code()), error.problem().got);
}

}  // namespace megacpp::serve
