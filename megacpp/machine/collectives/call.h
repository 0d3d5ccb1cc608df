// SPDX-License-Identifier: Apache-2.0
// One movement of tensors between chips, as data. Whoever runs a program writes its calls once, before step 0, and
// starts the same records every step: a transport reads a Call, its parts and its text until the call is finished,
// and copies none of them. What a call means is defined here for all transports.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/dtype.h"
#include "megacpp/core/ir/tensor_type.h"

namespace megacpp::collectives {

enum class Kind : uint8_t {
  all_gather,      // the operands of all members side by side along `dim`
  reduce_scatter,  // the reduction over all members, of which each keeps its piece along `dim`
  all_reduce,      // the reduction over all members
  all_to_all,      // cut along `dim`, piece j goes to member j; what arrives is joined along `concat_dim`
  permute,         // index i receives the operand of index i - shift, around the group
  send,            // to chip `peer`
  recv,            // from chip `peer`
};

/// Every member gets the same bits; bf16 is reduced in f32, rounded once. In which order terms are added is a property
/// of the transport (Properties::has_fixed_order_sums).
enum class Reduction : uint8_t { sum, max };

std::string_view kind_name(Kind kind);
std::string_view reduction_name(Reduction reduction);
inline bool is_point_to_point(Kind kind) { return kind == Kind::send || kind == Kind::recv; }

/// Chips that call together. Made by Communicator::create_group, which owns it.
struct Group {
  std::vector<int64_t> members;  // chip numbers, by index
  int64_t index = 0;             // of this chip
  int64_t id = 0;                // the transport's own number

  int64_t size() const { return static_cast<int64_t>(members.size()); }
};

/// One tensor of a call, dense and row-major. `in` and `out` do not overlap, except that
/// - all_reduce may have out == in;
/// - all_gather may have its operand at its place in the result, and reduce_scatter its result at its place in the
///   operand, when no dimension before `dim` is longer than 1.
struct Part {
  const void* in = nullptr;  // not for recv
  void* out = nullptr;       // not for send
  ir::Shape shape;           // of the operand on this chip; of the result for recv
  int64_t dim = 0;           // all_gather, reduce_scatter, all_to_all
  int64_t concat_dim = 0;    // all_to_all; may equal dim
};

struct Call {
  Kind kind = Kind::all_reduce;
  const Group* group = nullptr;  // not for send and recv
  ir::DType dtype = ir::DType::f32;
  Reduction reduction = Reduction::sum;  // reduce_scatter, all_reduce; pred knows max only, which is "any"
  int64_t shift = 0;                     // permute; may be negative
  int64_t peer = 0;                      // send, recv: chip number
  int64_t tag = 0;                       // send, recv: a receive takes the oldest send of its peer with its tag
  std::vector<Part> parts;               // moved together, as one bucket
  void* workspace = nullptr;             // as many bytes as the transport wants for a collective; null: none
  std::string where;                     // the node, for messages
};

ir::Shape result_shape(Kind kind, const Part& part, int64_t members);

/// "all_gather of f32[4,8] along 1 in block07.A.qkv".
std::string to_string(const Call& call);

/// What must hold for a call by itself, on a mesh of `chips`: an internal error when it does not.
void check_call(const Call& call, int64_t chips);

/// Whether the calls of two members of a group, or a send and its receive, mean the same movement.
bool is_same_movement(const Call& a, const Call& b);

/// The same for calls that mean the same movement, in every process; for others another, but for one chance in 2^64.
/// Never allocates.
uint64_t movement_hash(const Call& call);

/// A shape seen from one of its dimensions: row-major [outer, count, inner].
struct Fold {
  int64_t outer = 1;
  int64_t count = 1;
  int64_t inner = 1;
};
Fold fold(const ir::Shape& shape, int64_t dim);

}  // namespace megacpp::collectives
