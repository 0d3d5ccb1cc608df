// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/tile_builder.h"

#include <algorithm>
#include <bit>

namespace megacpp::schedule {
namespace {

using ir::ValueId;
using ops::TileInstruction;

// With more, a thread that holds sixteen bytes of each of them in bf16 runs out of registers.
constexpr size_t kMaxWholeTensors = 12;

}  // namespace

size_t TileCluster::ops() const {
  return static_cast<size_t>(
      std::count_if(program.instructions.begin(), program.instructions.end(),
                    [](const TileInstruction& each) { return each.kind == TileInstruction::Kind::scalar; }));
}

bool TileCluster::is_whole(size_t operand) const {
  for (const TileInstruction& instruction : program.instructions) {
    if (instruction.kind != TileInstruction::Kind::input || operand-- > 0) continue;
    for (size_t d = 0; d < instruction.dims.size(); ++d)
      if (instruction.dims[d] != static_cast<int64_t>(d)) return false;
    return instruction.dims.size() == shape.size();
  }
  return false;
}

bool TileCluster::is_within_limits() const {
  size_t whole = results.size();
  for (size_t i = 0; i < operands.size(); ++i) whole += is_whole(i) ? 1 : 0;
  return ops() <= kMaxTileOps && operands.size() <= ops::kMaxTileInputs && whole <= kMaxWholeTensors;
}

TileCluster take_apart(const ir::Node& fused) {
  return {.shape = fused.attrs.list("shape"),
          .program = ops::parse_tile_program(fused.attrs.text("program")),
          .operands = fused.operands,
          .results = fused.results,
          .scope = fused.scope,
          .role = fused.role};
}

void append_fused(Rewriter& rewriter, const ir::Graph& from, TileCluster cluster) {
  std::string dtypes;
  std::vector<ir::TensorType> types;
  for (const ValueId value : cluster.results) {
    types.push_back(from.type(value));
    dtypes += (dtypes.empty() ? "" : " ") + std::string(ir::dtype_name(types.back().dtype));
  }
  for (ValueId& operand : cluster.operands) operand = rewriter.map(operand);
  ir::Node node{.op = "fused",
                .operands = std::move(cluster.operands),
                .results = {},
                .attrs = {{"program", ops::to_string(cluster.program)}, {"shape", cluster.shape}, {"dtypes", dtypes}},
                .scope = std::move(cluster.scope),
                .role = cluster.role};
  rewriter.replace(cluster.results, std::move(node), types);
}

int TileBuilder::add(TileInstruction instruction) {
  cluster_.program.instructions.push_back(std::move(instruction));
  return static_cast<int>(cluster_.program.instructions.size()) - 1;
}

int TileBuilder::load(ValueId value, const std::vector<int64_t>& dims) {
  const auto [at, is_new] = loads_.emplace(std::pair(value.index, dims), 0);
  if (is_new) {
    cluster_.operands.push_back(value);
    at->second = add({.kind = TileInstruction::Kind::input, .dims = dims});
  }
  return at->second;
}

int TileBuilder::constant(double value) {
  const auto [at, is_new] = constants_.emplace(std::bit_cast<uint64_t>(value), 0);
  if (is_new) at->second = add({.kind = TileInstruction::Kind::constant, .value = value});
  return at->second;
}

int TileBuilder::scalar(const ops::ScalarOp* op, std::vector<int> args) {
  const auto [at, is_new] = scalars_.emplace(std::pair(op->name, args), 0);
  if (is_new) at->second = add({.kind = TileInstruction::Kind::scalar, .op = op, .args = std::move(args)});
  return at->second;
}

void TileBuilder::output(ops::TileOutput output, ValueId value) {
  cluster_.program.outputs.push_back(output);
  cluster_.results.push_back(value);
}

TileCluster TileBuilder::take(std::string scope, ir::Role role) {
  cluster_.scope = std::move(scope);
  cluster_.role = role;
  return std::move(cluster_);
}

struct TileBuilder::Import {
  const TileCluster& from;
  const Replace& replace;
  std::vector<size_t> operand_of = {};  // by register: how many inputs stand before it
  std::vector<int> known = {};          // by register of `from`: the register here; -1: none yet
};

std::vector<int> TileBuilder::import(const TileCluster& from, const std::vector<int>& registers,
                                     const Replace& replace) {
  Import import{.from = from, .replace = replace};
  import.known.resize(from.program.instructions.size(), -1);
  size_t inputs = 0;
  for (const TileInstruction& instruction : from.program.instructions) {
    import.operand_of.push_back(inputs);
    inputs += instruction.kind == TileInstruction::Kind::input ? 1 : 0;
  }
  std::vector<int> here;
  for (const int reg : registers) here.push_back(import_one(import, reg));
  return here;
}

// As deep as a program has ops in a row: kMaxTileOps at most.
int TileBuilder::import_one(Import& import, int reg) {
  const auto r = static_cast<size_t>(reg);
  if (import.known[r] >= 0) return import.known[r];
  if (const std::optional<int> replaced = import.replace(reg)) return import.known[r] = *replaced;
  const TileInstruction& instruction = import.from.program.instructions[r];
  switch (instruction.kind) {
    case TileInstruction::Kind::input:
      return import.known[r] = load(import.from.operands[import.operand_of[r]], instruction.dims);
    case TileInstruction::Kind::constant:
      return import.known[r] = constant(instruction.value);
    case TileInstruction::Kind::scalar:
      break;
  }
  std::vector<int> args;
  for (const int arg : instruction.args) args.push_back(import_one(import, arg));
  return import.known[r] = scalar(instruction.op, std::move(args));
}

void TileBuilder::import_outputs(const TileCluster& from, const Replace& replace) {
  std::vector<int> registers;
  for (const ops::TileOutput& output : from.program.outputs) registers.push_back(output.reg);
  const std::vector<int> here = import(from, registers, replace);
  for (size_t o = 0; o < here.size(); ++o) {
    ops::TileOutput moved = from.program.outputs[o];
    moved.reg = here[o];
    output(moved, from.results[o]);
  }
}

}  // namespace megacpp::schedule
