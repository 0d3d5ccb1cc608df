// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/fault.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>

#include <array>
#include <cerrno>

#include "tests/support/temporary_folder.h"

namespace megacpp::faults {
namespace {

constexpr std::array<int, 3> kStops = {SIGINT, SIGTERM, SIGHUP};
constexpr int64_t kLastInstant = 400;  // milliseconds; the longest command takes about that long

std::string text(int64_t number) { return std::to_string(number); }

// Early ones more often: most commands are short.
std::chrono::milliseconds instant(Draw& draw) {
  const int64_t last = draw.between(1, kLastInstant);
  return std::chrono::milliseconds(draw.between(0, last));
}

Injection stop_once(Draw& draw) { return {.signals = {draw.one_of(kStops)}, .pause = instant(draw)}; }

// At once one behind the other, as timeout(1) sends them, or as a person does.
std::chrono::milliseconds gap(Draw& draw) {
  return std::chrono::milliseconds(draw.between(0, draw.between(0, 1) == 0 ? 20 : 2000));
}

Injection stop_twice(Draw& draw) {
  return {.signals = {draw.one_of(kStops), draw.one_of(kStops)}, .pause = instant(draw), .gap = gap(draw)};
}

Injection kill_it(Draw& draw) { return {.signals = {SIGKILL}, .pause = instant(draw)}; }

Injection full_stdout(Draw&) { return {.after = ">/dev/full", .stdout_is = Stream::lost}; }
Injection full_stderr(Draw&) { return {.after = "2>/dev/full", .hides_stderr = true}; }
Injection closed_stdout(Draw&) { return {.after = ">&-", .stdout_is = Stream::lost}; }

// Blocks of 512 bytes, for every file that the command writes, its output included; messages fit in the least.
Injection small_files(Draw& draw) {
  return {
      .before = "ulimit -f " + text(draw.between(0, 1) == 0 ? draw.between(8, 16) : draw.between(16, 400)) + "; exec",
      .stdout_is = Stream::unseen};
}

Injection small_disk(Draw& draw) { return {.disk = Disk{.free_kib = 4 * draw.between(1, 40)}}; }

Injection read_only_disk(Draw&) { return {.disk = Disk{.free_kib = 4, .read_only = true}}; }

// From then on this process has mounts of its own, which commands and what is read afterwards share.
bool has_own_mounts() {
  static const bool has_them = [] {
    if (::unshare(CLONE_NEWNS) != 0) return false;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
    const testing_support::TemporaryFolder place;
    return ::mount("none", place.path().c_str(), "tmpfs", 0, nullptr) == 0 && ::umount(place.path().c_str()) == 0;
  }();
  return has_them;
}

Injection failing_write(Draw& draw) {
  static constexpr std::array<int, 4> kErrors = {ENOSPC, EIO, EDQUOT, EROFS};
  const std::string kind = draw.between(0, 4) == 0 ? "short" : text(draw.one_of(kErrors));
  return {.before = "exec env MEGACPP_FAILING_WRITE=" + kind + ":" + text(draw.between(0, 60)) +
                    " LD_PRELOAD=" MEGACPP_FAILING_WRITE_LIBRARY,
          .stdout_is = Stream::unseen};
}

Injection little_address_space(Draw& draw) {
  return {.before = "ulimit -v " + text(draw.between(100, draw.between(0, 1) == 0 ? 800 : 2000) * 1000) + "; exec"};
}

Injection few_open_files(Draw& draw) { return {.before = "ulimit -n " + text(draw.between(4, 16)) + "; exec"}; }

Injection shortened(Draw& draw) {
  const bool is_emptied = draw.between(0, 1) == 0;
  return {.shortening = Shortening{.file = draw.between(0, 1000), .percent = is_emptied ? 0 : draw.between(1, 99)},
          .pause = instant(draw)};
}

Injection at_once(Draw& draw) { return {.launches = static_cast<int>(draw.between(2, 4))}; }

Injection killed_at_once(Draw& draw) {
  Injection injection = kill_it(draw);
  injection.launches = 2;
  return injection;
}

}  // namespace

const std::vector<Fault>& all_faults() {
  static const std::vector<Fault> table = {
      {"stop", "SIGINT, SIGTERM or SIGHUP at a random instant", stop_once},
      {"stop-twice", "two of them, up to two seconds one behind the other", stop_twice},
      {"kill", "kill -9 at a random instant", kill_it},
      {"full-stdout", "stdout on a full disk", full_stdout},
      {"full-stderr", "stderr on a full disk", full_stderr},
      {"closed-stdout", "stdout closed", closed_stdout},
      {"small-files", "ulimit -f: files may not grow", small_files},
      {"small-disk", "the folder of catalog and outputs on a disk with 4 to 160 KiB free", small_disk, has_own_mounts},
      {"read-only-disk", "that folder read-only", read_only_disk, has_own_mounts},
      {"failing-write", "an interposed write that fails or writes one byte, from a random call on", failing_write},
      {"address-space", "ulimit -v: 100 to 2000 MB", little_address_space},
      {"open-files", "ulimit -n: 4 to 16 files", few_open_files},
      {"shortened", "a file that it may read is shortened at a random instant", shortened},
      {"at-once", "two to four launches on one catalog", at_once},
      {"killed-at-once", "two launches on one catalog, killed", killed_at_once},
  };
  return table;
}

}  // namespace megacpp::faults
