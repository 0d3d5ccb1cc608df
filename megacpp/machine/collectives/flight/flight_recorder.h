// SPDX-License-Identifier: Apache-2.0
// The last calls of every chip of a process, kept in a file while they happen: a ring for each chip in memory that the
// file maps, so that it is there however the process ends, killed without a word included. A run that ends in order
// leaves no file. Recording a call takes no lock, no system call and no memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/core/base/guarded_mapping.h"
#include "megacpp/machine/collectives/communicator.h"

namespace megacpp::collectives {

inline constexpr int64_t kFlightCalls = 256;  // of each chip

/// As it stands in the file. Times are seconds since 1970.
struct FlightRow {
  int64_t number = 0;    // among the calls of its chip, from 1; 0: the row is being written, or was never
  int64_t sequence = 0;  // among those of its group, from 0; of a message among those to the same chip with this tag
  uint64_t group = 0;    // the same number on every member; of a message made of both chips and the tag
  int64_t members = 0;   // of the group; 2 for a message
  double started = 0;
  double finished = 0;  // 0: it is in flight
  char what[208] = {};  // "all_reduce of 4096 bytes in block03.E"
};
static_assert(sizeof(FlightRow) == 256);

/// The head of a file; the numbers of its chips follow, and their rows.
struct FlightHead {
  char format[32] = {};
  int64_t process = 0;
  int64_t chips = 0;
  int64_t rows = kFlightCalls;
  char host[72] = {};
};
static_assert(sizeof(FlightHead) == 128);

inline constexpr const char* kFlightFormat = "megacpp flight 1";

class FlightRecorder {
 public:
  struct Options {
    std::filesystem::path file;
    int64_t process = 0;
    std::string host;
    int64_t chips = 1;  // of the process
  };
  /// E3001 where the file cannot be made in full: a disk that fills up later takes nothing from the run.
  explicit FlightRecorder(const Options& options);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  /// The chip's end with its calls recorded; lives as long as this, and `inner` must too. Before step 0.
  Communicator& recorded(Communicator& inner);

  /// The file stays when this ends, as it does anyway where the process is killed: a call has failed, or the run.
  void keep() { is_kept_ = true; }
  /// The run ends in order after all.
  void drop() { is_kept_ = false; }

 private:
  class Chip;

  std::byte* data() const { return mapping_.bytes().data(); }

  const std::filesystem::path file_;
  const int64_t chips_;
  base::GuardedMapping mapping_;  // a file that somebody shortens costs the record, not the run
  std::atomic<bool> is_kept_ = false;
  std::mutex mutex_;  // of the next
  std::deque<std::unique_ptr<Chip>> recorded_;
};

/// Where a run keeps its records, a file for each process, and those of the attempt before it.
inline constexpr const char* kFlightFolder = "flight";
inline constexpr const char* kFlightFolderBefore = "flight.before";
std::filesystem::path flight_file(const std::filesystem::path& run, int64_t process);

}  // namespace megacpp::collectives
