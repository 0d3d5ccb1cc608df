// SPDX-License-Identifier: Apache-2.0
// Compiled programs on disk, shared by runs: an entry is found by the program's text, the options and everything that
// the machine and the plugin say of themselves. Entries are whole or absent, carry a checksum, and are never trusted:
// what is damaged, foreign or refused by the plugin is compiled anew and replaced, with the cause counted. A folder is
// trusted as code is: the plugin runs what is there.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "megacpp/core/base/decision.h"
#include "megacpp/machine/xla/pjrt/program.h"

namespace megacpp::runtime::pjrt {

class ProgramCache {
 public:
  /// Makes the folder; E3001 when it cannot be written.
  explicit ProgramCache(std::filesystem::path folder);

  /// Loads the program from the cache, or compiles it and stores it. Any number of threads and processes may do so.
  LoadedProgram compile(const Client& client, std::string_view stablehlo, const CompileOptions& options);

  /// Whether programs are stored. No when the plugin cannot serialize them or a write failed; runs go on without.
  const base::Decision& stores() const { return stores_; }

  /// Where the entry of a program is or would be.
  std::filesystem::path entry(const Client& client, std::string_view stablehlo, const CompileOptions& options) const;

 private:
  void store(const std::filesystem::path& entry, std::string_view key, const CompiledProgram& program);

  std::filesystem::path folder_;
  base::Decision stores_ = base::Decision::yes();
};

}  // namespace megacpp::runtime::pjrt
