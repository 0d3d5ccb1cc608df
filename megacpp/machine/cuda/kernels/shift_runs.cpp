// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/shift_runs.h"

#include <vector>

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/floats.h"
#include "megacpp/machine/cuda/kernels/shift_runs_params.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr uint32_t kShiftThreads = 256;

// One operand: its runs in units that one access moves, and the function for them.
struct RunsMove {
  ShiftRunsParams params;
  Function function;
};

RunsMove runs_move(const ir::TensorType& type, ops::RunShift shift, Toolbox& toolbox) {
  const int64_t runs = type.dim(0) * type.dim(1), bytes = type.bytes() / std::max<int64_t>(1, runs);
  const bool is_wide = bytes % 16 == 0;  // else elements of 2 or 4 bytes
  return {{.from = 0,
           .to = 0,
           .batch = type.dim(0),
           .count = type.dim(1),
           .units = bytes / (is_wide ? 16 : 2),
           .balanced = shift.balanced ? 1 : 0,
           .reverse = shift.reverse ? 1 : 0},
          toolbox.function("shift_runs", is_wide ? "shift_runs_16" : "shift_runs_2")};
}

Prepared prepare_shift_runs(const ops::NodeView& view, Toolbox& toolbox) {
  std::vector<RunsMove> moves;
  for (const ir::TensorType& type : view.operands)
    moves.push_back(runs_move(type, ops::run_shift(view.attrs), toolbox));
  return {[moves](const Launch& l) {
    for (size_t i = 0; i < moves.size(); ++i) {
      ShiftRunsParams params = moves[i].params;
      params.from = l.operands[i];
      params.to = l.results[i];
      const int64_t blocks = ceil_div(params.batch * params.count * params.units, kShiftThreads);
      launch(moves[i].function, {.grid = {static_cast<uint32_t>(blocks), 1, 1}, .block = {kShiftThreads, 1, 1}},
             l.stream, params);
    }
  }};
}

}  // namespace

Kernel shift_runs_kernel() { return {.op = "shift_runs", .prepare = prepare_shift_runs}; }

}  // namespace megacpp::runtime::cuda
