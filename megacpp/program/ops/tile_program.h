// SPDX-License-Identifier: Apache-2.0
// The scalar program inside a `fused` node. It runs once per element of the iteration shape (the node's "shape"
// attribute): registers hold f32 numbers; operands are read through a dimension map (a dimension an operand lacks is
// broadcast); an output is stored for every element, or summed / maximised over trailing dimensions.
// Text form, one register per in/const/op in order:
//   in(0,1) in(1) const(0.5) mul(%0,%1) add(%3,%2) out(%4) sum(%3;1)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/program/ops/scalar_ops.h"

namespace megacpp::ops {

/// Most operands of one program: a backend may keep a pointer to each at hand.
inline constexpr size_t kMaxTileInputs = 24;

struct TileInstruction {
  enum class Kind : uint8_t { input, constant, scalar };
  Kind kind;
  std::vector<int64_t> dims = {};  // input: operand dimension i is iteration dimension dims[i]; operands in order
  double value = 0.0;              // constant
  const ScalarOp* op = nullptr;    // scalar
  std::vector<int> args = {};      // scalar: registers
};

struct TileOutput {
  enum class Kind : uint8_t { store, sum, max };
  Kind kind;
  int reg;
  int64_t reduced_dims = 0;  // trailing dimensions folded away; 0 for store
};

struct TileProgram {
  std::vector<TileInstruction> instructions;  // register i is the value of instruction i
  std::vector<TileOutput> outputs;            // one per result
};

/// The register that holds the same number as `reg` once converts are looked through: registers are not rounded.
int looked_through_converts(const TileProgram& program, int reg);

std::string to_string(const TileProgram& program);
/// E1301 when the text is not a program.
TileProgram parse_tile_program(std::string_view text);

}  // namespace megacpp::ops
