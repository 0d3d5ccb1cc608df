// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/tile_machine.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cpu/simd.h"

namespace megacpp::runtime::cpu {
namespace {

using ops::TileInstruction;
using ops::TileOutput;

struct RowOp {
  std::string_view name;
  void (*unary)(const float*, float*, int64_t) = nullptr;
  void (*binary)(const float*, const float*, float*, int64_t) = nullptr;
  bool swapped = false;
};

constexpr std::array kRowOps = {RowOp{"abs", row_abs},
                                RowOp{"add", nullptr, row_add},
                                RowOp{"cos", row_cos},
                                RowOp{"div", nullptr, row_div},
                                RowOp{"eq", nullptr, row_eq},
                                RowOp{"exp", row_exp},
                                RowOp{"ge", nullptr, row_le, true},
                                RowOp{"gt", nullptr, row_lt, true},
                                RowOp{"le", nullptr, row_le},
                                RowOp{"log", row_log},
                                RowOp{"log1p", row_log1p},
                                RowOp{"logistic", row_logistic},
                                RowOp{"lt", nullptr, row_lt},
                                RowOp{"max", nullptr, row_max},
                                RowOp{"min", nullptr, row_min},
                                RowOp{"mul", nullptr, row_mul},
                                RowOp{"ne", nullptr, row_ne},
                                RowOp{"neg", row_neg},
                                RowOp{"rsqrt", row_rsqrt},
                                RowOp{"sign", row_sign},
                                RowOp{"sin", row_sin},
                                RowOp{"sqrt", row_sqrt},
                                RowOp{"sub", nullptr, row_sub},
                                RowOp{"tanh", row_tanh}};

const RowOp& row_op(std::string_view name) {
  const auto at = std::find_if(kRowOps.begin(), kRowOps.end(), [name](const RowOp& op) { return op.name == name; });
  MEGACPP_CHECK(at != kRowOps.end()) << "no row routine for " << name;
  return *at;
}

int64_t folded_dims(const ops::TileProgram& program) {
  int64_t folded = 0;
  for (const TileOutput& output : program.outputs) {
    if (output.kind == TileOutput::Kind::store) continue;
    MEGACPP_CHECK(folded == 0 || folded == output.reduced_dims) << "reductions of one program fold the same dimensions";
    folded = output.reduced_dims;
  }
  return folded;
}

// Elements [at, at + n) of a result of any dtype.
void store_row(const float* from, ir::DType dtype, std::byte* result, int64_t at, int64_t n) {
  const ir::DTypeRecord& type = ir::record(dtype);
  type.from_f32(from, result + at * type.bytes(), n);
}

}  // namespace

// Position of one tile in the iteration space and in every tensor.
struct TileMachine::Cursor {
  std::array<int64_t, kMaxRank> index{};     // along all merged dimensions but the last
  std::array<int64_t, kMaxInputs> offset{};  // element offset of the current row, per input
  int64_t row = 0;                           // rows passed: the output row is contiguous
  int64_t column = 0;                        // first element of the tile along the last dimension
};

TileMachine::TileMachine(const ops::NodeView& view, int threads) {
  const ops::TileProgram program = ops::parse_tile_program(view.attrs.text("program"));
  read_program(program, view);
  merge_dims(view.attrs.list("shape"), program, view);
  mark_direct_outputs();
  assign_slots();
  group_short_rows();
  // Enough blocks for any number of threads when a single row must be shared, and never tiny ones.
  constexpr int64_t kBlocks = 64, kTilesPerBlock = 8;
  blocks_ = folds_.empty() || has_groups()
                ? std::max<int64_t>(1, tiles_ / kTilesPerBlock)
                : std::clamp<int64_t>(tiles_ / kTilesPerBlock, 1, std::max<int64_t>(1, kBlocks / kept_rows_));
  slot_bytes_ = static_cast<int64_t>(slots_) * kTile * 4;
  const int64_t partial_bytes = has_groups() ? 0 : kept_rows_ * blocks_ * static_cast<int64_t>(folds_.size()) * 4;
  workspace_bytes_ = slot_bytes_ * threads + partial_bytes;
}

void TileMachine::read_program(const ops::TileProgram& program, const ops::NodeView& view) {
  const size_t registers = program.instructions.size();
  MEGACPP_CHECK(registers <= kMaxRegisters) << "a fused node has " << registers << " registers";
  alias_.resize(registers);
  slot_of_.assign(registers, -1);
  for (size_t r = 0; r < registers; ++r) {
    const TileInstruction& instruction = program.instructions[r];
    alias_[r] = static_cast<int>(r);
    switch (instruction.kind) {
      case TileInstruction::Kind::input: {
        const ir::DType dtype = view.operands[inputs_.size()].dtype;
        inputs_.push_back(
            {.reg = static_cast<int>(r), .dtype = dtype, .element_bytes = ir::dtype_bytes(dtype), .strides = {}});
        break;
      }
      case TileInstruction::Kind::constant:
        constants_.push_back({static_cast<int>(r), static_cast<float>(instruction.value)});
        break;
      case TileInstruction::Kind::scalar:
        add_step(instruction, static_cast<int>(r), program);
        break;
    }
  }
  MEGACPP_CHECK(inputs_.size() <= kMaxInputs) << "a fused node reads " << inputs_.size() << " tensors";
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    const TileOutput& output = program.outputs[o];
    const int reg = alias_[static_cast<size_t>(output.reg)];
    if (output.kind == TileOutput::Kind::store)
      stores_.push_back({o, reg, view.results[o].dtype});
    else
      folds_.push_back({o, reg, view.results[o].dtype, output.kind == TileOutput::Kind::sum});
  }
}

void TileMachine::add_step(const TileInstruction& instruction, int reg, const ops::TileProgram& program) {
  Step step{.kind = Step::Kind::unary, .arity = instruction.args.size(), .reg = reg};
  for (size_t a = 0; a < instruction.args.size(); ++a) step.args[a] = alias_[static_cast<size_t>(instruction.args[a])];
  const std::string_view name = instruction.op->name;
  if (name == "convert") {
    alias_[static_cast<size_t>(reg)] = step.args[0];
    return;
  }
  const auto constant = [&](int arg) -> const TileInstruction* {
    const TileInstruction& source = program.instructions[static_cast<size_t>(arg)];
    return source.kind == TileInstruction::Kind::constant ? &source : nullptr;
  };
  if (name == "select") {
    step.kind = Step::Kind::select;
  } else if ((name == "mul" || name == "add") &&
             (constant(step.args[0]) != nullptr || constant(step.args[1]) != nullptr)) {
    if (constant(step.args[1]) == nullptr) std::swap(step.args[0], step.args[1]);
    step.kind = name == "mul" ? Step::Kind::scale : Step::Kind::offset;
    step.number = static_cast<float>(constant(step.args[1])->value);
    step.args[1] = step.args[0];
    step.arity = 1;
  } else {
    const RowOp& op = row_op(name);
    step.kind = op.unary != nullptr ? Step::Kind::unary : Step::Kind::binary;
    step.unary = op.unary;
    step.binary = op.binary;
    if (op.swapped) std::swap(step.args[0], step.args[1]);
  }
  steps_.push_back(step);
}

// Neighbouring dimensions are one when every input steps through them as through one; folded dimensions stay apart from
// kept ones, and a dimension is always left for the tile.
void TileMachine::merge_dims(const ir::Shape& shape, const ops::TileProgram& program, const ops::NodeView& view) {
  const int64_t kept = static_cast<int64_t>(shape.size()) - folded_dims(program);
  std::vector<std::vector<int64_t>> strides(inputs_.size(), std::vector<int64_t>(shape.size(), 0));
  size_t input = 0;
  for (const TileInstruction& instruction : program.instructions) {
    if (instruction.kind != TileInstruction::Kind::input) continue;
    const ir::Shape own = ir::strides_of(view.operands[input].shape);
    for (size_t i = 0; i < instruction.dims.size(); ++i)
      strides[input][static_cast<size_t>(instruction.dims[i])] = own[i];
    ++input;
  }
  bool at_boundary = false;  // nothing folded has been added yet: no merging with what is kept
  for (size_t d = 0; d < shape.size(); ++d) {
    at_boundary = at_boundary || (!folds_.empty() && static_cast<int64_t>(d) == kept);
    if (shape[d] == 1 && !dims_.empty() && !at_boundary) continue;
    bool merges = !dims_.empty() && !at_boundary;
    for (size_t i = 0; merges && i < inputs_.size(); ++i)
      merges = inputs_[i].strides.back() == strides[i][d] * shape[d];
    if (merges) {
      dims_.back() *= shape[d];
      for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].strides.back() = strides[i][d];
    } else {
      dims_.push_back(shape[d]);
      for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].strides.push_back(strides[i][d]);
    }
    at_boundary = false;
  }
  if (dims_.empty()) {
    dims_.push_back(1);
    for (Input& each : inputs_) each.strides.push_back(0);
  }
  MEGACPP_CHECK(dims_.size() <= kMaxRank) << "a fused node iterates over " << dims_.size() << " dimensions";
  const int64_t total = ir::num_elements(shape);
  if (!folds_.empty()) {
    kept_rows_ = 1;
    for (int64_t d = 0; d < kept; ++d) kept_rows_ *= shape[static_cast<size_t>(d)];
  }
  tiles_per_row_ = (dims_.back() + kTile - 1) / kTile;
  rows_ = dims_.back() == 0 ? 0 : total / dims_.back();
  tiles_ = kept_rows_ == 0 ? 0 : rows_ * tiles_per_row_ / kept_rows_;
}

// An instruction takes as long for two elements as for a hundred, so short rows share a tile: where nothing folds, or
// where each row folds to one element by itself.
void TileMachine::group_short_rows() {
  const bool folds_alone = kept_rows_ == rows_ && tiles_ == 1;
  if (rows_ < 2 || dims_.back() < 2 || 2 * dims_.back() > kTile || (!folds_.empty() && !folds_alone)) return;
  rows_per_tile_ = kTile / dims_.back();
  tiles_ = (rows_ + rows_per_tile_ - 1) / rows_per_tile_;
  kept_rows_ = 1;
  for (Input& input : inputs_) {
    int64_t dense = 1;
    input.is_dense = true;
    for (size_t d = dims_.size(); d-- > 0; dense *= dims_[d])
      input.is_dense = input.is_dense && (dims_[d] == 1 || input.strides[d] == dense);
  }
}

// A step may write an output's memory while later steps run only if none of them reads an input any more: the output
// may overlap an input.
void TileMachine::mark_direct_outputs() {
  const auto is_input = [this](int reg) {
    return std::any_of(inputs_.begin(), inputs_.end(), [reg](const Input& input) { return input.reg == reg; });
  };
  size_t safe_from = 0;
  for (size_t s = 0; s < steps_.size(); ++s)
    for (size_t a = 0; a < steps_[s].arity; ++a)
      if (is_input(steps_[s].args[a])) safe_from = s;
  bool stores_input = false;
  for (const Store& store : stores_) stores_input = stores_input || is_input(store.reg);
  for (const Fold& fold : folds_) stores_input = stores_input || is_input(fold.reg);
  if (stores_input) return;
  for (size_t s = safe_from; s < steps_.size(); ++s) {
    for (Store& store : stores_) {
      if (store.reg != steps_[s].reg || store.dtype != ir::DType::f32 || steps_[s].direct_output >= 0) continue;
      steps_[s].direct_output = static_cast<int>(store.output);
      store.is_direct = true;
    }
  }
}

// Linear scan: a register's slot is free again after its last reader. Constants and loads keep theirs.
void TileMachine::assign_slots() {
  std::vector<size_t> last(alias_.size(), 0);
  for (size_t s = 0; s < steps_.size(); ++s)
    for (size_t a = 0; a < steps_[s].arity; ++a) last[static_cast<size_t>(steps_[s].args[a])] = s;
  for (const Store& store : stores_) last[static_cast<size_t>(store.reg)] = steps_.size();
  for (const Fold& fold : folds_) last[static_cast<size_t>(fold.reg)] = steps_.size();
  for (const Input& input : inputs_) slot_of_[static_cast<size_t>(input.reg)] = slots_++;
  for (const Constant& constant : constants_) slot_of_[static_cast<size_t>(constant.reg)] = slots_++;
  std::vector<int> free;
  for (size_t s = 0; s < steps_.size(); ++s) {
    if (free.empty()) free.push_back(slots_++);
    slot_of_[static_cast<size_t>(steps_[s].reg)] = free.back();
    free.pop_back();
    for (size_t earlier = 0; earlier <= s; ++earlier) {
      const int reg = steps_[earlier].reg;
      const bool dies_here = last[static_cast<size_t>(reg)] == s && earlier < s;
      if (dies_here) free.push_back(slot_of_[static_cast<size_t>(reg)]);
    }
  }
}

void TileMachine::run(const KernelArgs& args) const {
  float* partials = args.scratch(slot_bytes_ * args.pool.size());
  constexpr int64_t kGrainElements = 4096;  // less is not worth waking a thread for
  const int64_t tile_elements = std::min(kTile, rows_per_tile_ * dims_.back());
  const int64_t block_elements = std::max<int64_t>(1, tiles_ / blocks_ * tile_elements);
  const int64_t grain = std::max<int64_t>(1, kGrainElements / block_elements);
  args.pool.parallel_for(kept_rows_ * blocks_, grain, [&](int64_t begin, int64_t end, int worker) {
    float* const slots = args.scratch(slot_bytes_ * worker);
    for (int64_t block = begin; block < end; ++block)
      has_groups() ? run_grouped_block(args, block, slots) : run_block(args, block, slots, partials);
  });
  if (!folds_.empty() && !has_groups()) combine(args, partials);
}

TileMachine::Cursor TileMachine::cursor_at(int64_t row) const {
  Cursor cursor;
  cursor.row = row;
  for (size_t d = dims_.size() - 1; d-- > 0;) {
    cursor.index[d] = row % dims_[d];
    row /= dims_[d];
    for (size_t i = 0; i < inputs_.size(); ++i) cursor.offset[i] += cursor.index[d] * inputs_[i].strides[d];
  }
  return cursor;
}

void TileMachine::next_row(Cursor& cursor) const {
  ++cursor.row;
  for (size_t d = dims_.size() - 1; d-- > 0;) {
    ++cursor.index[d];
    for (size_t i = 0; i < inputs_.size(); ++i) cursor.offset[i] += inputs_[i].strides[d];
    if (cursor.index[d] < dims_[d]) break;
    for (size_t i = 0; i < inputs_.size(); ++i) cursor.offset[i] -= inputs_[i].strides[d] * dims_[d];
    cursor.index[d] = 0;
  }
}

void TileMachine::fill_constants(int64_t n, float* slots, const float** regs) const {
  for (const Constant& constant : constants_) {
    row_fill(constant.value, slot(slots, constant.reg), n);
    regs[constant.reg] = slot(slots, constant.reg);
  }
}

void TileMachine::run_block(const KernelArgs& args, int64_t block, float* slots, float* partials) const {
  const int64_t kept_row = block / blocks_, part = block % blocks_;
  const int64_t begin = kept_row * tiles_ + tiles_ * part / blocks_,
                end = kept_row * tiles_ + tiles_ * (part + 1) / blocks_;
  std::array<const float*, kMaxRegisters> regs;
  fill_constants(std::min(kTile, dims_.back()), slots, regs.data());
  float* partial = partials + block * static_cast<int64_t>(folds_.size());
  for (size_t f = 0; f < folds_.size(); ++f)
    partial[f] = folds_[f].sum ? 0.0F : -std::numeric_limits<float>::infinity();

  Cursor cursor = cursor_at(begin / tiles_per_row_);
  cursor.column = begin % tiles_per_row_ * kTile;
  for (int64_t tile = begin; tile < end; ++tile) {
    const int64_t n = std::min(kTile, dims_.back() - cursor.column), at = cursor.row * dims_.back() + cursor.column;
    load_inputs(args, cursor, n, slots, regs.data());
    execute(args, at, n, slots, regs.data());
    for (size_t f = 0; f < folds_.size(); ++f) {
      const float* values = regs[static_cast<size_t>(folds_[f].reg)];
      partial[f] = folds_[f].sum ? partial[f] + row_sum(values, n) : std::max(partial[f], row_max_value(values, n));
    }
    store(args, at, n, regs.data());  // last: it may overwrite an input
    cursor.column += kTile;
    if (cursor.column < dims_.back()) continue;
    cursor.column = 0;
    next_row(cursor);
  }
}

void TileMachine::run_grouped_block(const KernelArgs& args, int64_t block, float* slots) const {
  const int64_t begin = tiles_ * block / blocks_ * rows_per_tile_,
                end = std::min(rows_, tiles_ * (block + 1) / blocks_ * rows_per_tile_), width = dims_.back();
  std::array<const float*, kMaxRegisters> regs;
  fill_constants(rows_per_tile_ * width, slots, regs.data());
  Cursor cursor = cursor_at(begin);
  while (cursor.row < end) {
    const int64_t first = cursor.row, rows = std::min(rows_per_tile_, end - first), n = rows * width;
    load_grouped_inputs(args, cursor, rows, slots, regs.data());
    execute(args, first * width, n, slots, regs.data());
    for (const Fold& fold : folds_) {
      const float* values = regs[static_cast<size_t>(fold.reg)];
      for (int64_t row = 0; row < rows; ++row, values += width) {
        const float value = fold.sum ? row_sum(values, width) : row_max_value(values, width);
        store_row(&value, fold.dtype, args.results[fold.output], first + row, 1);
      }
    }
    store(args, first * width, n, regs.data());
  }
}

void TileMachine::load_inputs(const KernelArgs& args, const Cursor& cursor, int64_t n, float* slots,
                              const float** regs) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    const bool repeats = input.strides.back() == 0;
    const std::byte* from = args.operands[i] + (cursor.offset[i] + (repeats ? 0 : cursor.column)) * input.element_bytes;
    if (input.dtype == ir::DType::f32 && !repeats) {
      regs[input.reg] = reinterpret_cast<const float*>(from);
      continue;
    }
    float* to = slot(slots, input.reg);
    ir::record(input.dtype).to_f32(from, to, repeats ? 1 : n);
    if (repeats) row_fill(to[0], to, n);
    regs[input.reg] = to;
  }
}

// Rows that follow each other are read where they are, or converted at once; others are put together in the slot. The
// cursor moves behind them.
void TileMachine::load_grouped_inputs(const KernelArgs& args, Cursor& cursor, int64_t rows, float* slots,
                                      const float** regs) const {
  const int64_t width = dims_.back();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    const std::byte* from = args.operands[i] + cursor.offset[i] * input.element_bytes;
    const bool is_there = input.is_dense && input.dtype == ir::DType::f32;
    regs[input.reg] = is_there ? reinterpret_cast<const float*>(from) : slot(slots, input.reg);
    if (input.is_dense && !is_there) ir::record(input.dtype).to_f32(from, slot(slots, input.reg), rows * width);
  }
  for (int64_t row = 0; row < rows; ++row, next_row(cursor))
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Input& input = inputs_[i];
      if (input.is_dense) continue;
      const bool repeats = input.strides.back() == 0;
      float* const to = slot(slots, input.reg) + row * width;
      const std::byte* const from = args.operands[i] + cursor.offset[i] * input.element_bytes;
      ir::record(input.dtype).to_f32(from, to, repeats ? 1 : width);
      if (repeats) std::fill_n(to + 1, width - 1, to[0]);
    }
}

void TileMachine::execute(const KernelArgs& args, int64_t at, int64_t n, float* slots, const float** regs) const {
  for (const Step& step : steps_) {
    float* to =
        step.direct_output >= 0 ? args.out(static_cast<size_t>(step.direct_output)) + at : slot(slots, step.reg);
    const float *a = regs[step.args[0]], *b = regs[step.args[1]];
    switch (step.kind) {
      case Step::Kind::unary:
        step.unary(a, to, n);
        break;
      case Step::Kind::binary:
        step.binary(a, b, to, n);
        break;
      case Step::Kind::select:
        row_select(a, b, regs[step.args[2]], to, n);
        break;
      case Step::Kind::scale:
        row_scale(step.number, a, to, n);
        break;
      case Step::Kind::offset:
        row_offset(step.number, a, to, n);
        break;
    }
    regs[step.reg] = to;
  }
}

void TileMachine::store(const KernelArgs& args, int64_t at, int64_t n, const float** regs) const {
  for (const Store& out : stores_)
    if (!out.is_direct) store_row(regs[out.reg], out.dtype, args.results[out.output], at, n);
}

// Partial results of a row's blocks are folded in block order.
void TileMachine::combine(const KernelArgs& args, const float* partials) const {
  const int64_t folds = static_cast<int64_t>(folds_.size());
  for (size_t f = 0; f < folds_.size(); ++f) {
    for (int64_t row = 0; row < kept_rows_; ++row) {
      const float* part = partials + row * blocks_ * folds + static_cast<int64_t>(f);
      float value = part[0];
      for (int64_t b = 1; b < blocks_; ++b)
        value = folds_[f].sum ? value + part[b * folds] : std::max(value, part[b * folds]);
      store_row(&value, folds_[f].dtype, args.results[folds_[f].output], row, 1);
    }
  }
}

}  // namespace megacpp::runtime::cpu
