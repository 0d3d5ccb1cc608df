// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/shift_runs.h"

#include <algorithm>
#include <cstring>

#include "megacpp/machine/cpu/kernel.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kShiftBytesPerGrain = 64 * 1024;

// Dense [batch, runs, bytes].
struct Runs {
  int64_t batch, count, bytes;
};

void shift(const Runs& runs, ops::RunShift shift, const std::byte* from, std::byte* to, base::ThreadPool& pool) {
  const int64_t grain = std::max<int64_t>(1, kShiftBytesPerGrain / std::max<int64_t>(1, runs.bytes));
  pool.parallel_for(runs.batch * runs.count, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i / runs.count * runs.count, time = i % runs.count;
      const int64_t source = shift.reverse ? time + 1 : time - 1;
      const auto at = [&](int64_t t) { return (first + ops::stored_run(t, runs.count, shift.balanced)) * runs.bytes; };
      const size_t bytes = static_cast<size_t>(runs.bytes);
      if (source < 0 || source == runs.count)
        std::memset(to + at(time), 0, bytes);
      else
        std::memcpy(to + at(time), from + at(source), bytes);
    }
  });
}

Prepared prepare_shift(const ops::NodeView& view, int) {
  std::vector<Runs> operands;
  for (const ir::TensorType& type : view.operands)
    operands.push_back({type.dim(0), type.dim(1), type.bytes() / std::max<int64_t>(1, type.dim(0) * type.dim(1))});
  return {[operands, how = ops::run_shift(view.attrs)](const KernelArgs& args) {
    for (size_t i = 0; i < operands.size(); ++i) shift(operands[i], how, args.operands[i], args.results[i], args.pool);
  }};
}

}  // namespace

Kernel shift_runs_kernel() {
  return {.op = "shift_runs", .prepare = prepare_shift, .supports = {}, .takes_any_storage = true};
}

}  // namespace megacpp::runtime::cpu
