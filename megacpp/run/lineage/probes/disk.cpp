// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/lineage/probes/disk.h"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/path.h"
#include "megacpp/run/lineage/probe.h"

namespace megacpp::lineage {
namespace {

namespace fs = std::filesystem;

/// The folder, or of its parents the nearest that is there.
fs::path nearest_folder(const fs::path& folder) {
  fs::path there = base::absolute(folder);
  while (!base::is_folder(there) && there.has_relative_path()) there = there.parent_path();
  return there;
}

std::string room_in(const fs::path& folder) {
  MEGACPP_REQUIRE(!folder.empty(), E3001,
                  {.where = "the folder",
                   .got = "neither XDG_CACHE_HOME nor HOME is set",
                   .wanted = "a folder of the user's",
                   .next = "set XDG_CACHE_HOME"});
  const fs::path there = nearest_folder(folder);
  struct statvfs disk = {};
  const bool is_usable = ::access(there.c_str(), W_OK | X_OK) == 0 && ::statvfs(there.c_str(), &disk) == 0;
  MEGACPP_REQUIRE(is_usable, E3001,
                  {.where = there.string(),
                   .got = std::strerror(errno),
                   .wanted = "a folder that may be written",
                   .next = "check the folder's permissions, or name another"});
  return room_text(folder, static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize));
}

}  // namespace

std::string room_text(const fs::path& folder, int64_t free_bytes) {
  const double gibibytes = static_cast<double>(free_bytes) / static_cast<double>(int64_t{1} << 30);
  MEGACPP_REQUIRE(free_bytes >= kLeastFreeBytes, E3001,
                  {.where = folder.string(),
                   .got = fmt::format("{:.2f} GiB free", gibibytes),
                   .wanted = "at least 1 GiB, for checkpoints or plugins",
                   .next = "make room there, or name a folder on another disk"});
  return fmt::format("{:.1f} GiB free", gibibytes);
}

std::vector<Probe> disk_probes() {
  return {{.name = "disk.runs", .group = "disk", .ask = [](const Subject& subject) { return room_in(subject.runs); }},
          {.name = "disk.cache", .group = "disk", .ask = [](const Subject& subject) {
             return room_in(runtime::plugins::user_cache_folder(subject.surroundings));
           }}};
}

}  // namespace megacpp::lineage
