// SPDX-License-Identifier: Apache-2.0
// Which of the recorded rows rules may be fitted to (tuning), and which say how good they are (judging): by a hash of
// what was measured, so that nobody chooses. bench/blind_split.py is the same for Python.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace megacpp::testing_support {

/// What was compiled or run: {"recipes/nam52-1b.yaml", "v6e:2x2", "xla", {"layout.zero=3"}}.
struct Measurement {
  std::string recipe, hardware, backend;
  std::vector<std::string> settings;
};

/// "tuning" or "judging". The number in front is the smallest with which the ten measured steps that were there before
/// the rule keep their split, tuning rows being what rates had been fitted to; it never changes.
inline std::string split_of(const Measurement& measurement) {
  std::string text = "167 " + measurement.recipe + " " + measurement.hardware + " backend=" + measurement.backend + " ";
  for (size_t i = 0; i < measurement.settings.size(); ++i) text += (i == 0 ? "" : " ") + measurement.settings[i];
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, which takes three lines in any language
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash >> 63 == 1 ? "judging" : "tuning";
}

}  // namespace megacpp::testing_support
