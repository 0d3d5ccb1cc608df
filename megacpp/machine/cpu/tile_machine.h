// SPDX-License-Identifier: Apache-2.0
// Runs the tile program of a `fused` node: the iteration space is cut into tiles that stay in the first-level cache,
// and each scalar instruction runs over a whole tile with one row_* call. Compiled once when the program is loaded;
// running never allocates. Work is cut into blocks whose number does not depend on the threads, so sums repeat bit for
// bit on any pool.
#pragma once

#include <cstdint>
#include <vector>

#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/tile_program.h"

namespace megacpp::runtime::cpu {

class TileMachine {
 public:
  TileMachine(const ops::NodeView& view, int threads);

  int64_t workspace_bytes() const { return workspace_bytes_; }
  void run(const KernelArgs& args) const;

 private:
  static constexpr int64_t kTile = 512;  // elements; a dozen registers of it fit 32 KiB
  static constexpr size_t kMaxRegisters = 256;
  static constexpr size_t kMaxRank = 6;
  static constexpr size_t kMaxInputs = ops::kMaxTileInputs;

  using Unary = void (*)(const float*, float*, int64_t);
  using Binary = void (*)(const float*, const float*, float*, int64_t);

  struct Input {
    int reg;
    ir::DType dtype;
    int64_t element_bytes;
    std::vector<int64_t> strides;  // elements, per merged dimension
    bool is_dense = false;         // rows follow each other as those of results do
  };
  struct Constant {
    int reg;
    float value;
  };
  struct Step {
    enum class Kind : uint8_t { unary, binary, select, scale, offset };
    Kind kind;
    Unary unary = nullptr;
    Binary binary = nullptr;
    float number = 0.0F;
    int args[3] = {0, 0, 0};
    size_t arity = 0;
    int reg = 0;
    int direct_output = -1;  // output whose memory the step may write at once; -1: a slot
  };
  struct Store {
    size_t output;
    int reg;
    ir::DType dtype;
    bool is_direct = false;
  };
  struct Fold {
    size_t output;
    int reg;
    ir::DType dtype;
    bool sum;
  };

  void read_program(const ops::TileProgram& program, const ops::NodeView& view);
  void add_step(const ops::TileInstruction& instruction, int reg, const ops::TileProgram& program);
  void merge_dims(const ir::Shape& shape, const ops::TileProgram& program, const ops::NodeView& view);
  void mark_direct_outputs();
  void assign_slots();
  void group_short_rows();

  struct Cursor;
  Cursor cursor_at(int64_t row) const;
  void next_row(Cursor& cursor) const;
  bool has_groups() const { return rows_per_tile_ > 1; }
  void run_block(const KernelArgs& args, int64_t block, float* slots, float* partials) const;
  void run_grouped_block(const KernelArgs& args, int64_t block, float* slots) const;
  void load_inputs(const KernelArgs& args, const Cursor& cursor, int64_t n, float* slots, const float** regs) const;
  void load_grouped_inputs(const KernelArgs& args, Cursor& cursor, int64_t rows, float* slots,
                           const float** regs) const;
  void execute(const KernelArgs& args, int64_t at, int64_t n, float* slots, const float** regs) const;
  void store(const KernelArgs& args, int64_t at, int64_t n, const float** regs) const;
  void fill_constants(int64_t n, float* slots, const float** regs) const;
  void combine(const KernelArgs& args, const float* partials) const;
  float* slot(float* slots, int reg) const {
    return slots + static_cast<int64_t>(slot_of_[static_cast<size_t>(reg)]) * kTile;
  }

  std::vector<Input> inputs_;
  std::vector<Constant> constants_;
  std::vector<Step> steps_;
  std::vector<Store> stores_;
  std::vector<Fold> folds_;
  std::vector<int> alias_;    // register -> register that holds its value (convert is free)
  std::vector<int> slot_of_;  // by register
  int slots_ = 0;

  ir::Shape dims_;             // merged iteration dimensions; the last is the tile direction
  int64_t kept_rows_ = 1;      // iterations of the dimensions that no fold removes; 1 where rows share tiles
  int64_t tiles_ = 0;          // tiles of one kept row; of everything where nothing folds or rows share tiles
  int64_t tiles_per_row_ = 0;  // tiles along the last dimension
  int64_t rows_per_tile_ = 1;  // more where rows are short, and none is shared by tiles
  int64_t rows_ = 0;           // of all dimensions but the last
  int64_t blocks_ = 1;         // of these tiles; fixed by the shape alone
  int64_t workspace_bytes_ = 0;
  int64_t slot_bytes_ = 0;  // per thread
};

}  // namespace megacpp::runtime::cpu
