// SPDX-License-Identifier: Apache-2.0
// A fuzz target: one reader or boundary of megacpp that must take any bytes. It may accept an input or refuse it with
// an error of ours; what else may come of it, oracle.h judges for all targets alike.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace megacpp::fuzz {

using Bytes = std::span<const uint8_t>;
using Input = std::vector<uint8_t>;

struct Target {
  std::string name;     // also of its folder in corpus/
  std::string subject;  // what is read, for reports
  /// Cases of it relative to the other targets: 100 where a case takes about 0.1 ms, less where it takes longer.
  int64_t weight;
  /// Runs one case. Throws base::Error for an input that is refused, BrokenProperty (oracle.h) where results are wrong.
  void (*run)(Bytes input);
  /// A case that takes longer hangs.
  std::chrono::milliseconds limit = std::chrono::seconds(10);
};

/// All of target_list.inc that this build has, in its order.
const std::vector<Target>& all_targets();
/// Names of the others.
const std::vector<std::string>& left_out_targets();
/// Nullptr where there is none of that name.
const Target* find_target(std::string_view name);

inline std::string_view as_text(Bytes input) { return {reinterpret_cast<const char*>(input.data()), input.size()}; }

}  // namespace megacpp::fuzz
