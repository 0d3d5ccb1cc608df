// SPDX-License-Identifier: Apache-2.0
// What ssd and ssd_grad share: operand checks, and the first half of both decompositions, which cuts the sequence
// into chunks (padded with dt = 0, which neither decays nor adds), builds the decays inside a chunk and carries the
// states from chunk to chunk. All built values are f32; products multiply them as x is stored.
#pragma once

#include <string_view>
#include <vector>

#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::ops {

/// Sizes of ssd's operands: x [.., s, (g e), p], dt [.., s, (g e)], A [(g e)], B and C [.., s, g, n]. The leading
/// dimensions are independent sequences; below they stand as one, b.
struct SsdSizes {
  ir::Shape leading;
  int64_t seq, groups, heads_per_group, head_dim, state;
  int64_t batch() const { return ir::num_elements(leading); }
  int64_t heads() const { return groups * heads_per_group; }
  /// [.., s, tail...]
  ir::Shape positions(const ir::Shape& tail) const;
};

/// Operands without `positions`, which stands behind them where it is present.
inline constexpr size_t kSsdOperands = 5, kSsdGradOperands = 6;

/// "b0 s": the factor names of dt's dimensions before the heads, as many as it has.
std::string ssd_position_names(const NodeView& view);

/// Raises E1301 unless the first five operands fit together; `op` is named in the error.
SsdSizes ssd_sizes(std::string_view op, const Types& operands, const ir::Attrs& attrs);

/// Raises E1301 unless there are `count` operands, or one more that fits as positions.
void require_ssd_positions(std::string_view op, const Types& operands, size_t count);

/// How often kernels read or write a tensor: in the dtype of products, and in f32.
struct SsdPasses {
  int64_t narrow = 0, wide = 0;
};

/// What the kernels that XLA for GPUs makes of a decomposition read and write. Every product is a kernel that reads its
/// operands in the dtype of x and writes f32. Elementwise ops are part of the kernel that writes a product's operand,
/// of a sum or of a recurrence, which reads each value it needs once; what is made of vectors alone (decays, masks) is
/// made again in each. Equal parts are made once.
struct SsdTraffic {
  SsdPasses pairs;        // [b, c, heads, q, q]
  SsdPasses scores;       // [b, c, g, q, q]
  SsdPasses states;       // [b, c, heads, p, n]
  SsdPasses channels;     // [b, s, heads, p], x among them
  SsdPasses projections;  // [b, s, g, n], B and C among them
  SsdPasses rows;         // [b, s, heads], dt among them
};

/// In bytes, less what `view` takes and leaves, which stands for itself.
double ssd_bytes_between(const NodeView& view, const SsdSizes& sizes, const SsdTraffic& traffic);

/// The samples of ssd, or of ssd_grad with the cotangent as the sixth operand. A is negative and dt positive in them.
std::vector<Sample> ssd_samples(bool with_cotangent);

/// Below: c chunks, q positions in a chunk, i the position written and j the position read, j <= i.
struct SsdChunks {
  SsdSizes sizes;
  ir::DType product_dtype;
  int64_t chunks, length;
  ValueId x;            // [b, c, q, g, e, p]
  ValueId dt;           // [b, c, q, g, e]
  ValueId a;            // [g, e]
  ValueId b_in, c_out;  // [b, c, q, g, n]
  ValueId decay;        // [b, c, g, e, i, j] from j to i; zero for j > i and between documents
  ValueId from_start;   // [b, c, q, g, e] decay from the chunk's start to a position; zero once a document begins
  ValueId to_end;       // [b, c, q, g, e] decay from a position to the chunk's end
  ValueId whole;        // [b, c, g, e] decay over the chunk
  ValueId scores;       // [b, c, g, e, i, j] C_i . B_j, repeated for the heads of a group
  ValueId added;        // [b, c, q, g, e, p] what a position leaves in the state at the chunk's end, less its B
  ValueId previous;     // [b, c, g, e, p, n] state at the chunk's start
};

/// `count` as above.
SsdChunks build_ssd_chunks(Builder& b, const std::vector<ValueId>& operands, size_t count, const ir::Attrs& attrs);

/// [.., s, ...] -> [b, c, q, tail...]
ValueId into_chunks(Builder& b, const SsdChunks& k, ValueId v, const ir::Shape& tail);
/// [b, c, q, ...] -> [.., s, tail...]
ValueId out_of_chunks(Builder& b, const SsdChunks& k, ValueId v, const ir::Shape& tail);
/// [b, c, g, e, q] <-> [b, c, q, g, e]
ValueId positions_last(Builder& b, ValueId v);
ValueId heads_last(Builder& b, ValueId v);
/// v [b, c, q, g, e, p] times factor [b, c, q, g, e]
ValueId scale_rows(Builder& b, ValueId v, ValueId factor);
/// Position t of `dim` holds what stood at t - 1; the first is zero.
ValueId shift_later(Builder& b, ValueId v, int64_t dim);
/// pred [b, c, g, e, i, j]: i `direction` j.
ValueId pair_mask(Builder& b, const SsdChunks& k, std::string_view direction);
/// f32 product of two values rounded to the type of x.
ValueId ssd_product(Builder& b, const SsdChunks& k, ValueId lhs, ValueId rhs, const Builder::DotDims& dims);
/// States [b, c, g, e, p, n] summed along the chunks with decay `whole`, forwards or backwards.
ValueId carry_states(Builder& b, const SsdChunks& k, ValueId states, bool reverse);

}  // namespace megacpp::ops
