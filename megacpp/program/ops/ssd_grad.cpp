// SPDX-License-Identifier: Apache-2.0
// Gradients of ssd, everything recomputed from its operands. The gradient of a log decay gathers only the terms whose
// path crosses that position: the shorter formula, a difference of sums over all pairs, cancels badly.
#include <algorithm>
#include <cmath>

#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"
#include "megacpp/program/ops/ssd_chunks.h"

namespace megacpp::ops {
namespace {

enum Operand : size_t { kX, kDt, kA, kB, kC, kDy };

Types infer_ssd_grad(const Types& operands, const ir::Attrs& attrs) {
  require_ssd_positions("ssd_grad", operands, kSsdGradOperands);
  ssd_sizes("ssd_grad", operands, attrs);
  require_float_shape("ssd_grad", "dy", operands[kDy], operands[kX].shape);
  return {operands.begin(), operands.begin() + 5};
}

// One head of one sequence: the states forward, then the cotangent of the state backward.
class HeadGradient {
 public:
  HeadGradient(const SsdSizes& sizes, std::span<const Tensor> in, std::span<Tensor> out, int64_t b, int64_t h)
      : z_(sizes), in_(in), out_(out), b_(b), h_(h), states_(static_cast<size_t>(z_.seq + 1), zeros()) {}

  void run() {
    for (int64_t t = 0; t < z_.seq; ++t) forward(t);
    std::vector<double> dstate = zeros();
    for (int64_t t = z_.seq - 1; t >= 0; --t) backward(t, dstate);
  }

 private:
  std::vector<double> zeros() const { return std::vector<double>(static_cast<size_t>(z_.head_dim * z_.state), 0.0); }
  int64_t head(int64_t t) const { return (b_ * z_.seq + t) * z_.heads() + h_; }
  int64_t group(int64_t t) const { return ((b_ * z_.seq + t) * z_.groups + h_ / z_.heads_per_group) * z_.state; }
  double decay(int64_t t) const {
    const bool begins = in_.size() > kSsdGradOperands && in_[kSsdGradOperands][b_ * z_.seq + t] == 0;
    return begins ? 0.0 : std::exp(in_[kDt][head(t)] * in_[kA][h_]);
  }

  // Calls body(index into x, index into B, index into a state [p, n]).
  template <typename Body>
  void for_each_pair(int64_t t, const Body& body) const {
    for (int64_t p = 0; p < z_.head_dim; ++p)
      for (int64_t n = 0; n < z_.state; ++n)
        body(head(t) * z_.head_dim + p, group(t) + n, static_cast<size_t>(p * z_.state + n));
  }

  void forward(int64_t t) {
    const std::vector<double>& before = states_[static_cast<size_t>(t)];
    std::vector<double>& after = states_[static_cast<size_t>(t + 1)];
    for_each_pair(t, [&](int64_t x, int64_t n, size_t s) {
      after[s] = decay(t) * before[s] + in_[kDt][head(t)] * in_[kX][x] * in_[kB][n];
    });
  }

  void backward(int64_t t, std::vector<double>& dstate) {
    const std::vector<double>& before = states_[static_cast<size_t>(t)];
    const std::vector<double>& after = states_[static_cast<size_t>(t + 1)];
    const double dt = in_[kDt][head(t)], alpha = decay(t);
    double dalpha = 0;
    for_each_pair(t, [&](int64_t x, int64_t n, size_t s) {
      dstate[s] += in_[kDy][x] * in_[kC][n];
      out_[kC][n] += after[s] * in_[kDy][x];
      out_[kX][x] += dt * dstate[s] * in_[kB][n];
      out_[kB][n] += dt * dstate[s] * in_[kX][x];
      out_[kDt][head(t)] += dstate[s] * in_[kX][x] * in_[kB][n];
      dalpha += dstate[s] * before[s];
      dstate[s] *= alpha;
    });
    out_[kDt][head(t)] += dalpha * alpha * in_[kA][h_];
    out_[kA][h_] += dalpha * alpha * dt;
  }

  SsdSizes z_;
  std::span<const Tensor> in_;
  std::span<Tensor> out_;
  int64_t b_, h_;
  std::vector<std::vector<double>> states_;  // [t] before position t, each [p, n]
};

void reference_ssd_grad(std::span<const Tensor> in, std::span<Tensor> results, const ir::Attrs& attrs) {
  Types types;
  for (const Tensor& tensor : in) types.push_back(tensor.type);
  const SsdSizes z = ssd_sizes("ssd_grad", types, attrs);
  for (int64_t b = 0; b < z.batch(); ++b)
    for (int64_t h = 0; h < z.heads(); ++h) HeadGradient(z, in, results, b, h).run();
}

// The parts of the decomposition, on top of the forward values.
struct Backward {
  SsdChunks k;
  ValueId dy;          // [b, c, q, g, e, p]
  ValueId dy_decayed;  // the same times the decay from the chunk's start
  ValueId dstate;      // [b, c, g, e, p, n] cotangent of the state at the chunk's end
  ValueId to_state;    // [b, c, q, g, e, p] what x gets through the state, before dt
  ValueId dscores;     // [b, c, g, e, i, j]
};

Backward build_backward(Builder& b, const std::vector<ValueId>& operands, const ir::Attrs& attrs) {
  Backward w;
  w.k = build_ssd_chunks(b, operands, kSsdGradOperands, attrs);
  const SsdChunks& k = w.k;
  const SsdSizes& z = k.sizes;
  w.dy = into_chunks(b, k, operands[kDy], {z.groups, z.heads_per_group, z.head_dim});
  w.dy_decayed = scale_rows(b, w.dy, k.from_start);
  const ValueId from_chunk =
      ssd_product(b, k, w.dy_decayed, k.c_out,
                  {.lhs_contract = {2}, .rhs_contract = {2}, .lhs_batch = {0, 1, 3}, .rhs_batch = {0, 1, 3}});
  const ValueId at_start = carry_states(b, k, from_chunk, true);
  w.dstate = b.slice(b.pad(at_start, 1, 0, 1), 1, 1, k.chunks);
  const ValueId through = ssd_product(  // [b, c, g, q, e, p]
      b, k, k.b_in, w.dstate,
      {.lhs_contract = {4}, .rhs_contract = {5}, .lhs_batch = {0, 1, 3}, .rhs_batch = {0, 1, 2}});
  w.to_state = scale_rows(b, b.transpose(through, {0, 1, 3, 2, 4, 5}), k.to_end);
  const ValueId pairs =
      ssd_product(b, k, w.dy, k.x,
                  {.lhs_contract = {5}, .rhs_contract = {5}, .lhs_batch = {0, 1, 3, 4}, .rhs_batch = {0, 1, 3, 4}});
  const ValueId dt_read = b.broadcast(positions_last(b, k.dt), b.shape(k.scores), {0, 1, 2, 3, 5});
  w.dscores = b.mul(b.mul(pairs, k.decay), dt_read);
  return w;
}

// Cotangent of x before the factor dt: inside the chunk and through the state.
ValueId build_dx_over_dt(Builder& b, const Backward& w) {
  const ValueId inside = ssd_product(  // [b, c, g, e, q, p]
      b, w.k, b.mul(w.k.scores, w.k.decay), w.dy,
      {.lhs_contract = {4}, .rhs_contract = {2}, .lhs_batch = {0, 1, 2, 3}, .rhs_batch = {0, 1, 3, 4}});
  return b.add(b.transpose(inside, {0, 1, 4, 2, 3, 5}), w.to_state);
}

// What the cotangent of one projection, B or C, is made of.
struct Projection {
  ValueId other;         // C or B, which the scores multiply it with
  int64_t summed;        // dimension of the scores that belongs to `other`
  ValueId rows, states;  // what meets outside the chunk
};

// dB or dC [.., s, g, n]: inside the chunk from the other one, summed over the heads of a group, and from the state.
ValueId build_projection(Builder& b, const Backward& w, const Projection& p) {
  const ValueId dscores = b.reduce_sum(w.dscores, {3});  // [b, c, g, i, j]
  const ValueId inside =
      ssd_product(b, w.k, dscores, p.other,
                  {.lhs_contract = {p.summed}, .rhs_contract = {2}, .lhs_batch = {0, 1, 2}, .rhs_batch = {0, 1, 3}});
  const ValueId outside =
      ssd_product(b, w.k, p.rows, p.states,
                  {.lhs_contract = {4, 5}, .rhs_contract = {3, 4}, .lhs_batch = {0, 1, 3}, .rhs_batch = {0, 1, 2}});
  const SsdSizes& z = w.k.sizes;
  const ValueId sum = b.transpose(b.add(inside, outside), {0, 1, 3, 2, 4});
  return out_of_chunks(b, w.k, sum, {z.groups, z.state});
}

// Cotangent of the log decay dt A at each position [b, c, q, g, e]: all paths that cross it.
ValueId build_dlog_decay(Builder& b, const Backward& w) {
  const SsdChunks& k = w.k;
  const ValueId terms = b.mul(k.scores, w.dscores);
  // Sums over the positions before each, as one product: a running sum would pass over all pairs several times.
  const ir::Shape square = {k.length, k.length};
  const ValueId position = b.iota(square, 0);
  const ValueId is_earlier = b.compare(position, b.iota(square, 1), "lt");
  const ValueId none = b.constant(0, square);
  const ValueId earlier = b.select(is_earlier, b.constant(1, square), none);
  const ValueId before = ssd_product(b, k, terms, earlier, {.lhs_contract = {5}, .rhs_contract = {0}});
  const ValueId is_causal = pair_mask(b, k, "ge");
  const ValueId crossing = b.select(is_causal, before, b.constant_like(0.0, before));
  const ValueId inside = heads_last(b, b.reduce_sum(crossing, {4}));
  const ValueId read = ssd_product(  // [b, c, g, q, e, p]
      b, k, k.c_out, k.previous,
      {.lhs_contract = {4}, .rhs_contract = {5}, .lhs_batch = {0, 1, 3}, .rhs_batch = {0, 1, 2}});
  const ValueId out = b.reduce_sum(b.mul(w.dy_decayed, b.transpose(read, {0, 1, 3, 2, 4, 5})), {5});
  const ValueId in = b.mul(k.dt, b.reduce_sum(b.mul(k.x, w.to_state), {5}));
  const ValueId over = b.mul(k.whole, b.reduce_sum(b.mul(k.previous, w.dstate), {4, 5}));
  const ValueId read_later = b.cumsum(out, 2, true);
  const ValueId added_before = shift_later(b, b.cumsum(in, 2), 2);
  const ValueId through = b.add(read_later, added_before);
  const ValueId in_chunk = b.add(inside, through);
  return b.add(in_chunk, b.broadcast(over, b.shape(k.dt), {0, 1, 3, 4}));
}

std::vector<ValueId> decompose_ssd_grad(Builder& b, const std::vector<ValueId>& operands, const ir::Attrs& attrs) {
  const Backward w = build_backward(b, operands, attrs);
  const SsdChunks& k = w.k;
  const SsdSizes& z = k.sizes;
  const ValueId dx_over_dt = build_dx_over_dt(b, w);
  const ValueId dlog_decay = build_dlog_decay(b, w);
  const ValueId through_x = b.reduce_sum(b.mul(k.x, dx_over_dt), {5});
  const ValueId through_decay = b.mul(dlog_decay, b.broadcast(k.a, b.shape(k.dt), {3, 4}));
  const ValueId ddt = b.add(through_x, through_decay);
  std::vector<ValueId> results = {
      out_of_chunks(b, k, scale_rows(b, dx_over_dt, k.dt), {z.heads(), z.head_dim}),
      out_of_chunks(b, k, ddt, {z.heads()}),
      b.reshape(b.reduce_sum(b.mul(k.dt, dlog_decay), {0, 1, 2}), {z.heads()}),
      build_projection(b, w, {.other = k.c_out, .summed = 3, .rows = k.added, .states = w.dstate}),
      build_projection(b, w, {.other = k.b_in, .summed = 4, .rows = w.dy_decayed, .states = k.previous}),
  };
  for (size_t i = 0; i < results.size(); ++i) results[i] = b.convert(results[i], b.type(operands[i]).dtype);
  return results;
}

// Of the chunked products, three are shared by the heads of a group, two are inside the chunk, five touch the state.
Cost ssd_grad_cost(const NodeView& view) {
  const SsdSizes z = ssd_sizes("ssd_grad", view.operands, view.attrs);
  const int64_t q = std::min(view.attrs.integer("chunk"), z.seq);
  const int64_t per_position = 3 * q * z.state * z.groups + (2 * q + 5 * z.state) * z.head_dim * z.heads();
  return {.flops = 2.0 * static_cast<double>(z.batch() * z.seq) * static_cast<double>(per_position)};
}

// Of pairs there are the scores with their decay and the terms of the log decay, each written for a product, and two
// products' results, of which the cotangent of the scores is read twice.
Cost ssd_grad_cost_by_xla(const NodeView& view) {
  constexpr SsdTraffic kTraffic = {.pairs = {.narrow = 4, .wide = 5},
                                   .scores = {.narrow = 3, .wide = 5},
                                   .states = {.narrow = 6, .wide = 10},
                                   .channels = {.narrow = 15, .wide = 9},
                                   .projections = {.narrow = 10, .wide = 8},
                                   .rows = {.wide = 37}};
  Cost cost = ssd_grad_cost(view);
  cost.bytes = ssd_bytes_between(view, ssd_sizes("ssd_grad", view.operands, view.attrs), kTraffic);
  return cost;
}

}  // namespace

OpDef ssd_grad_def() {
  OpDef def;
  def.name = "ssd_grad";
  def.doc = "gradients of ssd from its operands and the cotangent";
  def.infer = infer_ssd_grad;
  def.factors = [](const NodeView& view) {
    const std::string s = ssd_position_names(view), x = s + " (g e) p", dt = s + " (g e)", bc = s + " g n";
    const std::string five = x + "," + dt + ", (g e)," + bc + "," + bc;
    const std::string positions = view.operands.size() > kSsdGradOperands ? "," + s : "";
    return factors_from(view, five + "," + x + positions + " -> " + five, "s n");
  };
  def.no_grad = "made by autodiff; second derivatives are not taken";
  def.cost = ssd_grad_cost;
  def.work = Work::ssd;
  def.cost_by_xla = ssd_grad_cost_by_xla;
  def.reference = reference_ssd_grad;
  def.decompose = decompose_ssd_grad;
  def.samples = [] { return ssd_samples(true); };
  return def;
}

}  // namespace megacpp::ops
