// SPDX-License-Identifier: Apache-2.0
#include "bench/loaded_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "megacpp/program/ops/builder.h"
#include "megacpp/program/schedule/decompose.h"
#include "megacpp/program/schedule/fuse.h"

namespace megacpp::runtime::cuda {
namespace {

// Of each chunk, which all rows of it are of: some experts have twice the rows of others, and none a whole tile's.
std::vector<int32_t> uneven_counts(int64_t chunks, int64_t experts, std::mt19937& random) {
  std::vector<int32_t> counts(static_cast<size_t>(chunks * experts), 0);
  std::uniform_int_distribution<int64_t> near(-60, 60);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    int64_t left = kChunkRows;
    for (int64_t expert = 0; expert < experts; ++expert) {
      const int64_t share = kChunkRows * (2 * experts + 2 * expert - experts + 1) / (2 * experts * experts);
      const int64_t rows = expert + 1 < experts ? std::clamp<int64_t>(share + near(random), 0, left) : left;
      counts[static_cast<size_t>(chunk * experts + expert)] = static_cast<int32_t>(rows);
      left -= rows;
    }
  }
  return counts;
}

// Normal numbers, small enough for silu; a block of them again and again.
std::vector<uint16_t> normal_bf16(int64_t elements, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 0.05F);
  std::vector<uint16_t> block(size_t{1} << 20);
  for (uint16_t& word : block) word = static_cast<uint16_t>(std::bit_cast<uint32_t>(normal(random)) >> 16);
  std::vector<uint16_t> words(static_cast<size_t>(elements));
  for (size_t i = 0; i < words.size(); ++i) words[i] = block[i % block.size()];
  return words;
}

}  // namespace

double OpCase::flops() const {
  const ops::OpDef& def = ops::op_def(op);
  const ops::Types results = def.infer(operands, attrs);
  return def.cost({operands, results, attrs}).flops;
}

ir::Graph program_of(const OpCase& one, const schedule::Target& target) {
  ir::Graph graph(one.name);
  ops::Builder builder(graph);
  std::vector<ir::ValueId> operands;
  for (size_t i = 0; i < one.operands.size(); ++i)
    operands.push_back(builder.input("x" + std::to_string(i), one.operands[i], ir::Role::batch));
  const std::vector<ir::ValueId> results = builder.node(one.op, operands, one.attrs);
  for (size_t r = 0; r < results.size(); ++r) graph.add_output({.name = std::to_string(r), .value = results[r]});
  return schedule::lower_elementwise(schedule::fuse(schedule::decompose(graph, target).graph));
}

LoadedProgram::LoadedProgram(ir::Graph graph, const Gpu& gpu) : graph_(std::move(graph)), gpu_(gpu) {
  int64_t bytes = 0;
  const auto book = [&bytes](int64_t more) {
    const int64_t at = bytes;
    bytes += (more + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  };
  std::vector<int64_t> values, workspaces;
  for (const ir::Value& value : graph_.values()) values.push_back(book(value.type.bytes()));
  for (const ir::Node& node : graph_.nodes()) workspaces.push_back(book(workspace_bytes(node)));
  memory_ = gpu.toolbox().borrow(bytes);
  if (!memory_) throw std::runtime_error(fmt::format("the GPU has no {} bytes left", bytes));
  for (const int64_t at : values) values_.push_back(memory_->address() + static_cast<Address>(at));
  for (const int64_t at : workspaces) workspaces_.push_back(memory_->address() + static_cast<Address>(at));
  for (const ir::Node& node : graph_.nodes()) prepare(node);
}

void LoadedProgram::fill_inputs() const {
  std::mt19937 random(1);
  for (const ir::Node& node : graph_.nodes())
    if (node.op == ir::kInputOp) fill(node.results[0], random);
}

double LoadedProgram::seconds(int repeats) const {
  const auto run_all = [this, repeats](Stream* stream) {
    for (int i = 0; i < repeats; ++i) run(stream);
  };
  return gpu_.toolbox().seconds_of(run_all) / repeats;
}

int64_t LoadedProgram::workspace_bytes(const ir::Node& node) const {
  if (node.op == ir::kInputOp) return 0;
  const ops::Types operands = graph_.operand_types(node), results = graph_.result_types(node);
  const Kernel* const kernel = find_kernel(node.op);
  return kernel->workspace_bytes ? kernel->workspace_bytes({operands, results, node.attrs}) : 0;
}

void LoadedProgram::prepare(const ir::Node& node) {
  if (node.op == ir::kInputOp) return;
  const ops::Types operands = graph_.operand_types(node), results = graph_.result_types(node);
  Step step{.prepared = find_kernel(node.op)->prepare({operands, results, node.attrs}, gpu_.toolbox()),
            .operands = {},
            .results = {},
            .workspace = workspaces_[static_cast<size_t>(&node - graph_.nodes().data())]};
  for (const ir::ValueId value : node.operands) step.operands.push_back(values_[value.index]);
  for (const ir::ValueId value : node.results) step.results.push_back(values_[value.index]);
  steps_.push_back(std::move(step));
}

void LoadedProgram::fill(ir::ValueId value, std::mt19937& random) const {
  const ir::TensorType& type = graph_.type(value);
  Stream* const stream = gpu_.toolbox().stream();
  const auto upload = [&](const auto& values) {
    gpu_.driver().memcpy_to_device_async(values_[value.index], values.data(), static_cast<size_t>(type.bytes()),
                                         stream);
    gpu_.driver().stream_synchronize(stream);
  };
  if (type.dtype == ir::DType::i32)
    upload(uneven_counts(type.elements() / type.dim(-1), type.dim(-1), random));
  else
    upload(normal_bf16(type.elements(), random));
}

void LoadedProgram::run(Stream* stream) const {
  for (const Step& step : steps_) step.prepared.run({step.operands, step.results, step.workspace, stream});
}

}  // namespace megacpp::runtime::cuda
