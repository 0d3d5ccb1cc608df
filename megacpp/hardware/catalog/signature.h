// SPDX-License-Identifier: Apache-2.0
// What a launch was: everything that decides whether it fits and how fast it runs. Two launches with the same texts are
// the same; the key is a hash of them that never changes between versions and machines, the texts are for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace megacpp::catalog {

/// Who runs a launch. What one build learnt another does not trust blindly, nor what it learnt on another machine.
struct Build {
  std::string code_version = {};  // version and content of the sources: "0.1.0+1f2e3d4c5b6a7988"
  std::string platform = {};      // a plugin's name, version, content and driver; empty: backends of this build
  // Where chips are virtual ones of a machine; 0 and empty: the chips have a name of their own, or it was not noted.
  int64_t threads = 0;         // of each chip
  std::string processor = {};  // "AMD EPYC 9654 96-Core Processor"

  bool operator==(const Build&) const = default;
};
/// "0.1.0+1f2e3d4c5b6a7988, plugin cpu 0.6.1 (build 77aa), driver 550.54, 4 threads a chip of AMD EPYC 9654"
std::string to_text(const Build& build);

struct Signature {
  Build build = {};
  std::string hardware = {};    // "v6e:16x16", "cpu 8 chips limit 512MiB"
  std::string model = {};       // name: "nam56r-tiny"
  std::string model_hash = {};  // of the model section, so that one name may hold several models
  std::string layout = {};      // "data=2 expert=2 model=2 zero=3"
  std::string features = {};    // what can be switched off: "z_loss balance_loss"
  std::string shape = {};       // batch, sequence, micro-steps, precision, recompute

  bool operator==(const Signature&) const = default;
};

/// One "name: text" line per field, each text quoted; equal exactly for equal signatures.
std::string canonical_text(const Signature& signature);

uint64_t key(const Signature& signature);
/// The key as 16 hex digits.
std::string key_text(const Signature& signature);

/// The key without the build: the same launch by any version of the program and of a plugin, on any machine, has the
/// same subject.
std::string subject_text(const Signature& signature);

}  // namespace megacpp::catalog
