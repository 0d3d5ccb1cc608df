// SPDX-License-Identifier: Apache-2.0
// Rows written into the slots of a cache that carry their labels; all other slots stay as they are. A decoder keeps the
// keys and values of the last tokens so: labels are positions in time, and few slots of many change.
#include <algorithm>

#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::TensorType;

Types infer_cache_update(const Types& operands, const ir::Attrs&) {
  require_operand_count("cache_update", operands, 4);
  const TensorType& cache = operands[0];
  const TensorType& rows = operands[1];
  bool fits = cache.rank() >= 2 && is_float(cache.dtype) && rows.dtype == cache.dtype && rows.rank() == cache.rank();
  for (int64_t d = 0; fits && d < cache.rank(); ++d) fits = d == 1 || rows.dim(d) == cache.dim(d);
  fits = fits && operands[2] == TensorType{DType::i32, {cache.dim(1)}} &&
         operands[3] == TensorType{DType::i32, {rows.dim(1)}};
  require_operands(fits, "cache_update", operands,
                   "cache[b,t,..], rows[b,c,..], i32 labels of slots[t] and of rows[c]");
  return {cache};
}

void reference_cache_update(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
  const TensorType& cache = operands[0].type;
  const int64_t slots = cache.dim(1), rows = operands[1].type.dim(1);
  const int64_t width = cache.elements() / (cache.dim(0) * slots);
  results[0].data = operands[0].data;
  for (int64_t slot = 0; slot < slots; ++slot)
    for (int64_t row = 0; row < rows; ++row) {
      if (operands[2][slot] != operands[3][row]) continue;
      for (int64_t batch = 0; batch < cache.dim(0); ++batch)
        for (int64_t i = 0; i < width; ++i)
          results[0][(batch * slots + slot) * width + i] = operands[1][(batch * rows + row) * width + i];
    }
}

// A product with ones where labels agree picks the rows: no label stands twice among them.
std::vector<ValueId> decompose_cache_update(Builder& b, const std::vector<ValueId>& operands, const ir::Attrs&) {
  const TensorType cache = b.type(operands[0]);
  const int64_t batch = cache.dim(0), slots = cache.dim(1), rows = b.type(operands[1]).dim(1);
  const int64_t width = cache.elements() / (batch * slots);
  const ValueId of_slots = b.broadcast(operands[2], {slots, rows}, {0});
  const ValueId of_rows = b.broadcast(operands[3], {slots, rows}, {1});
  const ValueId agrees = b.convert(b.compare(of_slots, of_rows, "eq"), DType::f32);
  const ValueId flat = b.reshape(b.convert(operands[1], DType::f32), {batch, rows, width});
  const ValueId picked = b.dot(agrees, flat, {.lhs_contract = {1}, .rhs_contract = {1}});  // [slots, batch, width]
  const ValueId ordered = b.reshape(b.transpose(picked, {1, 0, 2}), cache.shape);
  const ValueId written = b.convert(ordered, cache.dtype);
  const ValueId count = b.reduce_sum(agrees, {1});
  const ValueId is_written = b.compare(count, b.constant_like(0.5, count), "gt");
  return {b.select(b.broadcast(is_written, cache.shape, {1}), written, operands[0])};
}

Factors cache_update_factors(const NodeView& view) {
  const std::string tail = numbered_names("d", view.operands[0].rank() - 2);
  return factors_from(view, "b t " + tail + ", b c " + tail + ", t, c -> b t " + tail, "c");
}

// Labels of slots go round from `first` on; rows have those of the last ones, in time order.
Sample update_sample(std::string name, ir::Shape cache, int64_t rows, int64_t first) {
  ir::Shape written = cache;
  written[1] = rows;
  const int64_t slots = cache[1];
  return {.name = std::move(name),
          .operands = {{DType::f32, cache}, {DType::f32, written}, {DType::i32, {slots}}, {DType::i32, {rows}}},
          .attrs = {},
          .fill = [=](std::vector<Tensor>& operands) {
            const int64_t end = first + slots;
            for (int64_t label = first; label < end; ++label) operands[2][label % slots] = static_cast<double>(label);
            for (int64_t row = 0; row < rows; ++row) operands[3][row] = static_cast<double>(end - rows + row);
          }};
}

}  // namespace

OpDef cache_update_def() {
  return {.name = "cache_update",
          .doc = "cache[b,t,..] with rows[b,c,..] in the slots whose labels[t] are the rows' labels[c]",
          .infer = infer_cache_update,
          .factors = cache_update_factors,
          .no_grad = "keeps what a decoder has read, and decoders are not trained",
          .cost = [](const NodeView&) { return Cost{}; },
          .reference = reference_cache_update,
          .decompose = decompose_cache_update,
          .may_alias = 0,
          .samples =
              [] {
                return std::vector<Sample>{update_sample("one_row", {2, 6, 4}, 1, 3),
                                           update_sample("rows_around_the_end", {3, 5, 2, 4}, 3, 4),
                                           update_sample("all_rows", {1, 4, 3}, 4, 0)};
              }};
}

}  // namespace megacpp::ops
