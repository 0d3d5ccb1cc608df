// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/tile_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string_view>
#include <vector>

#include "megacpp/base/error.h"

namespace megacpp::runtime::cuda {
namespace {

using ops::TileInstruction;
using ops::TileOutput;

struct ScalarText {
  std::string_view name;
  std::string_view text;  // of {0}, {1}, {2}
};

// One for each of ops/scalar_ops, sorted.
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
    line("struct Params {{");
    line("  char *in[{}], *out[{}], *partials;", ops::kMaxTileInputs, kMaxTileResults);
    line("}};");
    line("constexpr int kVector = {};", plan_.vector);
    if (plan_.has_folds)
      fold_kernel();
    else
      map_kernel();
    if (plan_.parts > 1) combine_kernel();
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  void begin_kernel(const char* name) {
    line("extern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ Params p) {{", kTileThreads,
         name);
  }

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

  void map_kernel() {
    begin_kernel(kTileKernel);
    line("EACH_THREAD {{");
    line("const Index at = (Index)blockIdx.x * {}u + threadIdx.x;", kTileThreads);
    line("if (at < {}u) {{", plan_.row_vectors());
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
  void fold_kernel() {
    begin_kernel(kTileKernel);
    declare_shared();
    const std::string number =
        fmt::format("(Index)blockIdx.x * {}u + threadIdx.x / {}u", kTileThreads / plan_.lanes, plan_.lanes);
    line("EACH_THREAD {{");
    declare_folds();
    line("const Index number = {};", number);
    line("if (number < {}u) {{", plan_.rows * plan_.parts);
    line("const Index row = number / {0}u, part = number % {0}u;", plan_.parts);
    line("const Index end = (part + 1) * {0}u < {1}u ? (part + 1) * {0}u : {1}u;", plan_.part_vectors,
         plan_.row_vectors());
    coordinates(plan_.kept, "q", "row");
    line("#pragma unroll 4");
    line("for (Index at = part * {}u + threadIdx.x % {}u; at < end; at += {}u) {{", plan_.part_vectors, plan_.lanes,
         plan_.lanes);
    line("const Index e = at * kVector;");
    one_vector(fmt::format("row * {}u + ", plan_.row_elements));
    line("}}");
    line("}}");
    share_folds();
    line("}}");
    fold_lanes(plan_.lanes);
    line("EACH_THREAD {{");
    line("const Index number = {};", number);
    line("if (threadIdx.x % {}u == 0 && number < {}u) {{", plan_.lanes, plan_.rows * plan_.parts);
    for (size_t o = 0, fold = 0; o < view_.results.size(); ++o) {
      if (!is_fold(o)) continue;
      if (plan_.parts > 1)
        line("store_one<f32>(p.partials, {}u + number, shared{}[threadIdx.x]);", fold * partials_of_fold(), o);
      else
        line("store_one<{}>(p.out[{}], number, shared{}[threadIdx.x]);", result_type(o), o, o);
      ++fold;
    }
    line("}}");
    line("}}");
    line("}}");
  }

  uint64_t partials_of_fold() const { return static_cast<uint64_t>(plan_.rows * plan_.parts); }

  // A block for each row.
  void combine_kernel() {
    begin_kernel(kTileCombineKernel);
    declare_shared();
    line("EACH_THREAD {{");
    declare_folds();
    line("for (Index part = threadIdx.x; part < {}u; part += {}u) {{", plan_.parts, kTileThreads);
    line("const Index at = (Index)blockIdx.x * {}u + part;", plan_.parts);
    for (size_t o = 0, fold = 0; o < view_.results.size(); ++o) {
      if (!is_fold(o)) continue;
      line("const float partial{} = load_one<f32>(p.partials, {}u + at);", o, fold++ * partials_of_fold());
      line("fold{} = {};", o,
           folded_text(plan_.program.outputs[o].kind, fmt::format("fold{}", o), fmt::format("partial{}", o)));
    }
    line("}}");
    share_folds();
    line("}}");
    fold_lanes(kTileThreads);
    line("EACH_THREAD if (threadIdx.x == 0) {{");
    for (size_t o = 0; o < view_.results.size(); ++o)
      if (is_fold(o)) line("store_one<{}>(p.out[{}], blockIdx.x, shared{}[0]);", result_type(o), o, o);
    line("}}");
    line("}}");
  }

  const TilePlan& plan_;
  const ops::NodeView& view_;
  size_t inputs_ = 0;
  std::string text_;
};

}  // namespace

std::string tile_kernels(const TilePlan& plan, const ops::NodeView& view) { return TileWriter(plan, view).run(); }

std::string tile_source(const TilePlan& plan, const ops::NodeView& view) {
  return tile_device_macros() + tile_helpers() + tile_kernels(plan, view);
}

}  // namespace megacpp::runtime::cuda
