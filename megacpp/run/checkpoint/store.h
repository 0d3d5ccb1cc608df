// SPDX-License-Identifier: Apache-2.0
// The folder of a run's checkpoints. One is written into step-N.partial, synced and renamed to step-N; the link
// `latest` is replaced after that. So what goes by the name of a step is complete, whenever a process was killed. A
// checkpoint that is written again is step-N.replaced until the new one has its name, and deleted after that. One
// run writes at a time (the run directory is locked): one of its processes begins and commits, all may write files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace megacpp::checkpoint {

class Store {
 public:
  explicit Store(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path path_of(int64_t step) const;
  /// Complete ones, ascending.
  std::vector<int64_t> steps() const;
  /// What `latest` names, or without a sound link the highest step; nothing where no checkpoint is complete.
  std::optional<std::filesystem::path> latest() const;
  /// Whether it has the name of a step here, which only complete ones get, and its manifest is gone.
  bool is_damaged(const std::filesystem::path& checkpoint) const;
  /// What `latest` names, or the highest step, where that is damaged: latest() is an older one then.
  std::optional<std::filesystem::path> damaged_latest() const;

  /// Gives a checkpoint its name back where a process was killed before the one that replaces it had it. Only while no
  /// process writes.
  void recover() const;
  /// The same, and deletes what processes that were killed left unfinished. E3001 where the folder cannot be written.
  void remove_partial() const;
  /// An empty folder to write the files of a step into; commit() gives it its name, discard() deletes it. E3001 where
  /// the folder that folder() is in is gone.
  std::filesystem::path begin(int64_t step) const;
  /// The folder that another process has begun, to write files into as well.
  std::filesystem::path join(int64_t step) const;
  void commit(int64_t step) const;
  void discard(int64_t step) const;
  /// Keeps the newest `keep` (0: all), the multiples of `keep_every` steps (0: none) and the latest.
  void prune(int64_t keep, int64_t keep_every) const;

 private:
  std::filesystem::path partial_path(int64_t step) const;
  void remove(const std::filesystem::path& path) const;

  std::filesystem::path folder_;
};

/// Points the link at `target`, a name beside it, in one step: a reader sees the old link or the new one.
void replace_link(const std::filesystem::path& link, const std::filesystem::path& target);

}  // namespace megacpp::checkpoint
