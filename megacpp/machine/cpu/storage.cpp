// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/storage.h"

#include <array>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cpu/arena.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kStorageGrain = 4096;  // elements a thread converts at least
constexpr size_t kMaxTensors = 16;       // operands or results of one kernel

// One tensor that is narrow in storage and f32 in the kernel.
struct Widened {
  size_t index;
  const ir::DTypeRecord* stored;
  int64_t elements;
  int64_t workspace_offset;
};

struct StoragePlan {
  std::vector<Widened> operands;
  std::vector<Widened> results;
  int64_t bytes = 0;
};

StoragePlan plan_widening(ops::Types& operands, ops::Types& results) {
  StoragePlan plan;
  const auto widen = [&plan](ops::Types& types, std::vector<Widened>& list) {
    for (size_t i = 0; i < types.size(); ++i) {
      if (!ir::is_narrow(types[i].dtype)) continue;
      list.push_back({i, &ir::record(types[i].dtype), types[i].elements(), plan.bytes});
      types[i].dtype = ir::DType::f32;
      plan.bytes += aligned(types[i].bytes());
    }
  };
  widen(operands, plan.operands);
  widen(results, plan.results);
  return plan;
}

void run_widened(const StoragePlan& plan, const Prepared& inner, const KernelArgs& args) {
  std::array<std::byte*, kMaxTensors> operands{}, results{};
  std::copy(args.operands.begin(), args.operands.end(), operands.begin());
  std::copy(args.results.begin(), args.results.end(), results.begin());
  for (const Widened& tensor : plan.operands) {
    const std::byte* const from = args.operands[tensor.index];
    auto* to = args.scratch<float>(tensor.workspace_offset);
    args.pool.parallel_for(tensor.elements, kStorageGrain,
                           [&stored = *tensor.stored, from, to](int64_t begin, int64_t end, int) {
                             stored.to_f32(from + begin * stored.bytes(), to + begin, end - begin);
                           });
    operands[tensor.index] = args.workspace + tensor.workspace_offset;
  }
  for (const Widened& tensor : plan.results) results[tensor.index] = args.workspace + tensor.workspace_offset;
  inner.run({.operands = {operands.data(), args.operands.size()},
             .results = {results.data(), args.results.size()},
             .workspace = args.workspace + plan.bytes,
             .pool = args.pool});
  for (const Widened& tensor : plan.results) {
    const auto* from = args.scratch<float>(tensor.workspace_offset);
    std::byte* const to = args.results[tensor.index];
    args.pool.parallel_for(tensor.elements, kStorageGrain,
                           [&stored = *tensor.stored, from, to](int64_t begin, int64_t end, int) {
                             stored.from_f32(from + begin, to + begin * stored.bytes(), end - begin);
                           });
  }
}

}  // namespace

Prepared prepare_any_storage(const Kernel& kernel, const ops::NodeView& view, int threads) {
  ops::Types operands = view.operands, results = view.results;
  StoragePlan plan = kernel.takes_any_storage ? StoragePlan{} : plan_widening(operands, results);
  Prepared inner = kernel.prepare({operands, results, view.attrs}, threads);
  if (plan.operands.empty() && plan.results.empty()) return inner;
  MEGACPP_CHECK(operands.size() <= kMaxTensors && results.size() <= kMaxTensors)
      << kernel.op << " has too many tensors";
  const int64_t bytes = plan.bytes + inner.workspace_bytes;
  return {.run = [plan = std::move(plan),
                  inner = std::move(inner)](const KernelArgs& args) { run_widened(plan, inner, args); },
          .workspace_bytes = bytes};
}

}  // namespace megacpp::runtime::cpu
