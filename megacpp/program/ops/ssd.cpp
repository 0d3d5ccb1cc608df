// SPDX-License-Identifier: Apache-2.0
// The state-space product of Mamba-2. For each head, with S [p, n]:
//   S_t = exp(dt_t A) S_{t-1} + dt_t x_t (outer) B_t,   y_t = S_t C_t.
// Leading dimensions are independent sequences. A is negative and dt positive already. Head i reads B and C of group i
// / (heads / groups). The attribute chunk only says how the work is cut; the result does not depend on it. A last
// operand `positions` i32[.., s], where present, is each token's place in its document: where it is 0, S_{t-1} counts
// as zero.
#include <algorithm>
#include <cmath>

#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"
#include "megacpp/program/ops/ssd_chunks.h"

namespace megacpp::ops {
namespace {

Types infer_ssd(const Types& operands, const ir::Attrs& attrs) {
  require_ssd_positions("ssd", operands, kSsdOperands);
  ssd_sizes("ssd", operands, attrs);
  return {operands[0]};
}

Types types_of(std::span<const Tensor> tensors) {
  Types types;
  for (const Tensor& tensor : tensors) types.push_back(tensor.type);
  return types;
}

void reference_ssd(std::span<const Tensor> in, std::span<Tensor> results, const ir::Attrs& attrs) {
  const SsdSizes z = ssd_sizes("ssd", types_of(in), attrs);
  for (int64_t b = 0; b < z.batch(); ++b)
    for (int64_t h = 0; h < z.heads(); ++h) {
      std::vector<double> state(static_cast<size_t>(z.head_dim * z.state), 0.0);  // [p, n]
      for (int64_t t = 0; t < z.seq; ++t) {
        const int64_t head = (b * z.seq + t) * z.heads() + h;
        const int64_t group = ((b * z.seq + t) * z.groups + h / z.heads_per_group) * z.state;
        const bool begins = in.size() > kSsdOperands && in[kSsdOperands][b * z.seq + t] == 0;
        const double decay = begins ? 0.0 : std::exp(in[1][head] * in[2][h]);
        for (int64_t p = 0; p < z.head_dim; ++p)
          for (int64_t n = 0; n < z.state; ++n) {
            double& s = state[static_cast<size_t>(p * z.state + n)];
            s = decay * s + in[1][head] * in[0][head * z.head_dim + p] * in[3][group + n];
            results[0][head * z.head_dim + p] += s * in[4][group + n];
          }
      }
    }
}

std::vector<ValueId> decompose_ssd(Builder& b, const std::vector<ValueId>& operands, const ir::Attrs& attrs) {
  const SsdChunks k = build_ssd_chunks(b, operands, kSsdOperands, attrs);
  const SsdSizes& z = k.sizes;
  const ValueId dt_read = b.broadcast(positions_last(b, k.dt), b.shape(k.scores), {0, 1, 2, 3, 5});
  const ValueId mixing = b.mul(b.mul(k.scores, k.decay), dt_read);
  const ValueId inside = ssd_product(  // [b, c, g, e, q, p]
      b, k, mixing, k.x,
      {.lhs_contract = {5}, .rhs_contract = {2}, .lhs_batch = {0, 1, 2, 3}, .rhs_batch = {0, 1, 3, 4}});
  const ValueId carried = ssd_product(  // [b, c, g, q, e, p]
      b, k, k.c_out, k.previous,
      {.lhs_contract = {4}, .rhs_contract = {5}, .lhs_batch = {0, 1, 3}, .rhs_batch = {0, 1, 2}});
  const ValueId from_inside = b.transpose(inside, {0, 1, 4, 2, 3, 5});
  const ValueId from_before = scale_rows(b, b.transpose(carried, {0, 1, 3, 2, 4, 5}), k.from_start);
  const ValueId y = b.add(from_inside, from_before);
  const ValueId whole = out_of_chunks(b, k, y, {z.heads(), z.head_dim});
  return {b.convert(whole, b.type(operands[0]).dtype)};
}

Cotangents ssd_cotangents(const GradArgs& args) {
  std::vector<ValueId> operands = args.operands;
  operands.insert(operands.begin() + kSsdOperands, *args.cotangents[0]);
  const std::vector<ValueId> grads = args.builder.node("ssd_grad", operands, {{"chunk", args.attrs.integer("chunk")}});
  Cotangents cotangents(grads.begin(), grads.end());
  cotangents.resize(args.operands.size());  // none for positions
  return cotangents;
}

// Multiply-adds of the four chunked products: C B^T, into y inside the chunk, into the state, out of the state.
Cost ssd_cost(const NodeView& view) {
  const SsdSizes z = ssd_sizes("ssd", view.operands, view.attrs);
  const int64_t q = std::min(view.attrs.integer("chunk"), z.seq);
  const int64_t per_position = q * z.state * z.groups + (q + 2 * z.state) * z.head_dim * z.heads();
  return {.flops = 2.0 * static_cast<double>(z.batch() * z.seq) * static_cast<double>(per_position)};
}

// Of pairs that is the operand of their product with x; states are written, carried on and read by the next chunk.
Cost ssd_cost_by_xla(const NodeView& view) {
  constexpr SsdTraffic kTraffic = {.pairs = {.narrow = 2},
                                   .scores = {.wide = 2},
                                   .states = {.narrow = 2, .wide = 4},
                                   .channels = {.narrow = 5, .wide = 4},
                                   .projections = {.narrow = 4},
                                   .rows = {.wide = 8}};
  Cost cost = ssd_cost(view);
  cost.bytes = ssd_bytes_between(view, ssd_sizes("ssd", view.operands, view.attrs), kTraffic);
  return cost;
}

}  // namespace

OpDef ssd_def() {
  OpDef def;
  def.name = "ssd";
  def.doc = "state-space product of Mamba-2, chunked along the sequence";
  def.infer = infer_ssd;
  def.factors = [](const NodeView& view) {
    const std::string s = ssd_position_names(view), x = s + " (g e) p", dt = s + " (g e)", bc = s + " g n";
    const std::string positions = view.operands.size() > kSsdOperands ? "," + s : "";
    return factors_from(view, x + "," + dt + ", (g e)," + bc + "," + bc + positions + " -> " + x, "s n");
  };
  def.grad = ssd_cotangents;
  def.cost = ssd_cost;
  def.work = Work::ssd;
  def.cost_by_xla = ssd_cost_by_xla;
  def.reference = reference_ssd;
  def.decompose = decompose_ssd;
  def.samples = [] { return ssd_samples(false); };
  return def;
}

}  // namespace megacpp::ops
