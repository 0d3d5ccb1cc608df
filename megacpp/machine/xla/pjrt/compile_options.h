// SPDX-License-Identifier: Apache-2.0
// Options of one compilation, and their encoding as XLA's CompileOptionsProto (xla/pjrt/proto/compile_options.proto),
// written with protozero field by field, so no generated code is needed. Equal options give equal bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace megacpp::runtime::pjrt {

/// How hard the compiler tries; o0 gives up first.
enum class Effort { o0, o1, o2, o3 };

using FlagValue = std::variant<std::string, bool, int64_t, double>;

struct CompileOptions {
  int64_t replicas = 1;
  int64_t partitions = 1;
  /// The program is one for all partitions, and XLA divides it by its shardings.
  bool spmd_partitioning = false;
  /// The shardings are those of the sdy dialect; without this a program that has them is refused.
  bool shardy = false;
  /// Ids of devices, [replicas, partitions]; empty: the plugin's choice.
  std::vector<int64_t> device_ids = {};
  std::optional<int64_t> device_memory_bytes = {};  // the limit to fit into, where it is not the device's own
  std::optional<Effort> optimization = {};
  std::optional<Effort> memory_fitting = {};
  std::map<std::string, FlagValue> flags = {};  // XLA flags for this compilation only
};

std::string encode(const CompileOptions& options);

}  // namespace megacpp::runtime::pjrt
