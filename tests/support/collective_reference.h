// SPDX-License-Identifier: Apache-2.0
// What the ops between chips compute, slow and obvious: from the operands of a whole group, the results of one member.
// The answer that transports and partitioned programs are compared with. send and recv are not here: they pair two
// programs, not the members of a group.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/attrs.h"
#include "megacpp/program/ops/collective_start.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/tensor.h"

namespace megacpp::testing_support {
namespace collective_reference {

using ir::Shape;
using ops::Tensor;

struct Group {
  std::span<const std::vector<Tensor>> operands;  // by member
  size_t member;                                  // whose results are wanted
  const ir::Attrs& attrs;

  int64_t parts() const { return static_cast<int64_t>(operands.size()); }
  int64_t index() const { return static_cast<int64_t>(member); }
  /// The member attribute `shift` places before this one, around the group.
  int64_t shifted() const {
    const int64_t place = (index() - attrs.integer("shift", 0)) % parts();
    return place < 0 ? place + parts() : place;
  }
};

using Reference = std::function<void(const Group&, std::span<Tensor> results)>;

inline double sum_at(const Group& group, size_t operand, int64_t element) {
  double sum = 0;
  for (const std::vector<Tensor>& own : group.operands) sum += own[operand][element];
  return sum;
}

inline void reference_all_gather(const Group& group, std::span<Tensor> results) {
  for (size_t r = 0; r < results.size(); ++r) {
    const size_t dim = static_cast<size_t>(group.attrs.list("dims")[r]);
    const Shape& part = group.operands[0][r].type.shape;
    int64_t i = 0;
    ops::for_each_index(results[r].type.shape, [&](Shape index) {
      const size_t owner = static_cast<size_t>(index[dim] / part[dim]);
      index[dim] %= part[dim];
      results[r][i++] = group.operands[owner][r][ops::flat_index(index, part)];
    });
  }
}

inline void reference_reduce_scatter(const Group& group, std::span<Tensor> results) {
  for (size_t r = 0; r < results.size(); ++r) {
    const size_t dim = static_cast<size_t>(group.attrs.list("dims")[r]);
    int64_t i = 0;
    ops::for_each_index(results[r].type.shape, [&](Shape index) {
      index[dim] += group.index() * results[r].type.shape[dim];
      results[r][i++] = sum_at(group, r, ops::flat_index(index, group.operands[0][r].type.shape));
    });
  }
}

inline void reference_all_reduce(const Group& group, std::span<Tensor> results) {
  const bool is_sum = group.attrs.text("kind") == "sum";
  for (size_t r = 0; r < results.size(); ++r) {
    for (int64_t i = 0; i < results[r].elements(); ++i) {
      double largest = group.operands[0][r][i];
      for (const std::vector<Tensor>& own : group.operands) largest = std::max(largest, own[r][i]);
      results[r][i] = is_sum ? sum_at(group, r, i) : largest;
    }
  }
}

inline void reference_all_to_all(const Group& group, std::span<Tensor> results) {
  const size_t split = static_cast<size_t>(group.attrs.integer("split"));
  const size_t concat = static_cast<size_t>(group.attrs.integer("concat"));
  for (size_t r = 0; r < results.size(); ++r) {
    const Shape& whole = group.operands[0][r].type.shape;
    const Shape& result = results[r].type.shape;
    int64_t i = 0;
    ops::for_each_index(result, [&](Shape index) {
      const size_t sender = static_cast<size_t>(index[concat] / whole[concat]);
      index[concat] %= whole[concat];
      index[split] += group.index() * result[split];
      results[r][i++] = group.operands[sender][r][ops::flat_index(index, whole)];
    });
  }
}

inline void reference_permute(const Group& group, std::span<Tensor> results) {
  const auto sender = static_cast<size_t>(group.shifted());
  for (size_t r = 0; r < results.size(); ++r) results[r].data = group.operands[sender][r].data;
}

inline void reference_shard_index(const Group& group, std::span<Tensor> results) {
  results[0][0] = static_cast<double>(group.index());
}

inline void reference_shard_slice(const Group& group, std::span<Tensor> results) {
  const size_t dim = static_cast<size_t>(group.attrs.integer("dim"));
  const Tensor& whole = group.operands[group.member][0];
  int64_t i = 0;
  ops::for_each_index(results[0].type.shape, [&](Shape index) {
    index[dim] += group.shifted() * results[0].type.shape[dim];
    const bool is_inside = index[dim] < whole.type.shape[dim];
    results[0][i++] = is_inside ? whole[ops::flat_index(index, whole.type.shape)] : 0.0;
  });
}

}  // namespace collective_reference

/// `operands[m]` are the operands of member m; all members have the same types. Results are not rounded.
inline std::vector<ops::Tensor> evaluate_collective(std::string_view op,
                                                    std::span<const std::vector<ops::Tensor>> operands, size_t member,
                                                    const ir::Attrs& attrs) {
  if (op == ops::kStartOp) return evaluate_collective(attrs.text("op"), operands, member, attrs);
  if (op == ops::kDoneOp) return operands[member];
  using namespace collective_reference;
  static const std::map<std::string_view, Reference> references = {
      {"all_gather", reference_all_gather},         {"all_reduce", reference_all_reduce},
      {"all_to_all", reference_all_to_all},         {"permute", reference_permute},
      {"reduce_scatter", reference_reduce_scatter}, {"shard_index", reference_shard_index},
      {"shard_slice", reference_shard_slice},
  };
  const auto reference = references.find(op);
  MEGACPP_CHECK(reference != references.end()) << op << " is not computed by a group in lockstep";
  MEGACPP_CHECK(static_cast<int64_t>(operands.size()) == attrs.integer("parts"))
      << op << " of " << attrs.integer("parts") << " parts over " << operands.size() << " chips";
  ops::Types types;
  for (const ops::Tensor& operand : operands[member]) types.push_back(operand.type);
  std::vector<ops::Tensor> results;
  for (const ir::TensorType& type : ops::op_def(op).infer(types, attrs)) results.push_back(ops::Tensor::zeros(type));
  reference->second({operands, member, attrs}, results);
  return results;
}

}  // namespace megacpp::testing_support
