// SPDX-License-Identifier: Apache-2.0
// Elementwise clusters, compiled for the node at hand when a program is loaded.
#include <span>
#include <string>

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/required_kernels.h"
#include "megacpp/machine/cuda/tile_batch.h"
#include "megacpp/machine/cuda/tile_source.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

// Of a node that has nothing to do there is no program.
bool has_work(const TilePlan& plan) { return plan.elements() > 0 || plan.has_folds; }

void add_required_fused(const ops::NodeView& view, RequiredKernels& required) {
  const TilePlan plan = plan_tiles(view);
  if (has_work(plan)) required.sources.push_back(tile_source(plan, view));
}

Prepared prepare_fused(const ops::NodeView& view, Toolbox& toolbox) {
  const TilePlan plan = plan_tiles(view);
  if (!has_work(plan)) return {.run = [](const Launch&) {}};
  const std::string source = tile_source(plan, view);
  const Function first = toolbox.generated(source, kTileKernel);
  const bool combines = plan.parts > 1;
  const Function second = combines ? toolbox.generated(source, kTileCombineKernel) : Function{};
  const LaunchShape blocks = tile_launch(plan.blocks()), rows = tile_launch(plan.rows);
  Prepared prepared{.run = [=, sizes = plan.sizes()](const Launch& launched) {
    const TileEntry entry =
        tile_entry(sizes, {.operands = launched.operands, .results = launched.results, .partials = launched.workspace});
    launch_with(first, blocks, launched.stream, std::as_bytes(entry.used()));
    if (combines) launch_with(second, rows, launched.stream, std::as_bytes(entry.used()));
  }};
  if (plan.is_flat())
    prepared.table = TableTile{
        .sizes = plan.sizes(), .source = source, .max_entries = max_tile_entries(tile_entry_words(plan, view))};
  return prepared;
}

}  // namespace

Kernel fused_kernel() {
  return {.op = "fused",
          .workspace_bytes = [](const ops::NodeView& view) { return plan_tiles(view).workspace_bytes(); },
          .supports = {},
          .add_required = add_required_fused,
          .prepare = prepare_fused};
}

}  // namespace megacpp::runtime::cuda
