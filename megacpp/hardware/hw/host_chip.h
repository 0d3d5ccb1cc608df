// SPDX-License-Identifier: Apache-2.0
// This machine as hardware: N virtual chips that share it evenly. What it can do is measured by the caller
// (machine/cpu/host_rates.h), since nothing here runs anything.
#pragma once

#include <cstdint>
#include <string>

#include "megacpp/core/base/json.h"
#include "megacpp/hardware/hw/chip.h"

namespace megacpp::hw {

/// With all cores, by the kernels that steps run.
struct HostRates {
  double matrix_flops = 0;      // per second, of f32 products
  double scan_flops = 0;        // of attention, state-space products and their gradients; 0: as of products
  double bytes_per_second = 0;  // that elementwise programs read and write, their arithmetic included
  int64_t cores = 1;
  int64_t memory = 0;     // bytes
  std::string processor;  // "Neoverse-N1"
  std::string kernels;    // of products: "neoversen1"
  std::string date;       // of the measurement, 2026-11-15
};

base::Json to_json(const HostRates& rates);
/// What the object lacks stays as it is above; what it has of another kind is NaN, 0 or empty.
HostRates host_rates_of(const base::Json& json);

Chip host_chip(const HostRates& rates, int64_t virtual_chips);

}  // namespace megacpp::hw
