// SPDX-License-Identifier: Apache-2.0
// How fast this machine's threads are at what steps spend their time on, each measured for about 0.2 seconds.
#pragma once

#include "megacpp/base/thread_pool.h"

namespace megacpp::runtime::cpu {

/// f32 products: a sum of n terms runs at peak * n / (n + half_depth).
struct ProductRates {
  double peak = 0;        // operations per second
  double half_depth = 0;  // terms
};
ProductRates measure_products(base::ThreadPool& pool);

/// Exponentials per second of attention, forward and backward: what its scores take beyond products at that peak.
double measure_exponentials(base::ThreadPool& pool, double peak);

/// Bytes per second read and written by a copy too large for the caches.
double measure_copies(base::ThreadPool& pool);

}  // namespace megacpp::runtime::cpu
