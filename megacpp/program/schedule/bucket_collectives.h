// SPDX-License-Identifier: Apache-2.0
// Combines collectives of one kind over the same axes, of one dtype and reduction, into one node of many operands, when
// none depends on another. Weight gathers and gradient reductions are combined as the policy says; always combined are
// all-reduces of a few numbers, where nobody reads the first before the last is there, and permutes and all-to-alls
// that are ready together, whatever their dtypes. A gather of weights stands where the first of its members stood, any
// other bucket where the last one did. Takes n log n time in the graph's size. On one chip there is nothing to combine.
#pragma once

#include <cstdint>
#include <string_view>

#include "megacpp/core/ir/graph.h"

namespace megacpp::schedule {

struct BucketPolicy {
  enum class Unit : uint8_t {
    none,   // weight gathers and gradient reductions stay single
    block,  // one for each visit of a block: forward and backward apart
    bytes,  // a bucket closes after the tensor that makes it reach `bytes`
  };
  enum class Order : uint8_t { as_written, reversed };

  Unit unit = Unit::none;
  int64_t bytes = 0;                // of whole tensors: what is reduced, what a gather leaves
  int64_t start_multiple = 1;       // elements: where a tensor starts in a bucket is rounded up to it, when counting
  Order order = Order::as_written;  // in which tensors enter buckets; gradients go backwards through the parameters
};

/// The cause of a bucket tells how many collectives it was, and why the first of them was there.
ir::Graph bucket_collectives(const ir::Graph& graph, const BucketPolicy& policy);

/// The cause of the first collective of a bucket; of any other collective its own.
std::string_view first_cause(std::string_view cause);

}  // namespace megacpp::schedule
