// SPDX-License-Identifier: Apache-2.0
// What a reader should know of an entry before believing it: that another build or plugin wrote it, or this one on
// another machine, and what it names that this build does not have. Such an entry is shown like any other.
#pragma once

#include <string>
#include <vector>

#include "megacpp/hardware/catalog/catalog.h"
#include "megacpp/machine/runtime/backend.h"

namespace megacpp::launch {

/// Of all backends.
std::vector<runtime::Platform> all_platforms();

/// This program, its plugins and this machine. Each plugin is looked at once at most, however many entries name it.
class ThisBuild {
 public:
  explicit ThisBuild(std::vector<runtime::Platform> platforms = all_platforms());

  /// Whether this very program wrote it, here; a plugin or a processor that is not the one here is another.
  bool wrote(const catalog::Signature& signature) const;

  /// A line each for another build or machine, a chip, a backend, a block family, an optimizer, or any key and value
  /// that is not there.
  std::vector<std::string> notes_of(const catalog::Entry& entry) const;

 private:
  bool has_platform(const std::string& identity) const;

  std::vector<runtime::Platform> platforms_;
  std::string processor_;
  mutable std::vector<std::string> identities_;  // of the first platforms: a plugin is a large file to read
};

}  // namespace megacpp::launch
