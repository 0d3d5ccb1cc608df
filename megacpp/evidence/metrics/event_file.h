// SPDX-License-Identifier: Apache-2.0
// Event files in a folder that TensorBoard is pointed at, or that is below such a folder: one that grows while a run
// trains, and a whole one of the log of a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "megacpp/core/base/decision.h"
#include "megacpp/run/train/train.h"

namespace megacpp::metrics {

class EventFile {
 public:
  /// A new file beside those of earlier processes; steps from `first_step` on will follow, and readers drop what
  /// earlier files have of these. E3001.
  EventFile(const std::filesystem::path& folder, int64_t first_step);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Why not, where the disk does not take all of it: then it has nothing of the report. No record stays half-written,
  /// since readers would stop there.
  base::Decision add(const train::StepReport& report);

 private:
  base::Decision append(const std::string& records);

  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t whole_bytes_ = 0;  // up to the end of the last record
  double last_time_ = 0;     // of the last report
};

/// Writes the file of a log into the folder, which is made where it is not there: written whole, in the place of the
/// one that an earlier export of the same log has left. E3001, also where the folder has event files of others: readers
/// would take all for one run. Returns its path.
std::filesystem::path write_event_file(const std::filesystem::path& folder,
                                       const std::vector<train::StepReport>& reports);

}  // namespace megacpp::metrics
