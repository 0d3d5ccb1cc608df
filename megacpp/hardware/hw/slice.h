// SPDX-License-Identifier: Apache-2.0
// Hardware by name, "v6e:16x16", "h100:16", "my-chip.yaml:4x4" or "host:4": the chip, how many, and where each is.
// Chips are counted with the first dimension fastest, as the TPU's own coordinates are.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "megacpp/hardware/hw/chip.h"
#include "megacpp/hardware/hw/chip_library.h"
#include "megacpp/hardware/hw/host_chip.h"

namespace megacpp::hw {

struct Slice {
  std::string name;  // "v6e:2x2", whatever alias it was asked for by; a file is named as given
  Chip chip;
  Sizes sizes;  // of a torus; of GPUs {chips of a node, nodes}

  int64_t chips() const { return product(sizes); }
  /// What a mesh is made of: a chip may show itself as several, which follow each other.
  int64_t devices() const { return chips() * chip.devices; }

  Sizes coordinates(int64_t index) const;  // of a chip: {3, 0}
  int64_t hosts() const;
  int64_t host_of(int64_t index) const;
  std::string host_name(int64_t index) const;  // "host 3"

  /// Whether the chips along a dimension form a ring. Behind a switch they do.
  bool wraps(size_t dimension) const;
  /// Links in one line of chips along a dimension; with a ring as many as chips.
  int64_t links_along(size_t dimension) const;
};

struct TargetOptions {
  ChipPlaces places = ChipPlaces::current();
  std::function<HostRates()> host_rates = {};  // asked only for "host"; E1602 there without
  int64_t host_chips = 0;                      // virtual chips that share a machine; 0: all of the slice
};

/// E1601 for a chip that is not known, with the nearest; E1602 for a slice it does not come in, with the nearest ones.
Slice parse_target(const std::string& name, const TargetOptions& options = {});

/// Slices of a chip, smallest first. Of blocks only the sorted shapes; nothing for nodes, which take any number.
std::vector<Sizes> valid_slices(const Chip& chip);

}  // namespace megacpp::hw
