// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/cpu_device.h"

#include <cstring>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/storage.h"
#include "megacpp/machine/runtime/collective_call.h"
#include "megacpp/machine/runtime/finite_values.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cpu {

CpuDevice::CpuDevice(const Link& link, Options options)
    : transport_(std::move(options.transport)),
      arena_(options.arena_bytes),
      packing_(options.threads),
      pool_(options.threads),
      link_(link) {}

std::byte* CpuDevice::reserve(size_t bytes) { return reserved_.emplace_back(bytes).data(); }

void CpuDevice::begin_program(const ir::Graph& graph) {
  linked_.push_back(std::make_unique<LinkedProgram>(graph, link_, work_));
}

DeviceCall CpuDevice::prepare(const BoundNode& bound) {
  const ir::Node& node = bound.node;
  const ops::Types operands = bound.graph.operand_types(node), results = bound.graph.result_types(node);
  if (ops::op_def(node.op).is_collective) {
    DeviceCall call = linked_.back()->prepare(node, {bound.operands, bound.results, bound.workspace});
    call.workspace_bytes = workspace_bytes(transport_, node.op, {operands, results, node.attrs});
    return call;
  }
  const Kernel* kernel = find_kernel(node.op);
  MEGACPP_CHECK(kernel != nullptr) << "the cpu backend has no kernel for " << node.op << " @" << node.scope;
  Prepared prepared = prepare_any_storage(*kernel, {operands, results, node.attrs}, pool_.size());
  const int64_t wanted = prepared.workspace_bytes;
  return {.run = [run = std::move(prepared.run), args = KernelArgs{.operands = bound.operands,
                                                                   .results = bound.results,
                                                                   .workspace = bound.workspace,
                                                                   .pool = pool_}] { run(args); },
          .workspace_bytes = wanted};
}

void CpuDevice::copy(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }

void CpuDevice::upload(std::byte* to, std::span<const std::byte> from) { std::memcpy(to, from.data(), from.size()); }

void CpuDevice::download(std::span<std::byte> to, const std::byte* from) const {
  std::memcpy(to.data(), from, to.size());
}

bool CpuDevice::all_finite(const std::byte* data, const ir::TensorType& type) const {
  return runtime::all_finite({data, static_cast<size_t>(type.bytes())}, type.dtype);
}

}  // namespace megacpp::runtime::cpu
