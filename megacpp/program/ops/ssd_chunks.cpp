// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/ssd_chunks.h"

#include <algorithm>
#include <optional>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/require.h"
#include "megacpp/program/ops/sample_values.h"

namespace megacpp::ops {
namespace {

constexpr double kNever = -1e30;  // exp of it is zero

// A difference of running sums from the chunk's start, as published kernels take it: it carries the rounding of the
// whole sum, 1e-5 for chunks of 128 and steps of dt A about one. Masked before exp, which would overflow above the
// diagonal.
ValueId build_decay(Builder& b, const SsdChunks& k, ValueId sums, std::optional<ValueId> positions) {
  const SsdSizes& z = k.sizes;
  const ir::Shape pairs = {z.batch(), k.chunks, z.groups, z.heads_per_group, k.length, k.length};
  const ValueId to_position = positions_last(b, sums);
  const ValueId to_written = b.broadcast(to_position, pairs, {0, 1, 2, 3, 4});
  const ValueId between = b.sub(to_written, b.broadcast(to_position, pairs, {0, 1, 2, 3, 5}));
  const ValueId is_causal = pair_mask(b, k, "ge");
  const ValueId causal = b.select(is_causal, between, b.constant(kNever, pairs));
  if (!positions) return b.exp(causal);
  const ir::Shape square = {k.length, k.length};
  const ValueId row = b.iota(square, 0, ir::DType::f32);
  const ValueId apart = b.broadcast(b.sub(row, b.iota(square, 1, ir::DType::f32)), pairs, {4, 5});
  const ValueId is_inside = b.compare(b.broadcast(*positions, pairs, {0, 1, 4}), apart, "ge");
  return b.exp(b.select(is_inside, causal, b.constant(kNever, pairs)));
}

// Zero from the first position on where a document begins: it is then no further into it than into the chunk.
ValueId build_from_start(Builder& b, ValueId sums, std::optional<ValueId> positions) {
  const ValueId decay = b.exp(sums);
  if (!positions) return decay;
  const ValueId place = b.iota(b.shape(*positions), 2, ir::DType::f32);
  const ValueId is_before = b.broadcast(b.compare(place, *positions, "lt"), b.shape(sums), {0, 1, 2});
  return b.select(is_before, decay, b.constant(0, b.shape(sums)));
}

ValueId build_scores(Builder& b, const SsdChunks& k) {
  const SsdSizes& z = k.sizes;
  const ValueId per_group =
      ssd_product(b, k, k.c_out, k.b_in,
                  {.lhs_contract = {4}, .rhs_contract = {4}, .lhs_batch = {0, 1, 3}, .rhs_batch = {0, 1, 3}});
  return b.broadcast(per_group, {z.batch(), k.chunks, z.groups, z.heads_per_group, k.length, k.length},
                     {0, 1, 2, 4, 5});
}

ValueId build_previous(Builder& b, const SsdChunks& k) {
  const ValueId states =
      ssd_product(b, k, k.added, k.b_in,
                  {.lhs_contract = {2}, .rhs_contract = {2}, .lhs_batch = {0, 1, 3}, .rhs_batch = {0, 1, 3}});
  return shift_later(b, carry_states(b, k, states, false), 1);
}

// Uniform draws from [-1, 1] made into steps in [0.05, 1.05] and rates in [-1.6, -0.1].
void make_stable(std::vector<Tensor>& operands) {
  for (double& dt : operands[1].data) dt = 0.55 + 0.5 * dt;
  for (double& a : operands[2].data) a = -0.85 + 0.75 * a;
}

}  // namespace

std::vector<Sample> ssd_samples(bool with_cotangent) {
  const auto f32 = [](ir::Shape shape) { return ir::TensorType{ir::DType::f32, std::move(shape)}; };
  struct Case {
    std::string name;
    SsdSizes z;
    int64_t chunk;
  };
  std::vector<Sample> samples;
  for (const auto& [name, z, chunk] : std::vector<Case>{{"whole_chunks", {{2}, 8, 2, 2, 4, 2}, 4},
                                                        {"ragged_end", {{1}, 7, 1, 3, 3, 5}, 3},
                                                        {"chunk_longer_than_sequence", {{2}, 3, 3, 1, 2, 3}, 16},
                                                        {"runs", {{2, 2}, 5, 1, 2, 2, 3}, 3},
                                                        {"documents", {{2}, 11, 1, 2, 3, 2}, 4},
                                                        {"documents_runs", {{1, 2}, 7, 2, 1, 2, 3}, 16}}) {
    const ir::Shape x = z.positions({z.heads(), z.head_dim}), bc = z.positions({z.groups, z.state});
    Sample sample{.name = name,
                  .operands = {f32(x), f32(z.positions({z.heads()})), f32({z.heads()}), f32(bc), f32(bc)},
                  .attrs = {{"chunk", chunk}},
                  .fill = make_stable};
    if (with_cotangent) sample.operands.push_back(f32(x));
    if (name.starts_with("documents")) {
      sample.operands.push_back({ir::DType::i32, z.positions({})});
      sample.fill = [](std::vector<Tensor>& operands) {
        make_stable(operands);
        fill_document_positions(operands.back());
      };
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

ir::Shape SsdSizes::positions(const ir::Shape& tail) const {
  ir::Shape shape = leading;
  shape.push_back(seq);
  shape.insert(shape.end(), tail.begin(), tail.end());
  return shape;
}

void require_ssd_positions(std::string_view op, const Types& operands, size_t count) {
  require_operands(operands.size() == count || operands.size() == count + 1, op, operands,
                   std::to_string(count) + " operands, or one more: positions");
  if (operands.size() == count) return;
  const ir::Shape& x = operands[0].shape;
  require_float_rank_from(op, "x", operands[0], 3);
  require_type(op, "positions", operands[count], {ir::DType::i32, {x.begin(), x.end() - 2}});
}

std::string ssd_position_names(const NodeView& view) { return numbered_names("b", view.operands[1].rank() - 2) + "s"; }

SsdSizes ssd_sizes(std::string_view op, const Types& operands, const ir::Attrs& attrs) {
  require_at_least(op, attrs, "chunk", 1);
  require_float_rank_from(op, "x", operands[0], 3);
  require_float_rank(op, "B", operands[3], operands[0].rank());
  const ir::TensorType& x = operands[0];
  const int64_t heads = x.dim(-2), groups = operands[3].dim(-2);
  const SsdSizes sizes = {.leading = {x.shape.begin(), x.shape.end() - 3},
                          .seq = x.dim(-3),
                          .groups = groups,
                          .heads_per_group = heads / std::max<int64_t>(1, groups),
                          .head_dim = x.dim(-1),
                          .state = operands[3].dim(-1)};
  require_float_shape(op, "dt", operands[1], sizes.positions({heads}));
  require_float_shape(op, "A", operands[2], {heads});
  require_float_shape(op, "B", operands[3], sizes.positions({groups, sizes.state}));
  require_float_shape(op, "C", operands[4], operands[3].shape);
  MEGACPP_REQUIRE(groups > 0 && heads % groups == 0, E1301,
                  {.where = std::string(op),
                   .got = std::to_string(heads) + " heads in " + std::to_string(groups) + " groups",
                   .wanted = "groups that divide the heads"});
  return sizes;
}

double ssd_bytes_between(const NodeView& view, const SsdSizes& z, const SsdTraffic& traffic) {
  const int64_t narrow = ir::dtype_bytes(view.operands[0].dtype), wide = ir::dtype_bytes(ir::DType::f32);
  const int64_t q = std::min(view.attrs.integer("chunk"), z.seq), positions = z.batch() * z.seq;
  const int64_t chunks = z.batch() * ((z.seq + q - 1) / q);
  double bytes = 0;
  const auto add = [&](const SsdPasses& passes, int64_t elements) {
    bytes += static_cast<double>(passes.narrow * narrow + passes.wide * wide) * static_cast<double>(elements);
  };
  add(traffic.pairs, positions * z.heads() * q);
  add(traffic.scores, positions * z.groups * q);
  add(traffic.states, chunks * z.heads() * z.head_dim * z.state);
  add(traffic.channels, positions * z.heads() * z.head_dim);
  add(traffic.projections, positions * z.groups * z.state);
  add(traffic.rows, positions * z.heads());
  for (const Types* const types : {&view.operands, &view.results})
    for (const ir::TensorType& type : *types) bytes -= static_cast<double>(type.bytes());
  return std::max(0.0, bytes);
}

ValueId into_chunks(Builder& b, const SsdChunks& k, ValueId v, const ir::Shape& tail) {
  const int64_t missing = k.chunks * k.length - k.sizes.seq;
  ValueId whole = b.convert(v, ir::DType::f32);
  if (missing > 0) whole = b.pad(whole, static_cast<int64_t>(k.sizes.leading.size()), 0, missing);
  ir::Shape shape = {k.sizes.batch(), k.chunks, k.length};
  shape.insert(shape.end(), tail.begin(), tail.end());
  return b.reshape(whole, shape);
}

ValueId out_of_chunks(Builder& b, const SsdChunks& k, ValueId v, const ir::Shape& tail) {
  const size_t dim = k.sizes.leading.size();
  ir::Shape shape = k.sizes.positions(tail);
  shape[dim] = k.chunks * k.length;
  return b.slice(b.reshape(v, shape), static_cast<int64_t>(dim), 0, k.sizes.seq);
}

ValueId positions_last(Builder& b, ValueId v) { return b.transpose(v, {0, 1, 3, 4, 2}); }
ValueId heads_last(Builder& b, ValueId v) { return b.transpose(v, {0, 1, 4, 2, 3}); }

ValueId scale_rows(Builder& b, ValueId v, ValueId factor) {
  return b.mul(v, b.broadcast(factor, b.shape(v), {0, 1, 2, 3, 4}));
}

ValueId shift_later(Builder& b, ValueId v, int64_t dim) {
  return b.slice(b.pad(v, dim, 1, 0), dim, 0, b.type(v).dim(dim));
}

ValueId pair_mask(Builder& b, const SsdChunks& k, std::string_view direction) {
  const SsdSizes& z = k.sizes;
  const ir::Shape square = {k.length, k.length};
  const ValueId row = b.iota(square, 0);
  const ValueId column = b.iota(square, 1);
  const ValueId mask = b.compare(row, column, direction);
  return b.broadcast(mask, {z.batch(), k.chunks, z.groups, z.heads_per_group, k.length, k.length}, {4, 5});
}

ValueId ssd_product(Builder& b, const SsdChunks& k, ValueId lhs, ValueId rhs, const Builder::DotDims& dims) {
  const ValueId left = b.convert(lhs, k.product_dtype);
  return b.wide_dot(left, b.convert(rhs, k.product_dtype), dims);
}

ValueId carry_states(Builder& b, const SsdChunks& k, ValueId states, bool reverse) {
  const ir::Shape shape = b.shape(states);
  const ir::Shape flat = {shape[0], shape[1], shape[2] * shape[3] * shape[4] * shape[5]};
  const ValueId decay = b.reshape(b.broadcast(k.whole, shape, {0, 1, 2, 3}), flat);
  const ValueId sums =
      b.one("linear_recurrence", {decay, b.reshape(states, flat)}, {{"reverse", int64_t{reverse ? 1 : 0}}});
  return b.reshape(sums, shape);
}

SsdChunks build_ssd_chunks(Builder& b, const std::vector<ValueId>& operands, size_t count, const ir::Attrs& attrs) {
  Types types;
  for (const ValueId v : operands) types.push_back(b.type(v));
  SsdChunks k;
  k.sizes = ssd_sizes("ssd", types, attrs);
  const SsdSizes& z = k.sizes;
  k.product_dtype = types[0].dtype;
  k.length = std::min(attrs.integer("chunk"), z.seq);
  k.chunks = (z.seq + k.length - 1) / k.length;
  k.x = into_chunks(b, k, operands[0], {z.groups, z.heads_per_group, z.head_dim});
  k.dt = into_chunks(b, k, operands[1], {z.groups, z.heads_per_group});
  k.a = b.reshape(b.convert(operands[2], ir::DType::f32), {z.groups, z.heads_per_group});
  k.b_in = into_chunks(b, k, operands[3], {z.groups, z.state});
  k.c_out = into_chunks(b, k, operands[4], {z.groups, z.state});
  const ValueId log_decay = b.mul(k.dt, b.broadcast(k.a, b.shape(k.dt), {3, 4}));
  const ValueId sums = b.cumsum(log_decay, 2);
  std::optional<ValueId> positions;  // f32[b, c, q]
  if (operands.size() > count) positions = into_chunks(b, k, operands[count], {});
  k.decay = build_decay(b, k, sums, positions);
  k.from_start = build_from_start(b, sums, positions);
  const ir::Shape rows = {z.batch(), k.chunks, z.groups, z.heads_per_group, k.length};
  k.to_end = heads_last(b, b.reshape(b.slice(k.decay, 4, k.length - 1, 1), rows));
  k.whole = b.reshape(b.slice(k.from_start, 2, k.length - 1, 1), {z.batch(), k.chunks, z.groups, z.heads_per_group});
  k.scores = build_scores(b, k);
  k.added = scale_rows(b, k.x, b.mul(k.dt, k.to_end));
  k.previous = build_previous(b, k);
  return k;
}

}  // namespace megacpp::ops
