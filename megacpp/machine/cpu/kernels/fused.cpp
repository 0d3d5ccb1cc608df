// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/tile_machine.h"

namespace megacpp::runtime::cpu {
namespace {

Prepared prepare_fused(const ops::NodeView& view, int threads) {
  // Shared because std::function copies its target; the machine itself is read-only.
  const auto machine = std::make_shared<const TileMachine>(view, threads);
  return {.run = [machine](const KernelArgs& args) { machine->run(args); },
          .workspace_bytes = machine->workspace_bytes()};
}

}  // namespace

Kernel fused_kernel() { return {.op = "fused", .prepare = prepare_fused, .supports = {}, .takes_any_storage = true}; }

}  // namespace megacpp::runtime::cpu
