// SPDX-License-Identifier: Apache-2.0
// Depthwise causal convolution along the sequence of x [.., s, c] and the gradient of its weight: the leading
// dimensions are independent sequences. The gradient with respect to the input is the same op with `reverse` flipped.
// A last operand `positions` i32[.., s], where present, is each token's place in its document: a product counts only
// where the later of its two tokens is at least as far into its document as they are apart. A document may have begun
// before the sequence, as in a run of a longer one.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"
#include "megacpp/program/ops/sample_values.h"

namespace megacpp::ops {
namespace {

// The position that tap k reads for result position t; outside [0, s) it reads zero.
int64_t tap_position(int64_t t, int64_t k, int64_t width, bool reverse) {
  return reverse ? t + (width - 1) - k : t - (width - 1) + k;
}

constexpr size_t kOperands = 2;  // of both ops, without `positions`

bool has_positions(size_t operands) { return operands > kOperands; }

void require_conv_inputs(std::string_view op, const Types& operands) {
  require_operands(operands.size() == kOperands || operands.size() == kOperands + 1, op, operands,
                   "2 operands, or one more: positions");
  require_float_rank_from(op, "x", operands[0], 2);
  const ir::Shape& x = operands[0].shape;
  if (has_positions(operands.size()))
    require_type(op, "positions", operands[kOperands], {ir::DType::i32, {x.begin(), x.end() - 1}});
}

Types infer_conv(const Types& operands, const ir::Attrs&) {
  require_conv_inputs("causal_conv", operands);
  require_float_rank("causal_conv", "w", operands[1], 2);
  require_float_shape("causal_conv", "w", operands[1], {operands[0].dim(-1), std::max<int64_t>(1, operands[1].dim(1))});
  return {operands[0]};
}

Types infer_weight(const Types& operands, const ir::Attrs& attrs) {
  require_conv_inputs("causal_conv_weight", operands);
  require_float_shape("causal_conv_weight", "dy", operands[1], operands[0].shape);
  require_at_least("causal_conv_weight", attrs, "width", 1);
  return {{operands[0].dtype, {operands[0].dim(-1), attrs.integer("width")}}};
}

// x, dy, w and perhaps positions: of the gradients of x, w and a bias that was added to the result.
constexpr size_t kConvGradOperands = 3;

Types infer_conv_grad(const Types& operands, const ir::Attrs& attrs) {
  require_operands(operands.size() == kConvGradOperands || operands.size() == kConvGradOperands + 1, "causal_conv_grad",
                   operands, "3 operands, or one more: positions");
  Types of_conv = {operands[0], operands[2]};
  of_conv.insert(of_conv.end(), operands.begin() + kConvGradOperands, operands.end());
  infer_conv(of_conv, attrs);
  require_type("causal_conv_grad", "dy", operands[1], operands[0]);
  const ir::DType dtype = operands[0].dtype;
  return {operands[0], {dtype, operands[2].shape}, {dtype, {operands[0].dim(-1)}}};
}

// Calls body(x index, y index, weight index) for every product of the convolution.
template <typename Body>
void for_each_product(std::span<const Tensor> operands, int64_t width, bool reverse, const Body& body) {
  const ir::TensorType& x = operands[0].type;
  const int64_t seq = x.dim(-2), channels = x.dim(-1), batch = x.elements() / std::max<int64_t>(1, seq * channels);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < seq; ++t)
      for (int64_t k = 0; k < width; ++k) {
        const int64_t from = tap_position(t, k, width, reverse);
        if (from < 0 || from >= seq) continue;
        const double apart = static_cast<double>(std::abs(t - from));
        if (has_positions(operands.size()) && operands[kOperands][b * seq + std::max(t, from)] < apart) continue;
        for (int64_t c = 0; c < channels; ++c)
          body((b * seq + from) * channels + c, (b * seq + t) * channels + c, c * width + k);
      }
}

void conv_reference(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const Tensor& x = operands[0];
  const Tensor& w = operands[1];
  for_each_product(operands, w.type.dim(1), attrs.flag("reverse"),
                   [&](int64_t xi, int64_t yi, int64_t wi) { results[0][yi] += w[wi] * x[xi]; });
}

void weight_reference(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const Tensor& x = operands[0];
  const Tensor& dy = operands[1];
  for_each_product(operands, attrs.integer("width"), attrs.flag("reverse"),
                   [&](int64_t xi, int64_t yi, int64_t wi) { results[0][wi] += dy[yi] * x[xi]; });
}

void conv_grad_reference(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const Tensor &x = operands[0], &dy = operands[1], &w = operands[2];
  std::vector<Tensor> of_conv = {x, w};
  of_conv.insert(of_conv.end(), operands.begin() + kConvGradOperands, operands.end());
  for_each_product(of_conv, w.type.dim(1), attrs.flag("reverse"), [&](int64_t xi, int64_t yi, int64_t wi) {
    results[0][xi] += w[wi] * dy[yi];
    results[1][wi] += x[xi] * dy[yi];
  });
  for (int64_t i = 0; i < dy.elements(); ++i) results[2][i % dy.type.dim(-1)] += dy[i];
}

std::vector<ValueId> decompose_conv_grad(Builder& b, const std::vector<ValueId>& operands, const ir::Attrs& attrs) {
  const ValueId x = operands[0], dy = operands[1], w = operands[2];
  const int64_t reverse = attrs.integer("reverse", 0), leading = b.type(x).rank() - 1;
  std::vector<ValueId> of_dx = {dy, w}, of_dw = {x, dy};
  for (size_t i = kConvGradOperands; i < operands.size(); ++i)
    for (std::vector<ValueId>* both : {&of_dx, &of_dw}) both->push_back(operands[i]);
  std::vector<int64_t> summed(static_cast<size_t>(leading));
  std::iota(summed.begin(), summed.end(), int64_t{0});
  const ValueId dx = b.one("causal_conv", of_dx, {{"reverse", 1 - reverse}});
  const ValueId dw = b.one("causal_conv_weight", of_dw, {{"reverse", reverse}, {"width", b.type(w).dim(1)}});
  return {dx, dw, b.reduce_sum(dy, summed)};
}

Cotangents conv_grad(const GradArgs& args) {
  Builder& b = args.builder;
  const ValueId x = args.operands[0], w = args.operands[1], dy = *args.cotangents[0];
  const int64_t reverse = args.attrs.integer("reverse", 0);
  std::vector<ValueId> of_dx = {dy, w}, of_dw = {x, dy};
  for (size_t i = kOperands; i < args.operands.size(); ++i)
    for (std::vector<ValueId>* operands : {&of_dx, &of_dw}) operands->push_back(args.operands[i]);
  const ValueId dx = b.one("causal_conv", of_dx, {{"reverse", 1 - reverse}});
  const ValueId dw = b.one("causal_conv_weight", of_dw, {{"reverse", reverse}, {"width", b.type(w).dim(1)}});
  Cotangents cotangents = {dx, b.convert(dw, b.type(w).dtype)};
  cotangents.resize(args.operands.size());  // none for positions
  return cotangents;
}

// "b0 s c" for x of rank 3
std::string dims_of_x(const NodeView& view) { return numbered_names("b", view.operands[0].rank() - 2) + "s c"; }

std::string dims_of_positions(const NodeView& view) {
  return has_positions(view.operands.size()) ? ", " + numbered_names("b", view.operands[0].rank() - 2) + "s" : "";
}

// How far tap k's source is before the result's position.
int64_t lag(int64_t k, int64_t width, bool reverse) { return reverse ? k - (width - 1) : width - 1 - k; }

// x moved by `lag` to the positions that read it, zero where that is in another document.
HloValue hlo_moved(HloWriter& w, const HloArgs& args, const HloValue& x, int64_t lag) {
  const int64_t dim = static_cast<int64_t>(x.type.shape.size()) - 2;
  const HloValue moved = w.shift(x, dim, lag);
  if (!has_positions(args.operands.size()) || lag == 0) return moved;
  const HloValue& positions = args.operands[kOperands];
  // The later token is the one that reads, or backwards the one that is read.
  const HloValue later = lag > 0 ? positions : w.shift(positions, dim, lag);
  std::vector<int64_t> dims(static_cast<size_t>(dim) + 1);
  std::iota(dims.begin(), dims.end(), int64_t{0});
  const HloValue apart = w.constant(static_cast<double>(std::abs(lag)), later.type);
  const HloValue counts = w.broadcast(w.compare(later, apart, "GE"), x.type.shape, dims);
  return w.select(counts, moved, w.constant(0, x.type));
}

HloResults hlo_conv(HloWriter& w, const HloArgs& args) {
  const std::string& element = args.operands[0].type.element;
  const HloValue x = w.convert(args.operands[0], "f32"), taps = w.convert(args.operands[1], "f32");
  const int64_t dim = static_cast<int64_t>(x.type.shape.size()) - 2, width = taps.type.shape[1];
  HloValue sum = w.constant(0, x.type);
  for (int64_t k = 0; k < width; ++k) {
    const HloValue tap = w.reshape(w.slice(taps, 1, k, 1), {taps.type.shape[0]});
    const HloValue moved = hlo_moved(w, args, x, lag(k, width, args.attrs().flag("reverse")));
    sum = w.binary("add", sum, w.binary("multiply", moved, w.broadcast(tap, x.type.shape, {dim + 1})));
  }
  return {w.convert(sum, element)};
}

HloResults hlo_conv_weight(HloWriter& w, const HloArgs& args) {
  const HloValue x = w.convert(args.operands[0], "f32"), dy = w.convert(args.operands[1], "f32");
  const int64_t dim = static_cast<int64_t>(x.type.shape.size()) - 2, width = args.attrs().integer("width");
  std::vector<int64_t> summed(static_cast<size_t>(dim) + 1);
  std::iota(summed.begin(), summed.end(), int64_t{0});
  std::vector<HloValue> taps;
  for (int64_t k = 0; k < width; ++k) {
    const HloValue moved = hlo_moved(w, args, x, lag(k, width, args.attrs().flag("reverse")));
    taps.push_back(w.reshape(w.reduce(w.binary("multiply", moved, dy), summed, "add"), {x.type.shape.back(), 1}));
  }
  return {w.convert(w.concatenate(taps, 1), args.result().element)};
}

// Documents of a few tokens; every second sequence goes on with one that began before it.
Sample with_documents(Sample sample) {
  const ir::Shape& x = sample.operands[0].shape;
  sample.operands.push_back({ir::DType::i32, {x.begin(), x.end() - 1}});
  sample.fill = [](std::vector<Tensor>& operands) { fill_document_positions(operands.back()); };
  return sample;
}

}  // namespace

OpDef causal_conv_def() {
  OpDef def;
  def.name = "causal_conv";
  def.doc = "depthwise convolution over positions t-(K-1)..t, or its transpose with reverse";
  def.infer = infer_conv;
  def.factors = [](const NodeView& view) {
    const std::string x = dims_of_x(view);
    return factors_from(view, x + ", c k" + dims_of_positions(view) + " -> " + x, "s k");
  };
  def.grad = conv_grad;
  def.cost = [](const NodeView& view) {
    return Cost{2.0 * static_cast<double>(view.results[0].elements() * view.operands[1].dim(1))};
  };
  def.reference = conv_reference;
  def.runs_over_positions = true;
  def.stablehlo = hlo_conv;
  def.samples = [] {
    return std::vector<Sample>{
        {.name = "width4",
         .operands = {{ir::DType::f32, {2, 9, 6}}, {ir::DType::f32, {6, 4}}},
         .attrs = {{"reverse", int64_t{0}}}},
        {.name = "reverse",
         .operands = {{ir::DType::f32, {2, 7, 5}}, {ir::DType::f32, {5, 3}}},
         .attrs = {{"reverse", int64_t{1}}}},
        {.name = "wider_than_sequence",
         .operands = {{ir::DType::f32, {1, 2, 70}}, {ir::DType::f32, {70, 4}}},
         .attrs = {}},
        {.name = "runs", .operands = {{ir::DType::f32, {2, 4, 5, 3}}, {ir::DType::f32, {3, 4}}}, .attrs = {}},
        {.name = "one_sequence", .operands = {{ir::DType::f32, {6, 2}}, {ir::DType::f32, {2, 2}}}, .attrs = {}},
        with_documents({.name = "documents",
                        .operands = {{ir::DType::f32, {2, 9, 6}}, {ir::DType::f32, {6, 4}}},
                        .attrs = {{"reverse", int64_t{0}}}}),
        with_documents({.name = "documents_reverse",
                        .operands = {{ir::DType::f32, {2, 2, 7, 3}}, {ir::DType::f32, {3, 4}}},
                        .attrs = {{"reverse", int64_t{1}}}}),
    };
  };
  return def;
}

OpDef causal_conv_weight_def() {
  OpDef def;
  def.name = "causal_conv_weight";
  def.doc = "gradient of causal_conv with respect to its weight";
  def.infer = infer_weight;
  def.factors = [](const NodeView& view) {
    const std::string x = dims_of_x(view);
    return factors_from(view, x + ", " + x + dims_of_positions(view) + " -> c k", "s k");
  };
  def.no_grad = "made by autodiff; second derivatives are not taken";
  def.cost = [](const NodeView& view) {
    return Cost{2.0 * static_cast<double>(view.operands[0].elements() * view.attrs.integer("width"))};
  };
  def.reference = weight_reference;
  def.stablehlo = hlo_conv_weight;
  def.samples = [] {
    return std::vector<Sample>{
        {.name = "width4",
         .operands = {{ir::DType::f32, {2, 9, 6}}, {ir::DType::f32, {2, 9, 6}}},
         .attrs = {{"reverse", int64_t{0}}, {"width", int64_t{4}}}},
        {.name = "reverse",
         .operands = {{ir::DType::f32, {2, 70, 5}}, {ir::DType::f32, {2, 70, 5}}},
         .attrs = {{"reverse", int64_t{1}}, {"width", int64_t{3}}}},
        {.name = "wider_than_sequence",
         .operands = {{ir::DType::f32, {1, 2, 70}}, {ir::DType::f32, {1, 2, 70}}},
         .attrs = {{"width", int64_t{4}}}},
        {.name = "runs",
         .operands = {{ir::DType::f32, {2, 4, 5, 3}}, {ir::DType::f32, {2, 4, 5, 3}}},
         .attrs = {{"width", int64_t{4}}}},
        with_documents({.name = "documents",
                        .operands = {{ir::DType::f32, {2, 9, 6}}, {ir::DType::f32, {2, 9, 6}}},
                        .attrs = {{"reverse", int64_t{0}}, {"width", int64_t{4}}}}),
        with_documents({.name = "documents_reverse",
                        .operands = {{ir::DType::f32, {2, 2, 7, 3}}, {ir::DType::f32, {2, 2, 7, 3}}},
                        .attrs = {{"reverse", int64_t{1}}, {"width", int64_t{4}}}}),
    };
  };
  return def;
}

OpDef causal_conv_grad_def() {
  OpDef def;
  def.name = "causal_conv_grad";
  def.doc = "gradients of causal_conv for its input, its weight and a bias added to its result, in one walk";
  def.infer = infer_conv_grad;
  def.factors = [](const NodeView& view) {
    const std::string x = dims_of_x(view);
    const std::string places =
        view.operands.size() > kConvGradOperands ? ", " + numbered_names("b", view.operands[0].rank() - 2) + "s" : "";
    return factors_from(view, x + ", " + x + ", c k" + places + " -> " + x + ", c k, c", "s k");
  };
  def.no_grad = "made by the scheduler, after gradients are taken";
  def.cost = [](const NodeView& view) {
    return Cost{static_cast<double>(view.operands[0].elements() * (4 * view.operands[2].dim(1) + 1))};
  };
  def.reference = conv_grad_reference;
  def.decompose = decompose_conv_grad;
  def.samples = [] {
    const auto sample = [](std::string name, ir::Shape x, ir::Shape w, int64_t reverse) {
      return Sample{.name = std::move(name),
                    .operands = {{ir::DType::f32, x}, {ir::DType::f32, x}, {ir::DType::f32, std::move(w)}},
                    .attrs = {{"reverse", reverse}}};
    };
    return std::vector<Sample>{sample("width4", {2, 9, 6}, {6, 4}, 0),
                               sample("reverse", {2, 7, 5}, {5, 3}, 1),
                               sample("wider_than_sequence", {1, 2, 70}, {70, 4}, 0),
                               sample("five_taps", {2, 9, 3}, {3, 5}, 0),
                               with_documents(sample("documents", {2, 9, 6}, {6, 4}, 0)),
                               with_documents(sample("documents_reverse", {2, 2, 7, 3}, {3, 4}, 1))};
  };
  return def;
}

}  // namespace megacpp::ops
