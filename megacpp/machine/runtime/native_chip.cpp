// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/native_chip.h"

#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/collective_start.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/tier_copy.h"

namespace megacpp::runtime {
namespace {

// Operations on each byte from which a kernel counts as arithmetic: elementwise clusters stay below, products of more
// than a few rows are far above.
constexpr double kArithmeticIntensity = 4;

double StepParts::*part_of(const ir::Graph& graph, const ir::Node& node) {
  if (node.op == ops::kDoneOp || ops::op_def(node.op).is_tier_copy) return &StepParts::links;
  if (const ops::Transfer* transfer = ops::transfer_of(node))
    return transfer->is_of_group() ? &StepParts::links : &StepParts::bubble;
  const ops::Types operands = graph.operand_types(node), results = graph.result_types(node);
  double bytes = 0;
  for (const ir::TensorType& type : operands) bytes += static_cast<double>(type.bytes());
  for (const ir::TensorType& type : results) bytes += static_cast<double>(type.bytes());
  const double flops = ops::op_def(node.op).cost({operands, results, node.attrs}).flops;
  return flops >= kArithmeticIntensity * bytes ? &StepParts::arithmetic : &StepParts::memory;
}

}  // namespace

NativeChip::NativeChip(const compile::StagePrograms& programs, const StepPorts& ports,
                       std::unique_ptr<ChipDevice> device, const Options& options)
    : compiled_(programs),
      plan_(programs.memory),
      device_(std::move(device)),
      queue_(device_->queue()),
      options_(options),
      timer_(queue_, options.timer) {
  for (const memory::StateSlot& slot : plan_.state)
    state_[slot.name] = {at(slot.tier, slot.offset), static_cast<size_t>(slot.type.bytes())};
  for (size_t p = 0; p < programs.programs.size(); ++p) prepare(programs.programs[p], plan_.programs[p]);
  protect_sends();
  prepare_transfers(ports);
  reserve_timer();
}

// ---- Preparing ----

std::byte* NativeChip::at(ir::Tier tier, int64_t offset) const {
  return tier == ir::Tier::device ? device_->at(offset) : device_->at_tier(tier, offset);
}

void NativeChip::prepare(const compile::Program& compiled, const memory::ProgramPlan& plan) {
  const ir::Graph& graph = compiled.graph;
  Program program;
  program.graph = &graph;
  program.plan = &plan;
  program.kind = compile::kind_name(compiled.kind);
  device_->begin_program(graph);
  for (uint32_t n = 0; n < graph.nodes().size(); ++n)
    if (ops::op_def(graph.nodes()[n].op).is_work()) program.calls.push_back(prepare_call(program, n));
  program.whole = device_->finish_program();
  for (const memory::Buffers::Copy& copy : plan.final_copies)
    program.final_copies.push_back({state_.at(copy.to_state).data(), device_->at(plan.value_offset[copy.from.index]),
                                    static_cast<size_t>(graph.type(copy.from).bytes())});
  programs_.push_back(std::move(program));
}

NativeChip::Call NativeChip::prepare_call(const Program& program, uint32_t n) {
  const ir::Graph& graph = *program.graph;
  const ir::Node& node = graph.nodes()[n];
  Call call;
  const size_t op = timer_.op_number(program.kind, node.op);
  call.piece = {.part = part_of(graph, node), .program = &graph, .node = n, .op = op};
  const auto address = [&](ir::ValueId value) {
    const int64_t offset = program.plan->value_offset[value.index];
    const ir::Tier tier = program.plan->value_tier[value.index];
    int64_t& end = tier == ir::Tier::device ? call.end_offset : call.away_offset[tier];
    end = std::max(end, offset + aligned_in(tier, graph.type(value).bytes()));
    return at(tier, offset);
  };
  for (const ir::ValueId operand : node.operands) call.operands.push_back(address(operand));
  for (const ir::ValueId result : node.results) call.results.push_back(address(result));
  const int64_t workspace = program.plan->workspace_offset[n];
  call.device = device_->prepare({.graph = graph,
                                  .node = node,
                                  .operands = call.operands,
                                  .results = call.results,
                                  .workspace = workspace < 0 ? nullptr : device_->at(workspace)});
  const int64_t planned = program.plan->workspace_bytes[n];
  MEGACPP_CHECK(call.device.workspace_bytes <= planned)
      << node.op << " @" << node.scope << " needs " << call.device.workspace_bytes << " bytes of workspace and has "
      << planned << " in the plan";
  if (planned > 0) call.end_offset = std::max(call.end_offset, workspace + aligned(call.device.workspace_bytes));
  MEGACPP_CHECK(call.end_offset <= device_->arena_bytes())
      << node.op << " @" << node.scope << " needs memory up to byte " << call.end_offset << " of an arena of "
      << device_->arena_bytes();
  return call;
}

// A slot's next micro-batch leaves where the last one left, and its receiver may be slower than we are.
void NativeChip::protect_sends() {
  std::map<const std::byte*, std::function<void()>> sends;
  for (const Program& program : programs_)
    for (const Call& call : program.calls)
      if (call.device.drain) {
        sends.emplace(call.operands.at(0), call.device.drain);
        sends_.push_back(call.device.drain);
      }
  for (Program& program : programs_)
    for (const ir::Output& output : program.graph->outputs()) {
      if (output.donated.empty()) continue;
      const auto send = sends.find(state_.at(output.donated).data());
      if (send != sends.end()) program.drains.push_back(send->second);
    }
}

void NativeChip::prepare_transfers(const StepPorts& ports) {
  transfers_.resize(compiled_.step.size());
  for (const StagedInput& input : ports.inputs)
    staged_[input.name] = device_->reserve(static_cast<size_t>(input.type.bytes() * input.micro_steps));
  for (size_t a = 0; a < compiled_.step.size(); ++a) {
    const compile::Action& action = compiled_.step[a];
    for (const compile::StateTensor& tensor : compiled_.state) {
      const bool is_read = tensor.per_micro_step ? action.reads_batch : compiled_.is_update(action);
      if (tensor.staged_as.empty() || !is_read || tensor.name != action.prefix + tensor.staged_as) continue;
      const std::span<std::byte> slot = state_.at(tensor.name);
      const size_t first = tensor.per_micro_step ? static_cast<size_t>(action.micro) * slot.size() : 0;
      transfers_[a].staged.push_back({slot.data(), staged_.at(tensor.staged_as) + first, slot.size()});
    }
  }
  for (const FetchedOutput& output : ports.outputs) {
    const size_t bytes = static_cast<size_t>(output.type.bytes());
    std::byte* to = fetched_[output.name] = device_->reserve(bytes * output.actions.size());
    for (const size_t a : output.actions) {
      const Program& program = programs_[compiled_.step[a].program];
      const ir::ValueId value = *program.graph->find_output(output.name);
      transfers_[a].fetched.push_back({to, device_->at(program.plan->value_offset[value.index]), bytes});
      to += bytes;
    }
  }
}

// Beside its calls an action has copies before and behind its program and waits for sends, and so has the end of a
// step.
void NativeChip::reserve_timer() {
  constexpr size_t kMoreOfAnAction = 4, kMoreOfAStep = 1;
  size_t calls = 0;
  for (const compile::Action& action : compiled_.step) calls += programs_[action.program].calls.size();
  timer_.reserve(calls + kMoreOfAnAction * compiled_.step.size() + kMoreOfAStep, calls);
}

int64_t NativeChip::aligned(int64_t bytes) const { return aligned_in(ir::Tier::device, bytes); }

int64_t NativeChip::aligned_in(ir::Tier tier, int64_t bytes) const {
  const int64_t unit = std::max(device_->alignment(), ir::record(tier).alignment);
  return (bytes + unit - 1) / unit * unit;
}

// ---- The host's side ----

std::optional<int64_t> NativeChip::state_bytes(const std::string& name) const {
  const auto at = state_.find(name);
  return at == state_.end() ? std::nullopt : std::optional(static_cast<int64_t>(at->second.size()));
}

void NativeChip::write_state(const std::string& name, std::span<const std::byte> bytes) {
  device_->upload(state_.at(name).data(), bytes);
}

void NativeChip::read_state(const std::string& name, std::span<std::byte> bytes) const {
  device_->download(bytes, state_.at(name).data());
}

void NativeChip::fill_state(const std::string& name, const FillPiece& fill) {
  const std::span<std::byte> state = state_.at(name);
  device_->fill(state.data(), state.size(), fill);
}

void NativeChip::stage(const StagedInput& input, int64_t micro, std::span<const std::byte> bytes) {
  device_->upload(staged_.at(input.name) + static_cast<size_t>(micro) * bytes.size(), bytes);
}

void NativeChip::read_output(const FetchedOutput& output, std::span<std::byte> values) const {
  device_->download(values, fetched_.at(output.name));
}

ChipMemory NativeChip::memory() const {
  std::vector<TierUse> away;
  for (const auto& [tier, planned] : plan_.away) {
    const auto measured = measured_away_.find(tier);
    away.push_back({tier, planned.bytes, measured == measured_away_.end() ? 0 : measured->second});
  }
  return {.used_bytes = device_->arena_bytes(),
          .limit_bytes = options_.limit_bytes,
          .planned_peak_bytes = plan_.total_bytes,
          .measured_peak_bytes = measured_peak_,
          .away = std::move(away)};
}

// ---- Running ----

void NativeChip::begin_step() {
  if (queue_ != nullptr) queue_->attach();
  timer_.begin_step();
}

void NativeChip::replay_step() {
  queue_->replay([this] {
    for (size_t action = 0; action < compiled_.step.size(); ++action) run_whole(action);
    end_step();
  });
}

void NativeChip::end_step() {
  drain_all(sends_);
  timer_.end_step();
}

void NativeChip::drain_all(const std::vector<std::function<void()>>& drains) {
  if (drains.empty()) return;
  timer_.time({.part = &StepParts::bubble}, [&] {
    for (const auto& drain : drains) drain();
  });
}

void NativeChip::copy_all(const std::vector<Copy>& copies) {
  if (copies.empty()) return;
  timer_.time({.part = &StepParts::memory}, [&] {
    for (const Copy& copy : copies) device_->copy(copy.to, copy.from, copy.bytes);
  });
}

void NativeChip::start(size_t action) {
  copy_all(transfers_[action].staged);
  drain_all(programs_[compiled_.step[action].program].drains);
}

void NativeChip::run(size_t action, StepMode mode) {
  const Program& program = programs_[compiled_.step[action].program];
  start(action);
  for (const Call& call : program.calls) {
    run_call(call);
    if (mode == StepMode::check_values) require_finite(program, call, compiled_.step[action]);
  }
  finish(action);
}

// Nothing is timed and nothing is looked at between nodes.
void NativeChip::run_whole(size_t action) {
  const Program& program = programs_[compiled_.step[action].program];
  if (program.whole.empty()) return run(action, StepMode::plain);
  start(action);
  // What was handed out when nodes were prepared: joined or not, launches have no other addresses.
  for (const Call& call : program.calls) note_memory(call);
  for (const auto& work : program.whole) work();
  finish(action);
}

void NativeChip::finish(size_t action) {
  copy_all(programs_[compiled_.step[action].program].final_copies);
  copy_all(transfers_[action].fetched);
}

void NativeChip::run_half(size_t action) {
  const Program& program = programs_[compiled_.step[action].program];
  start(action);
  for (size_t i = 0; i < program.calls.size() / 2; ++i) run_call(program.calls[i]);
}

void NativeChip::note_memory(const Call& call) {
  measured_peak_ = std::max(measured_peak_, call.end_offset);
  for (const auto& [tier, end] : call.away_offset) measured_away_[tier] = std::max(measured_away_[tier], end);
}

void NativeChip::run_call(const Call& call) {
  note_memory(call);
  timer_.time(call.piece, call.device.run);
}

void NativeChip::require_finite(const Program& program, const Call& call, const compile::Action& action) const {
  const ir::Node& node = program.graph->node(ir::NodeId{call.piece.node});
  if (node.op == ops::kStartOp || node.op == ops::kCopyStartOp) return;  // its results are nobody's to read yet
  for (size_t r = 0; r < node.results.size(); ++r) {
    const ir::TensorType& type = program.graph->type(node.results[r]);
    if (!ir::is_float(type.dtype) || device_->all_finite(call.results[r], type)) continue;
    NotFinite failure(
        BadValue{options_.chip, program.graph->name(), call.piece.node, node.op, node.scope, to_string(type)});
    failure.action = action;
    throw failure;
  }
}

}  // namespace megacpp::runtime
