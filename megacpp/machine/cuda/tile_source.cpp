// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/tile_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string_view>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cuda/function.h"

namespace megacpp::runtime::cuda {
namespace {

using ops::TileInstruction;
using ops::TileOutput;

struct ScalarText {
  std::string_view name;
  std::string_view text;  // of {0}, {1}, {2}
};

// One for each of ops/scalar_ops, sorted. The logistic is also in kernels/swiglu.cuh, whose epilogues have the bits of
// the clusters that they replace.
constexpr std::array kScalarTexts = {ScalarText{"abs", "fabsf({0})"},
                                     ScalarText{"add", "{0} + {1}"},
                                     ScalarText{"convert", "{0}"},
                                     ScalarText{"cos", "cosf({0})"},
                                     ScalarText{"div", "{0} / {1}"},
                                     ScalarText{"eq", "{0} == {1} ? 1.0f : 0.0f"},
                                     ScalarText{"exp", "expf({0})"},
                                     ScalarText{"ge", "{0} >= {1} ? 1.0f : 0.0f"},
                                     ScalarText{"gt", "{0} > {1} ? 1.0f : 0.0f"},
                                     ScalarText{"le", "{0} <= {1} ? 1.0f : 0.0f"},
                                     ScalarText{"log", "logf({0})"},
                                     ScalarText{"log1p", "log1pf({0})"},
                                     ScalarText{"logistic", "reciprocal(1.0f + expf(-{0}))"},
                                     ScalarText{"lt", "{0} < {1} ? 1.0f : 0.0f"},
                                     ScalarText{"max", "{0} > {1} ? {0} : {1}"},
                                     ScalarText{"min", "{0} < {1} ? {0} : {1}"},
                                     ScalarText{"mul", "{0} * {1}"},
                                     ScalarText{"ne", "{0} != {1} ? 1.0f : 0.0f"},
                                     ScalarText{"neg", "-{0}"},
                                     ScalarText{"rsqrt", "rsqrtf({0})"},
                                     ScalarText{"select", "{0} != 0.0f ? {1} : {2}"},
                                     ScalarText{"sign", "{0} > 0.0f ? 1.0f : {0} < 0.0f ? -1.0f : 0.0f"},
                                     ScalarText{"sin", "sinf({0})"},
                                     ScalarText{"sqrt", "sqrtf({0})"},
                                     ScalarText{"sub", "{0} - {1}"},
                                     ScalarText{"tanh", "tanhf({0})"}};

std::string_view scalar_text(std::string_view name) {
  const auto at = std::find_if(kScalarTexts.begin(), kScalarTexts.end(),
                               [name](const ScalarText& each) { return each.name == name; });
  MEGACPP_CHECK(at != kScalarTexts.end()) << "no CUDA text for " << name;
  return at->text;
}

// Values that a thread which folds has loaded at once: 16 keep it at 32 registers, so that a multiprocessor holds all
// of its 2048 threads.
constexpr int64_t kElementsInFlight = 16;

// By its bits: exact, and infinities and NaN have no other text.
std::string float_text(double value) {
  return fmt::format("__uint_as_float(0x{:08x}u)", std::bit_cast<uint32_t>(static_cast<float>(value)));
}

// Writes the kernels of one node.
class TileWriter {
 public:
  TileWriter(const TilePlan& plan, const ops::NodeView& view) : plan_(plan), view_(view) {
    for (const TileInstruction& instruction : plan.program.instructions)
      if (instruction.kind == TileInstruction::Kind::input) ++inputs_;
  }

  std::string run() {
    line("typedef {} Index;", plan_.elements() >= (int64_t{1} << 31) ? "unsigned long long" : "unsigned");
    line("constexpr int kVector = {};", plan_.vector);
    declare_entry();
    if (plan_.is_flat()) declare_table();
    if (plan_.has_folds)
      fold_body();
    else
      map_body();
    kernel(kTileKernel, "Entry", "fused_block(p, blockIdx.x);");
    if (plan_.is_flat())
      kernel(kTileBatchKernel, "Table",
             "const Entry& own = p.entries[entry_of(p, blockIdx.x)]; fused_block(own, blockIdx.x - own.first_block);");
    if (has_combine()) combine_kernels();
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  // As tile_entry() fills it.
  void declare_entry() {
    line("struct Entry {{");
    line("  char *in[{}], *out[{}];", std::max<size_t>(1, inputs_), view_.results.size());
    if (plan_.has_folds) line("  char* partials; unsigned long long part_vectors;");
    line("  unsigned long long vectors;");
    line("  unsigned first_block, parts;");
    line("}};");
  }

  // The last entry that begins at or before the block; the first begins at 0.
  void declare_table() {
    line("struct Table {{");
    line("  unsigned count, entry_words;");
    line("  Entry entries[{}];", max_tile_entries(tile_entry_words(plan_, view_)));
    line("}};");
    line("__device__ __forceinline__ unsigned entry_of(const Table& p, unsigned block) {{");
    line("unsigned low = 0, high = p.count;");
    line("while (high - low > 1) {{");
    line("const unsigned middle = (low + high) / 2;");
    line("if (p.entries[middle].first_block <= block) low = middle; else high = middle;");
    line("}}");
    line("return low;");
    line("}}");
  }

  // What one block does of the node whose entry is `p`; it is the node's block number `block`.
  void begin_body(std::string_view name) {
    line("__device__ __forceinline__ void {}(const Entry& p, const unsigned block) {{", name);
  }

  void kernel(std::string_view name, std::string_view parameter, std::string_view body) {
    line("extern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ {} p) {{ {} }}", kTileThreads,
         name, parameter, body);
  }

  // ---- Sizes: parameters of a flat node, numbers of any other.

  std::string size_text(std::string_view member, int64_t value) const {
    return plan_.is_flat() ? fmt::format("(Index)p.{}", member) : fmt::format("{}u", value);
  }
  std::string vectors_text() const { return size_text("vectors", plan_.row_vectors()); }
  std::string part_vectors_text() const { return size_text("part_vectors", plan_.part_vectors); }
  std::string parts_text() const { return size_text("parts", plan_.parts); }
  /// Of all rows; a flat node has one.
  std::string all_parts_text() const { return size_text("parts", plan_.rows * plan_.parts); }
  /// How many parts a flat node has is not known here.
  bool has_combine() const { return plan_.is_flat() ? plan_.has_folds : plan_.parts > 1; }

  bool is_fold(size_t o) const { return plan_.program.outputs[o].kind != TileOutput::Kind::store; }
  std::string_view result_type(size_t o) const { return ir::dtype_name(view_.results[o].dtype); }

  // ---- Positions

  // Names of the coordinates of `index` along all dimensions: prefix0, prefix1, ...
  void coordinates(const TileDims& dims, std::string_view prefix, std::string_view index) {
    std::string rest(index);
    for (size_t d = dims.sizes.size(); d-- > 0;) {
      line("const Index {}{} = {}{};", prefix, d, rest, d == 0 ? "" : fmt::format(" % {}u", dims.sizes[d]));
      rest += fmt::format(" / {}u", dims.sizes[d]);
    }
  }

  static std::string offset_text(const TileDims& dims, size_t input, std::string_view prefix) {
    std::string text;
    for (size_t d = 0; d < dims.sizes.size(); ++d) {
      const int64_t stride = dims.strides[input][d];
      if (stride == 0) continue;
      text += (text.empty() ? "" : " + ") + fmt::format("{}{}", prefix, d);
      if (stride != 1) text += fmt::format(" * {}u", stride);
    }
    return text;
  }

  // ---- One vector of elements: loads, the program element by element, stores. `e` is its first element in the row.

  void load_inputs() {
    coordinates(plan_.row, "d", "e");
    for (size_t i = 0; i < inputs_; ++i) {
      const std::string row = offset_text(plan_.row, i, "d"), kept = offset_text(plan_.kept, i, "q");
      const std::string at =
          row.empty() && kept.empty() ? "0u" : row + (row.empty() || kept.empty() ? "" : " + ") + kept;
      const std::string_view type = ir::dtype_name(view_.operands[i].dtype);
      if (plan_.inner_stride(i) == 0) {
        line("const float in{} = load_one<{}>(p.in[{}], {});", i, type, i, at);
        continue;
      }
      line("float in{}[kVector];", i);
      if (plan_.inner_stride(i) == 1)
        line("load<{}, kVector>(p.in[{}], {}, in{});", type, i, at, i);
      else
        line("for (int k = 0; k < kVector; ++k) in{}[k] = load_one<{}>(p.in[{}], {} + k * {}u);", i, type, i, at,
             plan_.inner_stride(i));
    }
  }

  // What a register is called inside the loop over a vector's elements.
  std::vector<std::string> compute() {
    std::vector<std::string> names;
    size_t input = 0;
    for (const TileInstruction& instruction : plan_.program.instructions) {
      const std::string name = fmt::format("r{}", names.size());
      switch (instruction.kind) {
        case TileInstruction::Kind::input:
          names.push_back(fmt::format("in{}{}", input, plan_.inner_stride(input) == 0 ? "" : "[k]"));
          ++input;
          break;
        case TileInstruction::Kind::constant:
          line("const float {} = {};", name, float_text(instruction.value));
          names.push_back(name);
          break;
        case TileInstruction::Kind::scalar: {
          std::array<std::string, 3> args;
          for (size_t a = 0; a < instruction.args.size(); ++a)
            args[a] = names[static_cast<size_t>(instruction.args[a])];
          line("const float {} = {};", name,
               fmt::format(fmt::runtime(scalar_text(instruction.op->name)), args[0], args[1], args[2]));
          names.push_back(name);
          break;
        }
      }
    }
    return names;
  }

  void one_vector(std::string_view first_of_row) {
    load_inputs();
    for (size_t o = 0; o < view_.results.size(); ++o)
      if (!is_fold(o)) line("float out{}[kVector];", o);
    line("#pragma unroll");
    line("for (int k = 0; k < kVector; ++k) {{");
    const std::vector<std::string> names = compute();
    for (size_t o = 0; o < view_.results.size(); ++o) {
      const TileOutput& output = plan_.program.outputs[o];
      const std::string& value = names[static_cast<size_t>(output.reg)];
      if (is_fold(o))
        line("fold{} = {};", o, folded_text(output.kind, fmt::format("fold{}", o), value));
      else
        line("out{}[k] = {};", o, value);
    }
    line("}}");
    for (size_t o = 0; o < view_.results.size(); ++o)
      if (!is_fold(o)) line("store<{}, kVector>(p.out[{}], {}e, out{});", result_type(o), o, first_of_row, o);
  }

  // ---- Kernels

  void map_body() {
    begin_body("fused_block");
    line("EACH_THREAD {{");
    line("const Index at = (Index)block * {}u + threadIdx.x;", kTileThreads);
    line("if (at < {}) {{", vectors_text());
    line("const Index e = at * kVector;");
    one_vector("");
    line("}}");
    line("}}");
    line("}}");
  }

  static std::string folded_text(TileOutput::Kind kind, const std::string& folded, const std::string& value) {
    return kind == TileOutput::Kind::sum ? fmt::format("{} + {}", folded, value)
                                         : fmt::format("{1} > {0} ? {1} : {0}", folded, value);
  }

  std::string nothing_text(size_t o) const {
    return plan_.program.outputs[o].kind == TileOutput::Kind::sum ? "0.0f" : "__uint_as_float(0xff800000u)";
  }

  // After it, the first of each run of `lanes` threads has what all of them had in shared memory.
  void fold_lanes(int64_t lanes) {
    const std::string_view barrier = lanes <= 32 ? "WARP_BARRIER" : "BARRIER";
    for (int64_t half = lanes / 2; half > 0; half /= 2) {
      line("{}", barrier);
      line("EACH_THREAD if (threadIdx.x % {}u < {}u) {{", lanes, half);
      for (size_t o = 0; o < view_.results.size(); ++o)
        if (is_fold(o))
          line("shared{0}[threadIdx.x] = {1};", o,
               folded_text(plan_.program.outputs[o].kind, fmt::format("shared{}[threadIdx.x]", o),
                           fmt::format("shared{}[threadIdx.x + {}u]", o, half)));
      line("}}");
    }
    line("{}", barrier);
  }

  // How many vectors of every input a thread loads before it folds the first. The compiler hoists the loads of a loop
  // of so many steps above their sums; a loop that asks for its end behind every step has one load in flight.
  int64_t vectors_in_flight() const {
    int64_t read = 0;
    for (size_t i = 0; i < inputs_; ++i) read += plan_.inner_stride(i) == 0 ? 0 : 1;
    return std::clamp<int64_t>(kElementsInFlight / (plan_.vector * std::max<int64_t>(1, read)), 1, 4);
  }

  void declare_shared() {
    for (size_t o = 0; o < view_.results.size(); ++o)
      if (is_fold(o)) line("__shared__ float shared{}[{}];", o, kTileThreads);
  }

  void declare_folds() {
    for (size_t o = 0; o < view_.results.size(); ++o)
      if (is_fold(o)) line("float fold{} = {};", o, nothing_text(o));
  }

  void share_folds() {
    for (size_t o = 0; o < view_.results.size(); ++o)
      if (is_fold(o)) line("shared{0}[threadIdx.x] = fold{0};", o);
  }

  // Rows, or parts of rows, are numbered through all blocks.
  void fold_body() {
    begin_body("fused_block");
    declare_shared();
    const std::string number =
        fmt::format("(Index)block * {}u + threadIdx.x / {}u", kTileThreads / plan_.lanes, plan_.lanes);
    line("EACH_THREAD {{");
    declare_folds();
    line("const Index number = {};", number);
    line("if (number < {}) {{", all_parts_text());
    if (plan_.is_flat())
      line("const Index part = number;");
    else
      line("const Index row = number / {0}u, part = number % {0}u;", plan_.parts);
    line("const Index begin = part * {0}, behind = begin + {0};", part_vectors_text());
    line("const Index end = behind < {0} ? behind : {0};", vectors_text());
    coordinates(plan_.kept, "q", "row");
    line("const Index first = begin + threadIdx.x % {}u;", plan_.lanes);
    line("const Index steps = first < end ? (end - first + {}u) / {}u : 0u;", plan_.lanes - 1, plan_.lanes);
    line("#pragma unroll {}", vectors_in_flight());
    line("for (Index step = 0; step < steps; ++step) {{");
    line("const Index e = (first + step * {}u) * kVector;", plan_.lanes);
    one_vector(plan_.is_flat() ? "" : fmt::format("row * {}u + ", plan_.row_elements));
    line("}}");
    line("}}");
    share_folds();
    line("}}");
    fold_lanes(plan_.lanes);
    line("EACH_THREAD {{");
    line("const Index number = {};", number);
    line("if (threadIdx.x % {}u == 0 && number < {}) {{", plan_.lanes, all_parts_text());
    if (has_combine()) {
      line("if ({} > 1) {{", parts_text());
      store_partials();
      line("}} else {{");
    }
    store_folds("number", "threadIdx.x");
    if (has_combine()) line("}}");
    line("}}");
    line("}}");
    line("}}");
  }

  void store_partials() {
    for (size_t o = 0, fold = 0; o < view_.results.size(); ++o)
      if (is_fold(o))
        line("store_one<f32>(p.partials, {}u * {} + number, shared{}[threadIdx.x]);", fold++, all_parts_text(), o);
  }

  void store_folds(std::string_view row, std::string_view thread) {
    for (size_t o = 0; o < view_.results.size(); ++o)
      if (is_fold(o)) line("store_one<{}>(p.out[{}], {}, shared{}[{}]);", result_type(o), o, row, o, thread);
  }

  // A block for each row.
  void combine_kernels() {
    begin_body("combine_block");
    declare_shared();
    line("EACH_THREAD {{");
    declare_folds();
    line("for (Index part = threadIdx.x; part < {}; part += {}u) {{", parts_text(), kTileThreads);
    line("const Index at = (Index)block * {} + part;", parts_text());
    for (size_t o = 0, fold = 0; o < view_.results.size(); ++o) {
      if (!is_fold(o)) continue;
      line("const float partial{} = load_one<f32>(p.partials, {}u * {} + at);", o, fold++, all_parts_text());
      line("fold{} = {};", o,
           folded_text(plan_.program.outputs[o].kind, fmt::format("fold{}", o), fmt::format("partial{}", o)));
    }
    line("}}");
    share_folds();
    line("}}");
    fold_lanes(kTileThreads);
    line("EACH_THREAD if (threadIdx.x == 0) {{");
    store_folds("block", "0");
    line("}}");
    line("}}");
    kernel(kTileCombineKernel, "Entry", "combine_block(p, blockIdx.x);");
    if (plan_.is_flat())
      kernel(kTileCombineBatchKernel, "Table",
             "if (p.entries[blockIdx.x].parts > 1) combine_block(p.entries[blockIdx.x], 0);");
  }

  const TilePlan& plan_;
  const ops::NodeView& view_;
  size_t inputs_ = 0;
  std::string text_;
};

}  // namespace

size_t tile_entry_words(const TilePlan& plan, const ops::NodeView& view) {
  return std::max<size_t>(1, view.operands.size()) + view.results.size() + (plan.has_folds ? 4 : 2);
}

// Behind the word with their number.
size_t max_tile_entries(size_t entry_words) { return (kMaxParameterBytes / sizeof(uint64_t) - 1) / entry_words; }

TileEntry tile_entry(const TileSizes& sizes, const TileBuffers& buffers, uint32_t first_block) {
  TileEntry entry;
  const auto add = [&entry](uint64_t word) { entry.words[entry.count++] = word; };
  for (const uint64_t address : buffers.operands) add(address);
  if (buffers.operands.empty()) add(0);  // an array has one element at least
  for (const uint64_t address : buffers.results) add(address);
  if (sizes.has_folds) {
    add(buffers.partials);
    add(static_cast<uint64_t>(sizes.part_vectors));
  }
  add(static_cast<uint64_t>(sizes.vectors));
  add(first_block | static_cast<uint64_t>(sizes.parts) << 32);
  return entry;
}

std::string tile_kernels(const TilePlan& plan, const ops::NodeView& view) { return TileWriter(plan, view).run(); }

std::string tile_source(const TilePlan& plan, const ops::NodeView& view) {
  return tile_device_macros() + tile_helpers() + tile_kernels(plan, view);
}

}  // namespace megacpp::runtime::cuda
