// SPDX-License-Identifier: Apache-2.0
// How fast this machine's threads are at what steps spend their time on, by the kernels that steps run: all kinds in
// turns, of which the median counts, and in a turn the mean. A step is a mean too: of cores whose neighbours are busy
// now and idle then, the shortest of several times is one that no step has.
#pragma once

#include <vector>

#include "megacpp/base/thread_pool.h"
#include "megacpp/hw/chip.h"

namespace megacpp::runtime::cpu {

/// Each per second, with all threads. Rates of what takes no time that could be told are 0.
struct MeasuredRates {
  double product_flops = 0;            // of f32 products
  double product_bytes = 0;            // of their operands and results, packed and written beside that
  double product_wait = 1;             // no rate: how much longer than copies they wait for what is not near
  double attention_flops = 0;          // of the products of attention
  double attention_grad_flops = 0;     // and of its gradient
  hw::ScoreRates scores, score_grads;  // of these two, beside their products
  double ssd_flops = 0;                // of state-space products and their gradients
  double ssd_positions = 0;                // of positions of their heads, beside these
  double elementwise = 0;              // operations of elementwise programs, beside what they read and write
  double bytes = 0;                    // read and written by a copy too large for the caches
  std::vector<hw::MoveRate> moves;     // and by copies of less, again and again
  double launch_seconds = 0;           // no rate: until all threads have begun and ended, beside their work
};

MeasuredRates measure_rates(base::ThreadPool& pool);

}  // namespace megacpp::runtime::cpu
