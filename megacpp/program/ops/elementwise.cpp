// SPDX-License-Identifier: Apache-2.0
// Elementwise ops: result element i depends on element i of each operand. The scalar meaning is in scalar_ops.cpp; here
// are types, gradients and samples, one short record each.
#include <cctype>
#include <cmath>
#include <map>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"
#include "megacpp/program/ops/scalar_ops.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::ValueId;

void require_equal_shapes(std::string_view op, const Types& operands, size_t arity) {
  require_operand_count(op, operands, arity);
  for (const ir::TensorType& type : operands)
    require_operands(type.shape == operands[0].shape, op, operands, "operands of one shape");
}

Types infer_same(std::string_view op, const Types& operands, size_t arity) {
  require_equal_shapes(op, operands, arity);
  for (const ir::TensorType& type : operands)
    MEGACPP_REQUIRE(type.dtype == operands[0].dtype, E1301,
                    {.where = std::string(op),
                     .got = to_string(operands[0]) + " and " + to_string(type),
                     .wanted = "operands of one type",
                     .next = "insert a convert"});
  return {operands[0]};
}

void apply_scalar(const ScalarOp& op, std::span<const Tensor> operands, Tensor& result) {
  const auto at = [&](size_t operand, int64_t i) { return operand < operands.size() ? operands[operand][i] : 0.0; };
  for (int64_t i = 0; i < result.elements(); ++i) result[i] = op.apply(at(0, i), at(1, i), at(2, i));
}

struct Range {
  double low = -1.0;
  double high = 1.0;
};

// What StableHLO calls it, where the name is another.
std::string hlo_name(const std::string& name) {
  static const std::map<std::string, std::string> other = {
      {"cos", "cosine"},  {"div", "divide"},   {"exp", "exponential"}, {"log1p", "log_plus_one"}, {"max", "maximum"},
      {"min", "minimum"}, {"mul", "multiply"}, {"neg", "negate"},      {"sin", "sine"},           {"sub", "subtract"}};
  const auto at = other.find(name);
  return at == other.end() ? name : at->second;
}

using GradRule = std::function<Cotangents(Builder& b, const GradArgs& args, ValueId dy)>;

OpDef elementwise(std::string name, std::string doc, GradRule rule, Range range = {}) {
  const ScalarOp* scalar = find_scalar_op(name);
  MEGACPP_CHECK(scalar != nullptr) << name << " has no scalar meaning";
  const size_t arity = static_cast<size_t>(scalar->arity);
  OpDef def;
  def.name = name;
  def.doc = std::move(doc);
  def.infer = [name, arity](const Types& operands, const ir::Attrs&) { return infer_same(name, operands, arity); };
  def.factors = elementwise_factors;
  def.grad = [rule](const GradArgs& args) { return rule(args.builder, args, *args.cotangents[0]); };
  def.cost = [](const NodeView& view) { return Cost{static_cast<double>(view.results[0].elements())}; };
  def.reference = [scalar](std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
    apply_scalar(*scalar, operands, results[0]);
  };
  def.fusion = Fusion::elementwise;
  def.stablehlo = [written = hlo_name(name)](HloWriter& w, const HloArgs& args) {
    return w.ops(written, args.operands, "", {args.result()});
  };
  def.samples = [arity, range] {
    const ir::TensorType type{DType::f32, {3, 4}};
    return std::vector<Sample>{
        {.name = "3x4", .operands = Types(arity, type), .attrs = {}, .low = range.low, .high = range.high},
        {.name = "scalar",
         .operands = Types(arity, {DType::f32, {}}),
         .attrs = {},
         .low = range.low,
         .high = range.high}};
  };
  return def;
}

OpDef linear(Linearity::Kind kind, std::vector<size_t> operands, OpDef def) {
  def.linear = [linearity = Linearity{kind, std::move(operands)}](const NodeView&) { return linearity; };
  return def;
}

}  // namespace

OpDef add_def() {
  return linear(Linearity::Kind::together, {}, elementwise("add", "a + b", [](Builder&, const GradArgs&, ValueId dy) {
                  return Cotangents{dy, dy};
                }));
}

OpDef sub_def() {
  return linear(Linearity::Kind::together, {}, elementwise("sub", "a - b", [](Builder& b, const GradArgs&, ValueId dy) {
                  return Cotangents{dy, b.neg(dy)};
                }));
}

OpDef mul_def() {
  return linear(Linearity::Kind::each, {},
                elementwise("mul", "a * b", [](Builder& b, const GradArgs& args, ValueId dy) {
                  return Cotangents{b.mul(dy, args.operands[1]), b.mul(dy, args.operands[0])};
                }));
}

OpDef div_def() {
  return linear(Linearity::Kind::each, {0},
                elementwise("div", "a / b",
                            [](Builder& b, const GradArgs& args, ValueId dy) {
                              const ValueId da = b.div(dy, args.operands[1]);
                              return Cotangents{da, b.neg(b.mul(da, args.results[0]))};
                            },
                            {0.5, 2.0}));
}

OpDef max_def() {
  return elementwise("max", "the larger of a and b", [](Builder& b, const GradArgs& args, ValueId dy) {
    const ValueId first = b.compare(args.operands[0], args.operands[1], "gt");
    const ValueId zero = b.constant_like(0.0, dy);
    return Cotangents{b.select(first, dy, zero), b.select(first, zero, dy)};
  });
}

OpDef min_def() {
  return elementwise("min", "the smaller of a and b", [](Builder& b, const GradArgs& args, ValueId dy) {
    const ValueId first = b.compare(args.operands[0], args.operands[1], "lt");
    const ValueId zero = b.constant_like(0.0, dy);
    return Cotangents{b.select(first, dy, zero), b.select(first, zero, dy)};
  });
}

OpDef neg_def() {
  return linear(Linearity::Kind::together, {}, elementwise("neg", "-a", [](Builder& b, const GradArgs&, ValueId dy) {
                  return Cotangents{b.neg(dy)};
                }));
}

OpDef abs_def() {
  return elementwise("abs", "|a|", [](Builder& b, const GradArgs& args, ValueId dy) {
    return Cotangents{b.mul(dy, b.unary("sign", args.operands[0]))};
  });
}

OpDef sign_def() {
  return elementwise("sign", "-1, 0 or 1; its gradient is zero",
                     [](Builder& b, const GradArgs&, ValueId dy) { return Cotangents{b.constant_like(0.0, dy)}; });
}

OpDef exp_def() {
  return elementwise("exp", "e^a", [](Builder& b, const GradArgs& args, ValueId dy) {
    return Cotangents{b.mul(dy, args.results[0])};
  });
}

OpDef log_def() {
  return elementwise(
      "log", "natural logarithm",
      [](Builder& b, const GradArgs& args, ValueId dy) { return Cotangents{b.div(dy, args.operands[0])}; }, {0.5, 2.0});
}

OpDef log1p_def() {
  return elementwise("log1p", "log(1 + a)",
                     [](Builder& b, const GradArgs& args, ValueId dy) {
                       return Cotangents{b.div(dy, b.offset(args.operands[0], 1.0))};
                     },
                     {-0.5, 2.0});
}

OpDef sqrt_def() {
  return elementwise(
      "sqrt", "square root",
      [](Builder& b, const GradArgs& args, ValueId dy) { return Cotangents{b.div(b.scale(dy, 0.5), args.results[0])}; },
      {0.5, 2.0});
}

OpDef rsqrt_def() {
  return elementwise("rsqrt", "1 / sqrt(a)",
                     [](Builder& b, const GradArgs& args, ValueId dy) {
                       const ValueId scaled = b.scale(dy, -0.5);
                       const ValueId cubed = b.div(args.results[0], args.operands[0]);  // a^(-3/2)
                       return Cotangents{b.mul(scaled, cubed)};
                     },
                     {0.5, 2.0});
}

OpDef tanh_def() {
  return elementwise("tanh", "hyperbolic tangent", [](Builder& b, const GradArgs& args, ValueId dy) {
    return Cotangents{b.sub(dy, b.mul(dy, b.square(args.results[0])))};
  });
}

OpDef logistic_def() {
  return elementwise("logistic", "1 / (1 + e^-a)", [](Builder& b, const GradArgs& args, ValueId dy) {
    const ValueId dy_y = b.mul(dy, args.results[0]);
    return Cotangents{b.sub(dy_y, b.mul(dy_y, args.results[0]))};
  });
}

OpDef sin_def() {
  return elementwise("sin", "sine", [](Builder& b, const GradArgs& args, ValueId dy) {
    return Cotangents{b.mul(dy, b.unary("cos", args.operands[0]))};
  });
}

OpDef cos_def() {
  return elementwise("cos", "cosine", [](Builder& b, const GradArgs& args, ValueId dy) {
    return Cotangents{b.neg(b.mul(dy, b.unary("sin", args.operands[0])))};
  });
}

OpDef select_def() {
  OpDef def =
      elementwise("select", "a where the predicate holds, else b", [](Builder& b, const GradArgs& args, ValueId dy) {
        const ValueId zero = b.constant_like(0.0, dy);
        return Cotangents{std::nullopt, b.select(args.operands[0], dy, zero), b.select(args.operands[0], zero, dy)};
      });
  def.linear = [](const NodeView&) { return Linearity{Linearity::Kind::together, {1, 2}}; };
  def.infer = [](const Types& operands, const ir::Attrs&) {
    require_equal_shapes("select", operands, 3);
    require_operands(operands[0].dtype == DType::pred && operands[1] == operands[2], "select", operands,
                     "pred and two operands of one type");
    return Types{operands[1]};
  };
  def.samples = [] {
    const ir::TensorType type{DType::f32, {3, 4}};
    return std::vector<Sample>{
        {.name = "3x4", .operands = {{DType::pred, {3, 4}}, type, type}, .attrs = {}, .low = 0.0, .high = 2.0}};
  };
  return def;
}

OpDef compare_def() {
  OpDef def = elementwise("lt", "a lt|le|gt|ge|eq|ne b, as pred",
                          [](Builder&, const GradArgs&, ValueId) { return Cotangents{}; });
  def.name = "compare";
  def.grad = {};
  def.no_grad = "a predicate has no derivative";
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    const Types same = infer_same("compare", operands, 2);
    MEGACPP_REQUIRE(find_scalar_op(attrs.text("direction")) != nullptr, E1301,
                    {.where = "compare", .got = attrs.text("direction"), .wanted = "lt, le, gt, ge, eq or ne"});
    return Types{{DType::pred, same[0].shape}};
  };
  def.reference = [](std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
    apply_scalar(*find_scalar_op(attrs.text("direction")), operands, results[0]);
  };
  def.stablehlo = [](HloWriter& w, const HloArgs& args) {
    std::string direction = args.attrs().text("direction");
    for (char& letter : direction) letter = static_cast<char>(std::toupper(letter));
    return HloResults{w.compare(args.operands[0], args.operands[1], direction)};
  };
  def.samples = [] {
    std::vector<Sample> samples;
    for (const char* direction : {"lt", "le", "gt", "ge", "eq", "ne"})
      samples.push_back({.name = direction,
                         .operands = Types(2, {DType::i32, {3, 4}}),
                         .attrs = {{"direction", std::string(direction)}},
                         .low = 0,
                         .high = 3});
    return samples;
  };
  return def;
}

OpDef convert_def() {
  OpDef def =
      elementwise("convert", "the same numbers in another dtype", [](Builder& b, const GradArgs& args, ValueId dy) {
        const DType from = b.type(args.operands[0]).dtype;
        return ir::is_float(from) ? Cotangents{b.convert(dy, from)} : Cotangents{std::nullopt};
      });
  // Narrowing rounds: partial sums are added up before it, unless attribute `one_part` tells that of the parts of each
  // number at most one is not zero.
  def.linear = [](const NodeView& view) {
    const bool widens = view.results[0].dtype == DType::f32 || view.attrs.flag("one_part");
    const bool is_linear = widens && ir::is_float(view.operands[0].dtype) && ir::is_float(view.results[0].dtype);
    return Linearity{is_linear ? Linearity::Kind::together : Linearity::Kind::no};
  };
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    require_equal_shapes("convert", operands, 1);
    return Types{{require_dtype("convert", attrs.text("dtype")), operands[0].shape}};
  };
  def.reference = [](std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
    for (int64_t i = 0; i < results[0].elements(); ++i)
      results[0][i] = results[0].type.dtype == DType::pred ? (operands[0][i] != 0.0 ? 1.0 : 0.0) : operands[0][i];
  };
  def.samples = [] {
    const auto sample = [](const char* name, DType from, const char* to) {
      return Sample{
          .name = name, .operands = {{from, {3, 4}}}, .attrs = {{"dtype", std::string(to)}}, .low = -4, .high = 4};
    };
    return std::vector<Sample>{sample("bf16_to_f32", DType::bf16, "f32"), sample("i32_to_f32", DType::i32, "f32"),
                               sample("pred_to_f32", DType::pred, "f32"), sample("f32_to_f32", DType::f32, "f32")};
  };
  def.has_operand_elements = true;
  return def;
}

}  // namespace megacpp::ops
