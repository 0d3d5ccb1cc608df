// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/atomic_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/output_path.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/sync_folder.h"

namespace megacpp::base {

AtomicFolder::AtomicFolder(const std::filesystem::path& place)
    : place_(place.has_filename() ? place : place.parent_path()) {
  if (place_.empty()) fail_writing(place_, "cannot create the folder", ENOENT);
  MEGACPP_REQUIRE(!base::exists(place_), E3001,
                  {.where = place_.string(),
                   .got = "something that exists",
                   .wanted = "the name of a new folder",
                   .next = "give another name, or remove what is there"});
  if (place_.has_parent_path()) make_folder(place_.parent_path());
  std::filesystem::path partial = place_;
  partial += ".partial" + std::to_string(::getpid());
  // Not make_folder(): what exists already is another's, and would be deleted with ours.
  if (::mkdir(partial.c_str(), 0777) != 0) fail_writing(place_, "cannot create the folder", errno);
  partial_ = partial;
}

AtomicFolder::~AtomicFolder() {
  if (!partial_.empty()) try_to_remove_tree(partial_);
}

// Names in a folder that was not synced may be lost with the power, and the folder would stand there in part.
void AtomicFolder::commit() {
  sync_folder(partial_);
  if (::rename(partial_.c_str(), place_.c_str()) != 0) fail_writing(place_, "cannot rename into place", errno);
  partial_.clear();
}

}  // namespace megacpp::base
