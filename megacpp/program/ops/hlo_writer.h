// SPDX-License-Identifier: Apache-2.0
// Writes the body of one StableHLO function as text, in MLIR's generic form: one line per op, values named %0, %1, ...
// in order. An op's record says with it what the op means to XLA (OpDef::stablehlo); the vocabulary below is the part
// of StableHLO those records need.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/mesh.h"
#include "megacpp/core/ir/tensor_type.h"

namespace megacpp::ops {

/// Element types go beyond ours: "ui32" and "ui64" for random numbers, "i1" for predicates.
struct HloType {
  std::string element;
  ir::Shape shape;

  bool operator==(const HloType&) const = default;
};

/// "<@mesh, [{"data"}, {}]>": how XLA reads a sharding.
std::string sharding_text(const ir::Sharding& sharding, const ir::Mesh& mesh);

HloType hlo_type(const ir::TensorType& type);
/// True where numbers of it are widened to be added up (ir::is_narrow).
bool is_narrow(const HloType& type);
std::string to_text(const HloType& type);  // "tensor<4x8xf32>"

struct HloValue {
  std::string name;  // "%7" or "%7#1"
  HloType type;
};

/// What a compiler does well: programs are written for it.
struct CompilerTraits {
  /// Factors in bf16 may have a product in f32; else they are widened first.
  bool has_mixed_products = true;
  /// Reduce-scatters over all chips of a square slice stay what they are; else they are written in two stages.
  bool has_square_scatters = true;
};

/// One of several stages of a collective: each of its groups has `size` members of the whole group, every `stride`-th.
struct GroupStage {
  int64_t size = 1;
  int64_t stride = 1;
  bool operator==(const GroupStage&) const = default;
};

/// Of a reduce-scatter into `parts` on a mesh of `chips`: the columns of a square slice, then its rows, where the
/// compiler has none over all of it; else all in one.
std::vector<GroupStage> scatter_stages(int64_t parts, int64_t chips, const CompilerTraits& compiler);

class HloWriter {
 public:
  /// `mesh` is what collectives run over; `next_channel` numbers them throughout a module.
  HloWriter(const ir::Mesh& mesh, int64_t& next_channel, const CompilerTraits& compiler = {})
      : mesh_(mesh), compiler_(compiler), next_channel_(next_channel) {}

  const std::string& text() const { return text_; }
  const ir::Mesh& mesh() const { return mesh_; }
  const CompilerTraits& compiler() const { return compiler_; }
  /// What the ops written from now on are for; appears as their location.
  void set_location(std::string location) { location_ = std::move(location); }

  /// "stablehlo.<op>" of these operands. `attrs`: "dimension = 0 : i64"; `region`: its text, braces included.
  std::vector<HloValue> ops(std::string_view op, std::span<const HloValue> operands, const std::string& attrs,
                            const std::vector<HloType>& results, const std::string& region = "");
  HloValue op(std::string_view op, std::initializer_list<HloValue> operands, const HloType& result,
              const std::string& attrs = "");
  std::vector<HloValue> call(const std::string& function, std::span<const HloValue> operands,
                             const std::vector<HloType>& results);
  HloValue unary(std::string_view name, const HloValue& a) { return op(name, {a}, a.type); }
  HloValue binary(std::string_view name, const HloValue& a, const HloValue& b) { return op(name, {a, b}, a.type); }

  HloValue constant(double value, const HloType& type);
  HloValue word(uint32_t value, const HloType& type);  // of ui32 or ui64
  HloValue iota(const HloType& type, int64_t dim);
  HloValue convert(const HloValue& a, const std::string& element);  // nothing when it is that already
  HloValue compare(const HloValue& a, const HloValue& b, std::string_view direction);  // "LT", "EQ", ...
  HloValue select(const HloValue& predicate, const HloValue& on_true, const HloValue& on_false);

  HloValue broadcast(const HloValue& a, const ir::Shape& shape, const std::vector<int64_t>& dims);
  HloValue reshape(const HloValue& a, const ir::Shape& shape);
  HloValue transpose(const HloValue& a, const std::vector<int64_t>& permutation);
  HloValue slice(const HloValue& a, int64_t dim, int64_t start, int64_t size);
  HloValue pad(const HloValue& a, int64_t dim, int64_t low, int64_t high, double value);
  HloValue concatenate(std::span<const HloValue> parts, int64_t dim);

  /// `kind`: "add" or "maximum". The dimensions go.
  HloValue reduce(const HloValue& a, const std::vector<int64_t>& dims, std::string_view kind);
  struct DotDims {
    std::vector<int64_t> lhs_batch, rhs_batch, lhs_contract, rhs_contract;
  };
  HloValue dot(const HloValue& lhs, const HloValue& rhs, const DotDims& dims, const std::string& element);

  /// Running sum along dim, from the end with reverse, in logarithmically many passes.
  HloValue cumsum(const HloValue& a, int64_t dim, bool reverse);
  /// Elements move `by` places towards the end of dim (negative: the start); `fill` comes in.
  HloValue shift(const HloValue& a, int64_t dim, int64_t by, double fill = 0);

  /// Rows of table[B..,n,w] by index[B..,I..], the first `batch` dimensions paired: [B..,I..,w]. An index outside gives
  /// zeros.
  HloValue take_rows(const HloValue& table, const HloValue& index, size_t batch = 0);
  /// rows[B..,I..,w] added into zero tables [B..,n,w] by index[B..,I..]. An index outside is left out.
  HloValue add_rows(const HloValue& rows, const HloValue& index, int64_t n, size_t batch = 0);
  /// Whether index == 0, 1, .. n-1, as numbers of an element type: [.., n].
  HloValue one_hot(const HloValue& index, int64_t n, const std::string& element);

  /// Operands sorted together along dim, stably; `before` is the text of a predicate %r over %a0, %b0, %a1, %b1, ...
  std::vector<HloValue> sort(std::span<const HloValue> operands, int64_t dim, const std::string& before);

  /// values[partition number], a scalar.
  HloValue of_this_chip(const std::vector<int64_t>& values);
  /// `size` elements along dim from a runtime start (a scalar).
  HloValue dynamic_slice(const HloValue& a, int64_t dim, const HloValue& start, int64_t size);
  /// `a` with `part` in it, along dim from a runtime start (a scalar).
  HloValue put_slice(const HloValue& a, const HloValue& part, int64_t dim, const HloValue& start);

  /// The member of a stack [n, ..] at a runtime place (a scalar): [..].
  HloValue take_member(const HloValue& stack, const HloValue& place);
  /// The stack with this member at that place.
  HloValue put_member(const HloValue& stack, const HloValue& member, const HloValue& place);

  /// Runs `body` (the count so far, what is carried) -> what is carried next, `count` times; once: without a loop.
  using LoopBody = std::function<std::vector<HloValue>(const HloValue& index, const std::vector<HloValue>& carried)>;
  std::vector<HloValue> loop(int64_t count, const std::vector<HloValue>& carried, const LoopBody& body);
  /// The same, as often as a runtime number (a scalar i32) says; 0 or less: never.
  std::vector<HloValue> loop(const HloValue& count, const std::vector<HloValue>& carried, const LoopBody& body);

  /// A region of one scalar op: "({ ^bb0(%a, %b): ... return })".
  std::string scalar_region(std::string_view op, const std::string& element) const;
  /// "dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>": the groups of the mesh along these axes.
  std::string replica_groups(const ir::Axes& axes) const;
  std::string replica_groups(const ir::Axes& axes, const GroupStage& stage) const;
  std::string next_channel();  // "#stablehlo.channel_handle<handle = 3, type = 0>"

  /// The values themselves, but no computation moves across: not merged, not begun before all are there.
  std::vector<HloValue> barrier(std::span<const HloValue> values);

  /// Where the spread of a value over the mesh is given; partial sums cannot be.
  HloValue constrain(const HloValue& a, const ir::Sharding& sharding);

 private:
  std::vector<HloValue> write(const std::string& what, std::span<const HloValue> operands, const std::string& middle,
                              const std::vector<HloType>& results);
  /// While the index is less than what `count` gives of the values carried, inside the loop.
  using LoopCount = std::function<HloValue(const std::vector<HloValue>& carried)>;
  std::vector<HloValue> write_loop(const LoopCount& count, const std::vector<HloValue>& carried, const LoopBody& body);

  const ir::Mesh& mesh_;
  const CompilerTraits compiler_;
  std::string text_;
  std::string location_;
  int64_t next_ = 0;
  int64_t& next_channel_;
};

}  // namespace megacpp::ops
