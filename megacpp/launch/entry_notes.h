// SPDX-License-Identifier: Apache-2.0
// What a reader should know of an entry before believing it: that another build or plugin wrote it, or this one on
// another machine, and what it names that this build does not have. Such an entry is shown like any other.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "megacpp/catalog/catalog.h"

namespace megacpp::launch {

/// The platform of the plugin of that kind ("cpu") which is here, as signatures have it; empty for a kind that is none.
std::string platform_here(const std::string& kind);

/// This program, its plugins and this machine. Each plugin is looked at once, however many entries name it.
class ThisBuild {
 public:
  explicit ThisBuild(std::function<std::string(const std::string& kind)> platform = platform_here);

  /// Whether this very program wrote it, here; a plugin or a processor that is not the one here is another.
  bool wrote(const catalog::Signature& signature) const;

  /// A line each for another build or machine, a chip, a backend, a block family, an optimizer, or any key and value
  /// that is not there.
  std::vector<std::string> notes_of(const catalog::Entry& entry) const;

 private:
  bool has_platform(const std::string& platform) const;

  std::function<std::string(const std::string&)> platform_;
  std::string processor_;
  mutable std::map<std::string, std::string> platforms_;  // by kind, as they are asked for
};

}  // namespace megacpp::launch
