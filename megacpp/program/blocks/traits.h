// SPDX-License-Identifier: Apache-2.0
// What the rest of the stack must know of a block with given settings, as data: sizes to bound, what a layout may split
// and what must divide for it, routing, traffic along a split sequence, words for signatures. Keys are names of the
// family's own settings ("heads").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/tensor_type.h"
#include "megacpp/program/blocks/parallel.h"

namespace megacpp::blocks {

/// A width of activations, size x each, and of `copies` weight matrices against the residual stream.
struct Width {
  std::string_view key;
  int64_t size = 0;
  int64_t each = 1;
  int64_t copies = 1;
};

/// Something that tensor_parallel splits.
struct Split {
  enum class How : uint8_t {
    divided,  // chips get equally many: the degree divides the count
    shared,   // as above, or neighbouring chips share one: the count divides the degree
    padded,   // any count
  };
  std::string_view key;
  int64_t count = 0;
  Dim dim = Dim::whole;
  How how = How::divided;
  /// The dimension while attention swaps tokens for it over `context` (layout.context_attention: alltoall), which then
  /// must divide it too; whole: it never does.
  Dim swapped = Dim::whole;
};

/// How tokens choose experts; without experts there is nothing to route.
struct Router {
  int64_t experts = 0;  // expert_parallel divides them
  int64_t top_k = 0;    // rows that travel for each token
  double balance_loss = 0;
  bool balance_over_model = false;
  double z_loss = 0;
  double bias_rate = 0;        // 0: loads steer nothing
  std::string bias_name = {};  // the parameter they steer, by its short name
};

struct Traits {
  std::vector<Width> widths = {};
  std::vector<Split> splits = {};
  Router router = {};
  /// Tokens that a run of a split sequence needs of the run before it.
  int64_t history = 0;
  bool is_recurrent = false;  // carries a state of fixed size from token to token
  /// Elements of a token's keys and values, which go around the chips that share a sequence; 0: nothing does. Where
  /// something does, pairing early and late runs balances the work.
  int64_t ring_elements = 0;
  /// The backward pass reads what selective recompute starts from anyway, so that recomputing may cost no time.
  bool selective_is_cheap = false;
  bool reads_documents = false;            // batch.segments
  bool reads_document_positions = false;   // batch.document_positions
  std::vector<std::string> features = {};  // what is switched on, for signatures: "document_mask"
};

/// What a token-by-token run keeps of a block from one token to the next.
struct StatePort {
  std::string name;  // "keys"
  ir::TensorType type;
  std::vector<Dim> dims;  // one per dimension, as parameters have them
};

/// Why a collective of a block is there and what of the layout removes it.
struct CollectiveAdvice {
  std::string_view purpose;
  bool (*applies)(std::string_view op, const std::vector<std::string>& axes);
  std::string_view change;  // "layout.context_parallel=1", kEveryDegree, or kNothingRemovesIt
  std::string_view note = "";
};
inline constexpr std::string_view kEveryDegree = "degrees";  // those behind the collective's axes become 1
inline constexpr std::string_view kNothingRemovesIt = "";

}  // namespace megacpp::blocks
