// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/sync_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "megacpp/core/base/output_path.h"

namespace megacpp::base {

void sync_folder(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_writing(path, "cannot open", errno);
  const int failed = ::fsync(fd), error = errno;
  ::close(fd);
  if (failed != 0) fail_writing(path, "cannot sync", error);
}

}  // namespace megacpp::base
