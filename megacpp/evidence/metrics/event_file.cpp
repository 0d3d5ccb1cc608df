// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/metrics/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/output_path.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/utc_time.h"
#include "megacpp/evidence/metrics/event.h"
#include "megacpp/machine/runtime/fault_injection.h"

namespace megacpp::metrics {
namespace {

constexpr const char* kStem = "events.out.tfevents.";  // which readers know the files by
constexpr int kMaxFiles = 1000;                        // of one process in one second

/// events.out.tfevents.<second>.<host>.<process>.<number>
std::filesystem::path live_name(int64_t second, int number) {
  return fmt::format("{}{}.{}.{}.{}", kStem, second, runtime::host_name(), ::getpid(), number);
}

/// What a damaged log says may be no time at all.
int64_t whole_second(double time) { return time >= 0 && time < 1e15 ? static_cast<int64_t>(time) : 0; }

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder, int64_t first_step) : last_time_(base::unix_seconds()) {
  for (int number = 0; number < kMaxFiles && descriptor_ < 0; ++number) {
    path_ = folder / live_name(whole_second(last_time_), number);
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor_ < 0 && errno != EEXIST) base::fail_writing(path_, "cannot open", errno);
  }
  if (descriptor_ < 0) base::fail_writing(path_, "cannot open", EEXIST);
  const base::Decision begun = append(start_records({.wall_time = last_time_, .step = first_step}));
  if (begun) return;
  ::close(descriptor_);  // no destructor runs for what was not constructed
  base::raise(base::Code::E3001, {.where = path_.string(),
                                  .got = "cannot write: " + begun.reason(),
                                  .wanted = "a file that takes the metrics of a run",
                                  .next = "make room, or train without --tensorboard"});
}

EventFile::~EventFile() { ::close(descriptor_); }

base::Decision EventFile::add(const train::StepReport& report) {
  last_time_ = wall_time_of(report, last_time_);
  return append(report_records(report, last_time_));
}

base::Decision EventFile::append(const std::string& records) {
  size_t written = 0;
  int error = 0;
  while (written < records.size() && error == 0) {
    const ssize_t count = ::write(descriptor_, records.data() + written, records.size() - written);
    if (count >= 0) written += static_cast<size_t>(count);
    if (count < 0 && errno != EINTR) error = errno;
  }
  if (error == 0) {
    whole_bytes_ += static_cast<int64_t>(records.size());
    return base::Decision::yes();
  }
  const bool is_cut = ::ftruncate(descriptor_, whole_bytes_) == 0;
  return base::Decision::no(std::strerror(error) + std::string(is_cut ? "" : ", and it ends in half a record"));
}

std::filesystem::path write_event_file(const std::filesystem::path& folder,
                                       const std::vector<train::StepReport>& reports) {
  double time = reports.empty() ? 0 : reports.front().logged_at.value_or(0);
  const std::filesystem::path file = folder / fmt::format("{}{}.megacpp", kStem, whole_second(time));
  std::string records = start_records({.wall_time = time});
  for (const train::StepReport& report : reports) {
    time = wall_time_of(report, time);
    records += report_records(report, time);
  }
  base::make_folder(folder);
  for (const std::filesystem::path& other : base::list_folder(folder))
    MEGACPP_REQUIRE(other == file || !other.filename().string().starts_with(kStem), E3001,
                    {.where = folder.string(),
                     .got = "event files of something else: " + other.filename().string(),
                     .wanted = "a folder without them: TensorBoard would take all for one run",
                     .next = "give another folder, or remove them"});
  base::write_file_atomically(file, records);
  return file;
}

}  // namespace megacpp::metrics
