// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/philox.h"
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/random_params.h"
#include "megacpp/machine/cuda/kernels/row_launch.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

Prepared prepare_random(const ops::NodeView& view, Toolbox& toolbox) {
  const int64_t count = view.results[0].elements();
  const base::Philox philox(static_cast<uint64_t>(view.attrs.integer("seed")), view.attrs.text("site"));
  const RandomParams params{.step = 0,
                            .to = 0,
                            .count = static_cast<uint64_t>(count),
                            .key0 = philox.key0(),
                            .key1 = philox.key1(),
                            .multiplier0 = base::Philox::kMultiplier0,
                            .multiplier1 = base::Philox::kMultiplier1,
                            .weyl0 = base::Philox::kWeyl0,
                            .weyl1 = base::Philox::kWeyl1,
                            .rounds = base::Philox::kRounds};
  const Function function = toolbox.function("random", "random_" + view.attrs.text("distribution"));
  return {.run = [params, function, shape = flat_launch((count + 3) / 4)](const Launch& launched) {
    RandomParams bound = params;
    bound.step = launched.operands[0];
    bound.to = launched.results[0];
    launch(function, shape, launched.stream, bound);
  }};
}

}  // namespace

Kernel random_kernel() { return {.op = "random", .workspace_bytes = {}, .supports = {}, .prepare = prepare_random}; }

}  // namespace megacpp::runtime::cuda
