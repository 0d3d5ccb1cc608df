// SPDX-License-Identifier: Apache-2.0
// One record per op drives everything: shape inference, gradient, sharding, cost, reference kernel, decomposition.
// To add an op: write ops/<op>.cpp with one OpDef, add a line to op_list.inc; ops/op_table_test then demands that the
// record is whole, checks its gradient against finite differences, its decomposition against its reference and its
// factors by running every sample split.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/ops/hlo_writer.h"
#include "megacpp/program/ops/tensor.h"

namespace megacpp::ops {

class Builder;
class PartitionContext;
struct PartitionedResult;

using Types = std::vector<ir::TensorType>;

/// What an op's fields may look at: the types around one node and its attributes.
struct NodeView {
  const Types& operands;
  const Types& results;
  const ir::Attrs& attrs;
};

// ---- Factors: each dimension of each operand and result as an ordered product of named factors. ----

/// parallel: slices of the factor compute slices of the results independently.
/// reduction: the factor is summed away; a split leaves partial sums in the results.
/// replicated: the op must see the whole factor (sort, top-k, recurrence time).
enum class FactorKind : uint8_t { parallel, reduction, replicated };

struct Factor {
  std::string name;  // "batch", "heads", ...; unique in the op
  int64_t size;
  FactorKind kind;
};

/// For each dimension, the indices of its factors, major to minor. An empty list is a dimension of size one.
using DimFactors = std::vector<std::vector<int>>;

struct Factors {
  std::vector<Factor> factors;
  std::vector<DimFactors> operands;
  std::vector<DimFactors> results;
};

// ---- Gradient ----

/// A missing cotangent is zero.
using Cotangents = std::vector<std::optional<ir::ValueId>>;

/// Given the forward node, as seen in `builder`'s graph, and the cotangents of its results, returns those of its
/// operands. `operands` and `results` are the forward values, already recomputed where the policy says so.
struct GradArgs {
  Builder& builder;
  const std::vector<ir::ValueId>& operands;
  const std::vector<ir::ValueId>& results;
  const ir::Attrs& attrs;
  const Cotangents& cotangents;  // one per result; at least one is present
};

struct Cost {
  double flops = 0;         // multiply and add count one each
  double exponentials = 0;  // of attention: one for every score
  double bytes = 0;         // read and written beside taking operands and results once: by a loop, or between parts
};

/// Kinds of work that reach different shares of a chip's peak rates (hw::Reached).
enum class Work : uint8_t {
  traffic,      // reads and writes memory, and computes meanwhile
  elementwise,  // the same with a program of operations for every element
  product,
  attention,
  attention_grad,
  ssd,  // state-space products and their gradients
};

/// How fusion may treat the op.
enum class Fusion : uint8_t {
  none,         // runs as a kernel of its own
  elementwise,  // result element i depends on element i of the operands (a scalar instruction of a tile program)
  broadcast,    // only repeats its operand
};

/// Which partial sums may pass through the op, so that their reduction can wait.
struct Linearity {
  /// no: none. together: the op is linear in all `operands` at once (add, reshape): they must be partial over the same
  /// axes. each: in each of `operands` by itself (mul, dot): one of them may be partial.
  enum class Kind : uint8_t { no, together, each };
  Kind kind = Kind::no;
  std::vector<size_t> operands = {};  // empty: all of them

  bool covers(size_t operand) const {
    return operands.empty() || std::find(operands.begin(), operands.end(), operand) != operands.end();
  }
};

/// For OpDef::linear of ops that always are.
inline Linearity linear_together(const NodeView&) { return {Linearity::Kind::together}; }
inline Linearity linear_in_each(const NodeView&) { return {Linearity::Kind::each}; }

// ---- Between chips ----

/// What an op moves between chips, for those who time, join and start such nodes.
struct Transfer {
  enum class Kind : uint8_t {
    gather,    // the parts of all members, whole on each of them
    reduce,    // a sum or maximum over the group
    exchange,  // elements change chips as they are: nothing is computed on the way, so dtypes may mix in one call
    send,      // one message to a peer, which the sender does not wait for
    receive,   // the other end of a send
    pair_sum,  // a sum with one peer
  };
  Kind kind;

  /// Bytes one chip sends when its operands of `own` bytes meet those of `parts` chips in a ring.
  int64_t (*sent_bytes)(int64_t own, int64_t parts);

  /// Who sends to whom: which links the bytes cross, and how many of them one after the other.
  enum class Route : uint8_t {
    ring,       // from each to the next, until every part has passed all others
    all_pairs,  // from each to every other, all at once
    one_peer,   // from each to one other
  };
  Route route;

  /// When nodes that are ready together become one call. Weights and gradients follow the bucket policy instead.
  enum class Joins : uint8_t { never, small_tensors, always };
  Joins joins = Joins::never;

  /// Nodes may share a bucket only where this agrees, beside op and axes. Set for calls of a group.
  std::string (*bucket_key)(const ir::Attrs& attrs, ir::DType dtype) = nullptr;

  /// A call of a whole group, which may be started before its results are wanted; else a message between two chips.
  bool is_of_group() const { return kind == Kind::gather || kind == Kind::reduce || kind == Kind::exchange; }
};

// ---- StableHLO ----

/// The node's operands as written so far.
struct HloArgs {
  std::span<const HloValue> operands;
  const NodeView& view;

  HloType result(size_t i = 0) const { return hlo_type(view.results[i]); }
  const ir::Attrs& attrs() const { return view.attrs; }
};
using HloResults = std::vector<HloValue>;

struct Sample {
  std::string name;
  Types operands;
  ir::Attrs attrs = {};
  /// Operand values are drawn uniformly from [low, high]; integers too, rounded down.
  double low = -1.0;
  double high = 1.0;
  /// Fills operands by hand where uniform draws will not do (indices, masks); may be empty.
  std::function<void(std::vector<Tensor>&)> fill = {};
};

/// An operand that is real and yet has no gradient.
struct ConstantOperand {
  size_t operand;
  std::string reason;
};

struct OpDef {
  std::string name;
  std::string doc;  // one line for `megacpp ops`

  /// Result types, or base::Error E1301 naming what does not match.
  std::function<Types(const Types& operands, const ir::Attrs& attrs)> infer;

  std::function<Factors(const NodeView&)> factors;

  /// Exactly one of these two is set.
  std::function<Cotangents(const GradArgs&)> grad = {};
  std::string no_grad = "";
  /// Real operands that `grad` leaves out. Where any other has no cotangent, the results must not depend on it.
  std::vector<ConstantOperand> constant_operands = {};
  /// Results from this index on are statistics kept for the backward pass: no cotangent may reach them.
  size_t statistics_from = SIZE_MAX;

  std::function<Cost(const NodeView&)> cost;
  Work work = Work::traffic;
  /// What the program that XLA gets for a node costs, where that is more: a product of each expert with all rows, or
  /// what kernels of the decomposition hand to each other. The bytes are a rule of XLA for GPUs. Empty: as `cost`.
  std::function<Cost(const NodeView&)> cost_by_xla = {};

  /// Computes the results (allocated, zeroed) from the operands in double precision.
  std::function<void(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs)> reference;

  /// Composites: the same results from primitives. Empty for primitives.
  std::function<std::vector<ir::ValueId>(Builder&, const std::vector<ir::ValueId>& operands, const ir::Attrs&)>
      decompose = {};

  Fusion fusion = Fusion::none;

  /// Empty: linear in nothing.
  std::function<Linearity(const NodeView&)> linear = {};

  /// Talks to other chips, or depends on which chip it runs on. The single-chip evaluator cannot run it.
  bool is_collective = false;

  /// Set where the op moves data between chips. Of a collective_start it is the started op's (see transfer_of).
  std::optional<Transfer> transfer = {};

  /// Copies between memory of the device and of its host, or waits for such a copy (tier_copy.h). The device does it by
  /// itself: no backend has a kernel for it.
  bool is_tier_copy = false;

  /// Result r is operand r's bytes under another type: nothing is copied.
  bool is_view = false;

  /// Results hold the operand's elements in their order, some left out or a constant added around them: a gradient is
  /// that gradient still.
  bool keeps_order = false;

  /// The result holds elements of the only operand, none twice and no others, in another order or dtype perhaps: what
  /// reads it reads that operand. Said of nothing that brings them to another place: chips, or memory of the host.
  bool has_operand_elements = false;

  /// Primitives of Work::traffic: each element of result 0 is made of products along a run of positions, so that no
  /// fusion of a compiler that reads it goes through the run again. To compute it again is work, as a product is.
  bool runs_over_positions = false;

  /// The chip's program for this node where factors do not suffice. Returns nothing when they do (see
  /// partition_rule.h).
  std::function<std::vector<PartitionedResult>(PartitionContext&)> partition = {};

  /// Operand result 0 (of a collective: + r for result r) may take over when it dies here; -1: none. Elementwise: any.
  int may_alias = -1;

  /// Position of an optional last operand that is added to result 0 and gives it its buffer; -1: none. Gradient
  /// accumulation is folded into such ops.
  int addend = -1;

  /// Whether an attribute "dtype" may ask for result 0 in another float dtype than the operands'.
  bool chooses_result_dtype = false;

  /// Position of an operand that is widened to f32 as it is read: of bf16 the op computes to the bit what it does of
  /// that operand converted to f32, where it chooses the dtype of its result the one that is asked for. -1: none.
  int widens_operand = -1;

  /// Writes a primitive for XLA, one value for each result. Composites have none, since their decomposition is written,
  /// unless they are a looped form (below), nor has what never reaches XLA: inputs, fused programs, messages between
  /// pipeline stages.
  std::function<HloResults(HloWriter&, const HloArgs&)> stablehlo = {};

  /// Composites: the op that computes the same as a loop, from the same operands and attributes, where that is better
  /// for a compiler than the decomposition; "": the decomposition is. Empty for ops without such a form.
  std::function<std::string_view(const NodeView&)> looped = {};
  /// Looped forms, and ops that have one: what a program that a compiler makes of the loop, or of the decomposition,
  /// holds beside operands and results, as tensors, which a plan pads like others. A rule: the compiler decides.
  std::function<Types(const NodeView&)> temporaries = {};

  std::function<std::vector<Sample>()> samples;

  bool is_composite() const { return static_cast<bool>(decompose); }

  /// Whether a chip has anything to do when it comes to a node of this op.
  bool is_work() const { return name != ir::kInputOp && (!is_view || is_collective || is_tier_copy); }
};

/// All ops, in the order of op_list.inc.
const std::vector<OpDef>& all_ops();
const OpDef& op_def(std::string_view name);
const OpDef* find_op(std::string_view name);

/// What a node moves between chips, or what it starts to move; null: nothing.
const Transfer* transfer_of(const ir::Node& node);

}  // namespace megacpp::ops
