// SPDX-License-Identifier: Apache-2.0
// A TPU slice by name, "v6e:16x16": the chip it is made of, its shape, and what the plugin must be told of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace megacpp::runtime::plugins {

/// A device's own rates, for the time a program needs at least.
struct TpuPeaks {
  std::string generation;  // as generation_of_topology gives it
  double flops = 0;        // bf16, per second
  double bytes = 0;        // of HBM, per second
  int64_t per_chip = 1;    // devices a chip shows itself as
};
const std::vector<TpuPeaks>& tpu_peaks();
/// Null for a generation that is not in the table.
const TpuPeaks* peaks_of(std::string_view generation);

struct TpuTarget {
  std::string name;        // as given
  std::string generation;  // "v6e"
  std::vector<int64_t> shape;

  int64_t chips() const;
  int64_t devices() const;  // what a mesh is made of
  /// Options of the topology, lists of three: hosts that hold fewer chips than usual, and axes that close to a ring.
  std::vector<std::pair<std::string, std::vector<int64_t>>> options() const;
};

/// Whether `name` begins as the topologies of TPUs do.
bool names_tpu(std::string_view name);
/// E1506 for a chip that is not known, with the nearest, and for a name without a shape.
TpuTarget read_tpu_target(const std::string& name);

}  // namespace megacpp::runtime::plugins
