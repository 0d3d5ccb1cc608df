// SPDX-License-Identifier: Apache-2.0
// This machine as hardware: N virtual chips that share it evenly. What it can do is measured by the caller
// (runtime/cpu/host_rates.h), since nothing here runs anything.
#pragma once

#include <cstdint>
#include <string>

#include "megacpp/base/json.h"
#include "megacpp/hw/chip.h"

namespace megacpp::hw {

struct HostRates {
  double matrix_flops = 0;  // per second, f32 products with all cores
  double half_depth = 0;    // terms a sum of products must have to run at half that rate; short ones run slower
  double exponentials_per_second = 0;  // of attention, one for every score, beside its products
  double bytes_per_second = 0;         // of memory, read and written bytes together, with all cores
  int64_t cores = 1;
  int64_t memory = 0;     // bytes
  std::string processor;  // "Neoverse-N1"
  std::string date;       // of the measurement, 2026-11-15
};

base::Json to_json(const HostRates& rates);
/// What the object lacks, or has of another kind, stays 0 or empty.
HostRates host_rates_of(const base::Json& json);

Chip host_chip(const HostRates& rates, int64_t virtual_chips);

}  // namespace megacpp::hw
