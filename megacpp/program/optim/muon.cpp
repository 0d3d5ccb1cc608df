// SPDX-License-Identifier: Apache-2.0
// Muon (Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"): the momentum of a matrix with
// its singular values brought near 1 by a quintic Newton-Schulz iteration. It takes the matrices of blocks: experts and
// heads one by one, and projections that others fuse (QKV, [z,x,B,C,dt], gate and up) are parameters of their own here.
// All else (embedding, head, norms, biases, convolutions, constants of recurrences) takes AdamW.
#include <algorithm>
#include <cmath>

#include "megacpp/program/ops/builder.h"
#include "megacpp/program/optim/adamw.h"

namespace megacpp::optim {
namespace {

using blocks::Parameter;
using ir::ValueId;
using ops::Builder;

constexpr double kSmallestNorm = 1e-7;  // a matrix of zeros stays one
// Of x, x^3 and x^5: the largest slope at 0 for which singular values end up in about [0.7, 1.2] (Jordan et al.).
constexpr double kLinear = 3.4445, kCubic = -4.7750, kQuintic = 2.0315;
// Root mean square of an AdamW update, found to be 0.2 to 0.4 (Liu et al. 2025, "Muon is Scalable for LLM Training").
constexpr double kAdamwRms = 0.2;

bool takes_muon(const Parameter& parameter) { return parameter.kind == blocks::ParameterKind::matrix; }
bool takes_adamw(const Parameter& parameter) { return !takes_muon(parameter); }

// [.., m, n] with products over its leading dimensions.
struct Matrices {
  Builder& b;
  std::vector<int64_t> lead;
  int64_t rows, columns;  // their dimensions

  ValueId product(ValueId x, int64_t x_contract, ValueId y, int64_t y_contract) const {
    return b.dot(x, y,
                 {.lhs_contract = {x_contract}, .rhs_contract = {y_contract}, .lhs_batch = lead, .rhs_batch = lead});
  }
};

Matrices matrices_of(Builder& b, ValueId x) {
  const auto rank = static_cast<int64_t>(b.shape(x).size());
  Matrices matrices{.b = b, .lead = {}, .rows = rank - 2, .columns = rank - 1};
  for (int64_t d = 0; d < rank - 2; ++d) matrices.lead.push_back(d);
  return matrices;
}

// Each divided by its Frobenius norm, which bounds its singular values by 1.
ValueId normalised(const Matrices& m, ValueId x) {
  Builder& b = m.b;
  const ir::DType dtype = b.type(x).dtype;
  const ValueId wide = b.convert(x, ir::DType::f32);
  const ValueId norm = b.sqrt(b.reduce_sum(b.square(wide), {m.rows, m.columns}));
  const ValueId smallest = b.constant(kSmallestNorm);
  const ValueId divisor = b.broadcast(b.max(norm, smallest), b.shape(x), m.lead);
  return b.convert(b.div(wide, divisor), dtype);
}

// a X + b X X'X + c X X'X X'X, over the Gram matrix of the shorter side.
ValueId iterated(const Matrices& m, ValueId x) {
  Builder& b = m.b;
  const ir::Shape& shape = b.shape(x);
  const bool is_wide = shape[static_cast<size_t>(m.rows)] <= shape[static_cast<size_t>(m.columns)];
  const int64_t summed = is_wide ? m.columns : m.rows;
  const ValueId gram = m.product(x, summed, x, summed);
  const ValueId squared = b.scale(m.product(gram, m.columns, gram, m.rows), kQuintic);
  const ValueId polynomial = b.add(b.scale(gram, kCubic), squared);
  const ValueId moved =
      is_wide ? m.product(polynomial, m.columns, x, m.rows) : m.product(x, m.columns, polynomial, m.rows);
  return b.add(b.scale(x, kLinear), moved);
}

// `original` is the rule of Jordan et al.: a matrix that widens its input moves further. match_rms_adamw is that of Liu
// et al.: updates as large as AdamW's, so that both share a learning rate and a weight decay.
double scale_of(const Muon& settings, int64_t in, int64_t out) {
  if (settings.scale == MuonScale::original)
    return std::sqrt(std::max(1.0, static_cast<double>(out) / static_cast<double>(in)));
  return kAdamwRms * std::sqrt(static_cast<double>(std::max(in, out)));
}

ValueId orthogonalised(const MatrixInputs& in) {
  Builder& b = in.builder;
  const Matrices m = matrices_of(b, in.value);
  ValueId x = normalised(m, in.value);
  for (int64_t i = 0; i < in.settings.muon.iterations; ++i) x = iterated(m, x);
  const ir::Shape& shape = b.shape(x);
  return b.scale(x, scale_of(in.settings.muon, shape[shape.size() - 2], shape.back()));
}

// Momentum as a decaying mean, with Nesterov's step ahead.
Direction muon_direction(const DirectionInputs& in) {
  if (takes_adamw(in.parameter)) return adamw_direction(in);
  Builder& b = in.builder;
  const Muon& muon = in.settings.muon;
  const ValueId added = b.scale(in.gradient, 1.0 - muon.momentum);
  const ValueId momentum = b.add(b.scale(in.state[0], muon.momentum), added);
  const ValueId value = muon.nesterov ? b.add(b.scale(momentum, muon.momentum), added) : momentum;
  return {.value = b.convert(value, muon.precision), .state = {momentum}};
}

std::vector<StateDef> muon_state() {
  std::vector<StateDef> state = adamw_state(takes_adamw);
  state.insert(state.begin(),
               {.prefix = "muon_m.", .doc = "decaying mean of gradients of a matrix", .applies = takes_muon});
  return state;
}

std::vector<std::string_view> muon_keys() {
  std::vector<std::string_view> keys = {"optimizer.muon.momentum", "optimizer.muon.nesterov",
                                        "optimizer.muon.iterations", "optimizer.muon.precision",
                                        "optimizer.muon.scale"};
  for (const std::string_view key : adamw_keys()) keys.push_back(key);
  return keys;
}

}  // namespace

OptimizerDef muon_def() {
  return {
      .name = "muon",
      .title = "Muon",
      .doc = "orthogonalised momentum for matrices of blocks, one f32 number a weight; adamw for all other parameters",
      .state = muon_state(),
      .keys = muon_keys(),
      .shared = adamw_shared,
      .direction = muon_direction,
      .matrices = MatrixMap{.name = "Newton-Schulz", .applies = takes_muon, .map = orthogonalised},
      .method = [](const Parameter& parameter) -> std::string_view {
        return takes_muon(parameter) ? "Muon" : "AdamW";
      }};
}

}  // namespace megacpp::optim
