// SPDX-License-Identifier: Apache-2.0
// This machine as hardware: N virtual chips that share it evenly. What it can do is measured by the caller
// (runtime/cpu/host_rates.h), since nothing here runs anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/base/json.h"
#include "megacpp/hw/chip.h"

namespace megacpp::hw {

struct HostRates {
  double matrix_flops = 0;              // per second, f32 products with all cores
  double product_bytes_per_second = 0;  // of their operands and results beside that; 0: no time to speak of
  double product_wait = 1;              // how much longer than copies they wait for what is not near
  double attention_flops = 0;           // per second, of the products of attention
  double attention_grad_flops = 0;      // and of its gradient
  ScoreRates scores, score_grads;       // of these two, beside their products
  double ssd_flops = 0;                 // per second, state-space products and their gradients
  double ssd_positions_per_second = 0;  // of positions of their heads, beside these; 0: no time to speak of
  double elementwise_per_second = 0;    // operations of elementwise work, beside what it reads and writes
  double bytes_per_second = 0;          // of memory, read and written bytes together, with all cores
  std::vector<MoveRate> moves;          // the same of what was touched so many bytes ago, by all cores
  NearDistances near;                   // that rates of arithmetic were measured at
  double launch_seconds = 0;            // of every op, beside its work: until all cores have begun and ended
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
