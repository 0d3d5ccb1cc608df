// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/catalog/location.h"

#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <string>

#include "megacpp/core/base/environment.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/path.h"

namespace megacpp::catalog {

std::filesystem::path default_path() {
  if (const std::string file = base::environment_variable("MEGACPP_CATALOG"); !file.empty()) return file;
  // The XDG rules: a folder that is not absolute counts as not given.
  const std::filesystem::path data = base::environment_variable("XDG_DATA_HOME");
  if (data.is_absolute()) return data / "megacpp/catalog.sqlite";
  const std::filesystem::path home = base::environment_variable("HOME");
  MEGACPP_REQUIRE(home.is_absolute(), E3001,
                  {.where = "the catalog's file",
                   .got = "none of MEGACPP_CATALOG, XDG_DATA_HOME and HOME names a place",
                   .wanted = "one of them, as an absolute path",
                   .next = "name a file with --catalog or MEGACPP_CATALOG"});
  return home / ".local/share/megacpp/catalog.sqlite";
}

bool is_network_kind(uint64_t kind) {
  constexpr std::array<uint64_t, 12> kKinds = {
      0x6969,      // NFS
      0x517B,      // SMB
      0xFF534D42,  // CIFS
      0xFE534D42,  // SMB 2
      0x0BD00BD0,  // Lustre
      0x47504653,  // GPFS
      0x00C36400,  // Ceph
      0x5346414F,  // AFS
      0x19830326,  // BeeGFS
      0x01021997,  // 9P
      0x65735546,  // FUSE: sshfs, s3fs, gcsfuse
      0x6B414653,  // kAFS
  };
  return std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
}

bool is_on_network(const std::filesystem::path& path) {
  const std::filesystem::path folder = base::absolute(path).parent_path();
  struct statfs status = {};
  const bool known = ::statfs(path.c_str(), &status) == 0 || ::statfs(folder.c_str(), &status) == 0;
  return known && is_network_kind(static_cast<uint32_t>(status.f_type));
}

}  // namespace megacpp::catalog
