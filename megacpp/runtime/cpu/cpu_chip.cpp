// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cpu/cpu_chip.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "megacpp/base/error.h"
#include "megacpp/ops/collective_start.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/runtime/cpu/storage.h"

namespace megacpp::runtime::cpu {
namespace {

bool all_finite(const std::byte* data, const ir::TensorType& type) {
  const int64_t count = type.elements();
  for (int64_t i = 0; i < count; ++i) {
    const float value = type.dtype == ir::DType::f32 ? reinterpret_cast<const float*>(data)[i]
                                                     : ir::bf16_to_f32(reinterpret_cast<const uint16_t*>(data)[i]);
    if (!std::isfinite(value)) return false;
  }
  return true;
}

}  // namespace

CpuChip::CpuChip(const compile::StagePrograms& programs, const Link& link, const Options& options)
    : plan_(programs.memory), link_(link), options_(options), arena_(plan_.total_bytes), pool_(options.threads) {
  for (const memory::StateSlot& slot : plan_.state)
    state_[slot.name] = {arena_.at(slot.offset), static_cast<size_t>(slot.type.bytes())};
  for (size_t p = 0; p < programs.programs.size(); ++p) prepare(programs.programs[p].graph, plan_.programs[p]);
  protect_sends();
  size_t calls = 0;
  for (const compile::Action& action : programs.step) calls += programs_[action.program].calls.size();
  trace_.reserve(calls * static_cast<size_t>(options.trace_steps));
}

std::span<std::byte> CpuChip::state(const std::string& name) const {
  const auto at = state_.find(name);
  MEGACPP_CHECK(at != state_.end()) << "no state is named '" << name << "'";
  return at->second;
}

void CpuChip::run(size_t program) {
  const Program& loaded = programs_.at(program);
  start(loaded);
  for (const Call& call : loaded.calls) run_call(loaded, call);
  finish(loaded);
}

void CpuChip::run_half(size_t program) {
  const Program& loaded = programs_.at(program);
  start(loaded);
  for (size_t i = 0; i < loaded.calls.size() / 2; ++i) run_call(loaded, loaded.calls[i]);
}

void CpuChip::drain() {
  for (const Program& program : programs_)
    for (const Call& call : program.calls)
      if (call.exchange.drain) call.exchange.drain();
}

std::optional<BadValue> CpuChip::run_checked(size_t program) {
  const Program& loaded = programs_.at(program);
  start(loaded);
  for (const Call& call : loaded.calls) {
    const ir::Node& node = loaded.graph->node(ir::NodeId{call.node});
    run_call(loaded, call);
    if (node.op == ops::kStartOp) continue;  // its results are nobody's to read yet
    for (size_t r = 0; r < node.results.size(); ++r) {
      const ir::TensorType& type = loaded.graph->type(node.results[r]);
      if (ir::is_float(type.dtype) && !all_finite(call.results[r], type))
        return BadValue{link_.chip, loaded.graph->name(), call.node, node.op, node.scope, to_string(type)};
    }
  }
  finish(loaded);
  return std::nullopt;
}

std::span<const std::byte> CpuChip::output(size_t program, const std::string& name) const {
  const Program& loaded = programs_.at(program);
  const auto value = loaded.graph->find_output(name);
  MEGACPP_CHECK(value.has_value()) << "program " << program << " has no output '" << name << "'";
  return {arena_.at(loaded.plan->value_offset[value->index]), static_cast<size_t>(loaded.graph->type(*value).bytes())};
}

void CpuChip::prepare(const ir::Graph& graph, const memory::ProgramPlan& plan) {
  Program program;
  program.graph = &graph;
  program.plan = &plan;
  LinkedProgram linked(graph, link_);
  for (uint32_t n = 0; n < graph.nodes().size(); ++n)
    if (ops::op_def(graph.nodes()[n].op).is_work()) program.calls.push_back(prepare_call(program, linked, n));
  for (const memory::Buffers::Copy& copy : plan.final_copies) {
    const size_t bytes = static_cast<size_t>(graph.type(copy.from).bytes());
    program.final_copies.push_back(
        {arena_.at(plan.value_offset[copy.from.index]), state_.at(copy.to_state).data(), bytes});
  }
  programs_.push_back(std::move(program));
}

CpuChip::Call CpuChip::prepare_call(const Program& program, LinkedProgram& linked, uint32_t n) {
  const ir::Graph& graph = *program.graph;
  const ir::Node& node = graph.nodes()[n];
  Call call;
  call.node = n;
  call.timer = timer_of(node.op);
  const auto address = [&](ir::ValueId value) {
    const int64_t offset = program.plan->value_offset[value.index];
    call.end_offset = std::max(call.end_offset, offset + aligned(graph.type(value).bytes()));
    return arena_.at(offset);
  };
  for (const ir::ValueId operand : node.operands) call.operands.push_back(address(operand));
  for (const ir::ValueId result : node.results) call.results.push_back(address(result));
  const ops::Types operands = graph.operand_types(node), results = graph.result_types(node);
  if (ops::op_def(node.op).is_collective) {
    place_workspace(program, call, options_.collective_workspace(node.op, {operands, results, node.attrs}));
    call.exchange = linked.prepare(node, {call.operands, call.results, call.workspace});
    return call;
  }
  const Kernel* kernel = find_kernel(node.op);
  MEGACPP_CHECK(kernel != nullptr) << "the cpu backend has no kernel for " << node.op << " @" << node.scope;
  call.kernel = prepare_any_storage(*kernel, {operands, results, node.attrs}, pool_.size());
  place_workspace(program, call, call.kernel.workspace_bytes);
  return call;
}

void CpuChip::place_workspace(const Program& program, Call& call, int64_t bytes) const {
  if (bytes == 0) return;
  const ir::Node& node = program.graph->nodes()[call.node];
  const int64_t offset = program.plan->workspace_offset[call.node];
  MEGACPP_CHECK(offset >= 0) << node.op << " @" << node.scope << " has no workspace in the plan";
  call.workspace = arena_.at(offset);
  call.end_offset = std::max(call.end_offset, offset + aligned(bytes));
}

// A slot's next micro-batch leaves where the last one left, and its receiver may be slower than we are.
void CpuChip::protect_sends() {
  std::map<const std::byte*, std::function<void()>> sends;
  for (const Program& program : programs_)
    for (const Call& call : program.calls)
      if (call.exchange.drain) sends.emplace(call.operands.at(0), call.exchange.drain);
  for (Program& program : programs_)
    for (const ir::Output& output : program.graph->outputs()) {
      if (output.donated.empty()) continue;
      const auto send = sends.find(state(output.donated).data());
      if (send != sends.end()) program.drains.push_back(send->second);
    }
}

size_t CpuChip::timer_of(const std::string& op) {
  for (size_t i = 0; i < timers_.size(); ++i)
    if (timers_[i].first == op) return i;
  timers_.emplace_back(op, 0.0);
  return timers_.size() - 1;
}

void CpuChip::run_call(const Program& program, const Call& call) {
  measured_peak_ = std::max(measured_peak_, call.end_offset);
  const bool is_traced = trace_.size() < trace_.capacity();
  if (!options_.profile && !is_traced) return run_now(call);
  const auto start = std::chrono::steady_clock::now();
  run_now(call);
  const auto end = std::chrono::steady_clock::now();
  const auto seconds = [](auto duration) { return std::chrono::duration<double>(duration).count(); };
  timers_[call.timer].second += seconds(end - start);
  if (is_traced)
    trace_.push_back(
        {program.graph, call.node, seconds(start - options_.trace_from), seconds(end - options_.trace_from)});
}

void CpuChip::run_now(const Call& call) {
  if (call.exchange.run) return call.exchange.run();
  call.kernel.run({.operands = call.operands, .results = call.results, .workspace = call.workspace, .pool = pool_});
}

void CpuChip::start(const Program& program) {
  for (const auto& drain : program.drains) drain();
}

void CpuChip::finish(const Program& program) {
  for (const FinalCopy& copy : program.final_copies) std::memcpy(copy.to, copy.from, copy.bytes);
}

}  // namespace megacpp::runtime::cpu
