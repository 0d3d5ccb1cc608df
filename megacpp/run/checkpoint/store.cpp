// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/output_path.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/sync_folder.h"
#include "megacpp/run/checkpoint/manifest.h"

namespace megacpp::checkpoint {
namespace {

constexpr std::string_view kPrefix = "step-", kPartial = ".partial", kReplaced = ".replaced", kLeaving = ".old",
                           kLatest = "latest";

std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  const bool is_number = error == std::errc() && end == name.data() + name.size() && step >= 0;
  return is_number ? std::optional(step) : std::nullopt;
}

/// What this class writes under other names than a step's: "step-N.partial", "step-N.old.partial", "latest.P.partial".
/// All else in the folder is the user's.
bool is_leftover(std::string name) {
  if (!name.ends_with(kPartial)) return false;
  name.resize(name.size() - kPartial.size());
  if (name.ends_with(kLeaving)) name.resize(name.size() - kLeaving.size());
  const size_t dot = name.find('.');
  const bool is_link = name.substr(0, dot) == kLatest && dot != std::string::npos && dot + 1 < name.size() &&
                       name.find_first_not_of("0123456789", dot + 1) == std::string::npos;
  return is_link || step_of(name).has_value();
}

/// Not its parents: those of a run that was moved away would be another one.
void make_in_place(const std::filesystem::path& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    base::fail_writing(folder, "cannot create the folder", errno);
}

void rename_or_fail(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) base::fail_writing(to, "cannot rename into place", errno);
}

void remove_all_or_fail(const std::filesystem::path& path) {
  if (const std::error_code error = base::remove_tree(path)) base::fail_writing(path, "cannot remove", error.value());
}

bool is_complete(const std::filesystem::path& checkpoint) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(checkpoint / kManifestFile, ignored);
}

}  // namespace

std::filesystem::path Store::path_of(int64_t step) const { return folder_ / fmt::format("{}{:08}", kPrefix, step); }

std::filesystem::path Store::partial_path(int64_t step) const {
  return folder_ / fmt::format("{}{:08}{}", kPrefix, step, kPartial);
}

std::vector<int64_t> Store::steps() const {
  std::vector<int64_t> steps;
  for (const std::filesystem::path& entry : base::list_folder(folder_))
    if (const auto step = step_of(entry.filename().string()); step && is_complete(entry)) steps.push_back(*step);
  std::ranges::sort(steps);
  return steps;
}

std::optional<std::filesystem::path> Store::latest() const {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::read_symlink(folder_ / kLatest, error);
  if (!error && step_of(target.string()) && is_complete(folder_ / target)) return folder_ / target;
  const std::vector<int64_t> complete = steps();
  return complete.empty() ? std::nullopt : std::optional(path_of(complete.back()));
}

bool Store::is_damaged(const std::filesystem::path& checkpoint) const {
  std::error_code ignored;
  return checkpoint.parent_path() == folder_ && step_of(checkpoint.filename().string()) &&
         std::filesystem::is_directory(checkpoint, ignored) && !is_complete(checkpoint);
}

std::optional<std::filesystem::path> Store::damaged_latest() const {
  std::error_code error;
  const std::filesystem::path named = folder_ / std::filesystem::read_symlink(folder_ / kLatest, error);
  if (!error && is_complete(named)) return std::nullopt;
  if (!error && is_damaged(named)) return named;
  std::optional<int64_t> newest;
  for (const std::filesystem::path& entry : base::list_folder(folder_))
    if (const auto step = step_of(entry.filename().string()); step && (is_complete(entry) || is_damaged(entry)))
      newest = std::max(newest.value_or(0), *step);
  return newest && is_damaged(path_of(*newest)) ? std::optional(path_of(*newest)) : std::nullopt;
}

void Store::recover() const {
  for (const std::filesystem::path& entry : base::list_folder(folder_)) {
    if (entry.extension() != kReplaced) continue;
    const auto step = step_of(entry.stem().string());
    if (!step) continue;
    if (is_complete(entry) && !base::exists(path_of(*step)))
      rename_or_fail(entry, path_of(*step));
    else
      remove_all_or_fail(entry);
  }
}

void Store::remove_partial() const {
  base::make_folder(folder_);
  recover();
  for (const std::filesystem::path& entry : base::list_folder(folder_))
    if (is_leftover(entry.filename().string())) remove_all_or_fail(entry);
}

std::filesystem::path Store::begin(int64_t step) const {
  const std::filesystem::path partial = partial_path(step);
  remove_all_or_fail(partial);
  make_in_place(folder_);
  make_in_place(partial);
  return partial;
}

// Made again where this host has not heard of it yet, as file systems over a network may be late.
std::filesystem::path Store::join(int64_t step) const {
  make_in_place(folder_);
  make_in_place(partial_path(step));
  return partial_path(step);
}

void Store::commit(int64_t step) const {
  const std::filesystem::path partial = partial_path(step), path = path_of(step);
  std::filesystem::path replaced = path;
  replaced += kReplaced;
  base::sync_folder(partial);
  const bool replaces = base::exists(path);
  if (replaces) {
    remove_all_or_fail(replaced);
    rename_or_fail(path, replaced);
  }
  if (::rename(partial.c_str(), path.c_str()) != 0) {
    const int error = errno;
    if (replaces) ::rename(replaced.c_str(), path.c_str());  // where that fails too, recover() does it
    base::fail_writing(path, "cannot rename into place", error);
  }
  base::sync_folder(folder_);
  replace_link(folder_ / kLatest, path.filename());
  base::sync_folder(folder_);
  if (replaces) base::try_to_remove_tree(replaced);
}

void Store::discard(int64_t step) const { base::try_to_remove_tree(partial_path(step)); }

void Store::prune(int64_t keep, int64_t keep_every) const {
  if (keep == 0) return;
  const std::optional<std::filesystem::path> newest = latest();
  std::vector<int64_t> complete = steps();
  complete.resize(complete.size() - std::min(complete.size(), static_cast<size_t>(keep)));
  for (const int64_t step : complete) {
    const bool is_kept = keep_every > 0 && step % keep_every == 0;
    if (!is_kept && path_of(step) != newest) remove(path_of(step));
  }
}

// Under another name first: a deletion that is cut short leaves nothing that looks complete.
void Store::remove(const std::filesystem::path& path) const {
  std::filesystem::path leaving = path;
  leaving += kLeaving;
  leaving += kPartial;
  remove_all_or_fail(leaving);
  rename_or_fail(path, leaving);
  remove_all_or_fail(leaving);
}

void replace_link(const std::filesystem::path& link, const std::filesystem::path& target) {
  std::filesystem::path temporary = link;
  temporary += fmt::format(".{}{}", ::getpid(), kPartial);
  ::unlink(temporary.c_str());
  if (::symlink(target.c_str(), temporary.c_str()) != 0) base::fail_writing(link, "cannot create the link", errno);
  rename_or_fail(temporary, link);
}

}  // namespace megacpp::checkpoint
