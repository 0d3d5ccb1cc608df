// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/cache_update_params.h"
#include "megacpp/machine/cuda/kernels/row_launch.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

Prepared prepare_cache_update(const ops::NodeView& view, Toolbox& toolbox) {
  const ir::TensorType& cache = view.operands[0];
  const int64_t batch = cache.dim(0), slots = cache.dim(1), rows = view.operands[1].dim(1);
  const int64_t row_bytes = cache.bytes() / std::max<int64_t>(1, batch * slots);
  const int64_t unit = access_bytes(std::array{row_bytes}), width = row_bytes / unit;
  const uint32_t threads = std::bit_ceil(static_cast<uint32_t>(std::clamp<int64_t>(width, 32, kRowThreads)));
  const LaunchShape shape{.grid = {static_cast<uint32_t>(slots), static_cast<uint32_t>(batch), 1},
                          .block = {threads, 1, 1}};
  const Function function = toolbox.function("cache_update", "cache_update_" + std::to_string(unit));
  return {.run = [=](const Launch& launched) {
    launch(function, shape, launched.stream,
           CacheUpdateParams{.cache = launched.operands[0],
                             .written = launched.operands[1],
                             .slot_labels = launched.operands[2],
                             .row_labels = launched.operands[3],
                             .to = launched.results[0],
                             .width = width,
                             .slots = static_cast<int32_t>(slots),
                             .rows = static_cast<int32_t>(rows)});
  }};
}

}  // namespace

Kernel cache_update_kernel() {
  return {.op = "cache_update", .workspace_bytes = {}, .supports = {}, .prepare = prepare_cache_update};
}

}  // namespace megacpp::runtime::cuda
