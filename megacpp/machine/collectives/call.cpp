// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/call.h"

#include <algorithm>
#include <array>

#include "megacpp/core/base/error.h"

namespace megacpp::collectives {
namespace {

bool reduces(Kind kind) { return kind == Kind::reduce_scatter || kind == Kind::all_reduce; }
bool has_dim(Kind kind) { return kind == Kind::all_gather || kind == Kind::reduce_scatter || kind == Kind::all_to_all; }
// Cuts its operand along `dim` into one piece a member.
bool cuts(Kind kind) { return kind == Kind::reduce_scatter || kind == Kind::all_to_all; }

// FNV-1a over bytes: plain, and the same on every machine.
class MovementHash {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) mix(static_cast<uint8_t>(byte));
    mix(0);
  }
  void add(int64_t number) {
    for (int shift = 0; shift < 64; shift += 8) mix(static_cast<uint8_t>(static_cast<uint64_t>(number) >> shift));
  }
  uint64_t value() const { return value_; }

 private:
  void mix(uint8_t byte) { value_ = (value_ ^ byte) * 1099511628211u; }
  uint64_t value_ = 14695981039346656037u;
};

void check_part(const Call& call, const Part& part) {
  const auto is_dim = [&part](int64_t dim) { return dim >= 0 && dim < static_cast<int64_t>(part.shape.size()); };
  const bool empty = ir::num_elements(part.shape) == 0;
  MEGACPP_CHECK(part.in || empty || call.kind == Kind::recv) << "no operand: " << to_string(call);
  MEGACPP_CHECK(part.out || empty || call.kind == Kind::send) << "no result buffer: " << to_string(call);
  MEGACPP_CHECK(!has_dim(call.kind) || is_dim(part.dim)) << "no such dimension: " << to_string(call);
  MEGACPP_CHECK(call.kind != Kind::all_to_all || is_dim(part.concat_dim)) << "no such dimension: " << to_string(call);
  MEGACPP_CHECK(!cuts(call.kind) || part.shape[static_cast<size_t>(part.dim)] % call.group->size() == 0)
      << call.group->size() << " members cannot share evenly: " << to_string(call);
}

}  // namespace

std::string_view kind_name(Kind kind) {
  constexpr std::array<std::string_view, 7> kNames = {"all_gather", "reduce_scatter", "all_reduce", "all_to_all",
                                                      "permute",    "send",           "recv"};
  return kNames.at(static_cast<size_t>(kind));
}

std::string_view reduction_name(Reduction reduction) { return reduction == Reduction::sum ? "sum" : "max"; }

Fold fold(const ir::Shape& shape, int64_t dim) {
  Fold folded;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
    const int64_t size = shape[static_cast<size_t>(d)];
    (d < dim ? folded.outer : d == dim ? folded.count : folded.inner) *= size;
  }
  return folded;
}

ir::Shape result_shape(Kind kind, const Part& part, int64_t members) {
  ir::Shape shape = part.shape;
  if (cuts(kind)) shape.at(static_cast<size_t>(part.dim)) /= members;
  if (kind == Kind::all_gather) shape.at(static_cast<size_t>(part.dim)) *= members;
  if (kind == Kind::all_to_all) shape.at(static_cast<size_t>(part.concat_dim)) *= members;
  return shape;
}

std::string to_string(const Call& call) {
  std::string text(kind_name(call.kind));
  if (reduces(call.kind)) text += " (" + std::string(reduction_name(call.reduction)) + ")";
  if (call.kind == Kind::permute) text += " by " + std::to_string(call.shift);
  if (call.kind == Kind::send) text += " to chip " + std::to_string(call.peer) + ", tag " + std::to_string(call.tag);
  if (call.kind == Kind::recv) text += " from chip " + std::to_string(call.peer) + ", tag " + std::to_string(call.tag);
  std::string separator = " of ";
  for (const Part& part : call.parts) {
    text += separator + ir::to_string(ir::TensorType{call.dtype, part.shape});
    if (has_dim(call.kind)) text += " along " + std::to_string(part.dim);
    if (call.kind == Kind::all_to_all) text += " to " + std::to_string(part.concat_dim);
    separator = ", ";
  }
  return text + " in " + call.where;
}

void check_call(const Call& call, int64_t chips) {
  if (is_point_to_point(call.kind)) {
    MEGACPP_CHECK(call.peer >= 0 && call.peer < chips) << "no such chip: " << to_string(call);
  } else {
    MEGACPP_CHECK(call.group) << "no group: " << to_string(call);
  }
  MEGACPP_CHECK(!reduces(call.kind) || call.dtype != ir::DType::pred || call.reduction == Reduction::max)
      << "pred has no sum: " << to_string(call);
  for (const Part& part : call.parts) check_part(call, part);
}

bool is_same_movement(const Call& a, const Call& b) {
  const auto same_part = [&a](const Part& x, const Part& y) {
    return x.shape == y.shape && (!has_dim(a.kind) || x.dim == y.dim) &&
           (a.kind != Kind::all_to_all || x.concat_dim == y.concat_dim);
  };
  if (a.dtype != b.dtype || !std::ranges::equal(a.parts, b.parts, same_part)) return false;
  // The two ends of a send are in different programs, under different names.
  if (is_point_to_point(a.kind)) return is_point_to_point(b.kind) && a.kind != b.kind && a.tag == b.tag;
  return a.kind == b.kind && a.where == b.where && (!reduces(a.kind) || a.reduction == b.reduction) &&
         (a.kind != Kind::permute || a.shift == b.shift);
}

uint64_t movement_hash(const Call& call) {
  MovementHash hash;
  // The two ends of a send are in different programs, under different names.
  if (is_point_to_point(call.kind)) {
    hash.add(call.tag);
  } else {
    hash.add(call.where);
    hash.add(static_cast<int64_t>(call.kind));
    hash.add(reduces(call.kind) ? static_cast<int64_t>(call.reduction) : 0);
    hash.add(call.kind == Kind::permute ? call.shift : 0);
  }
  hash.add(static_cast<int64_t>(call.dtype));
  for (const Part& part : call.parts) {
    hash.add(static_cast<int64_t>(part.shape.size()));
    for (const int64_t size : part.shape) hash.add(size);
    hash.add(has_dim(call.kind) ? part.dim : 0);
    hash.add(call.kind == Kind::all_to_all ? part.concat_dim : 0);
  }
  return hash.value();
}

}  // namespace megacpp::collectives
