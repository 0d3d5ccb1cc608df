// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/name_map.h"

#include <set>

#include "megacpp/core/base/error.h"

namespace megacpp::checkpoint {
namespace {

constexpr const char* kNextStep = "check that the weights belong to this config";

const ir::Shape& shape_of(const FloatTensor& tensor) { return tensor.shape; }
const ir::Shape& shape_of(const ir::Shape& shape) { return shape; }

/// Of tensors, or of their shapes.
template <typename Tensor>
const Tensor& take(const std::map<std::string, Tensor>& tensors, const std::string& name, const ir::Shape& shape) {
  const auto found = tensors.find(name);
  MEGACPP_REQUIRE(found != tensors.end(), E1203,
                  {.where = "tensor " + name, .got = "nothing", .wanted = ir::to_string(shape), .next = kNextStep});
  MEGACPP_REQUIRE(shape_of(found->second) == shape, E1203,
                  {.where = "tensor " + name,
                   .got = ir::to_string(shape_of(found->second)),
                   .wanted = ir::to_string(shape),
                   .next = kNextStep});
  return found->second;
}

FloatTensor& make(TensorMap& tensors, const std::string& name, const ir::Shape& shape) {
  const auto [place, is_new] = tensors.try_emplace(name);
  if (is_new) place->second = {shape, std::vector<float>(static_cast<size_t>(ir::num_elements(shape)))};
  MEGACPP_CHECK(place->second.shape == shape) << name << " has two shapes in one map";
  return place->second;
}

/// Calls copy(our element, their element) for every pair of the piece.
template <typename Copy>
void for_each_pair(const NamePiece& piece, const Copy& copy) {
  if (!piece.transposed) {
    const int64_t first = piece.step > 1 ? piece.row_begin : piece.row_begin * ir::strides_of(piece.their_shape)[0];
    for (int64_t i = 0; i < ir::num_elements(piece.our_shape); ++i)
      copy(static_cast<size_t>(i), static_cast<size_t>(first + i * piece.step));
    return;
  }
  const size_t rank = piece.their_shape.size();
  const int64_t columns = piece.their_shape[rank - 1];
  const int64_t their_rows = piece.their_shape[rank - 2];
  const int64_t our_rows = piece.our_shape.back();
  const int64_t slices = rank > 2 ? piece.their_shape[0] : 1;
  for (int64_t s = 0; s < slices; ++s) {
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t ours = ((piece.slice_begin + s) * columns + c) * our_rows;
      const int64_t theirs = (s * their_rows + piece.row_begin) * columns + c;
      for (int64_t r = 0; r < our_rows; ++r)
        copy(static_cast<size_t>(ours + r), static_cast<size_t>(theirs + r * columns));
    }
  }
}

/// E1203 for a tensor that no piece has on the given side.
template <typename Tensor>
void refuse_strangers(const NameMap& map, const std::map<std::string, Tensor>& tensors, std::string NamePiece::*side) {
  std::set<std::string> known(map.ignored.begin(), map.ignored.end());
  for (const NamePiece& piece : map.pieces) known.insert(piece.*side);
  for (const auto& [name, tensor] : tensors) {
    const bool is_rope_table = name.ends_with("inv_freq");  // recomputed from the config
    MEGACPP_REQUIRE(known.contains(name) || is_rope_table, E1203,
                    {.where = "tensor " + name,
                     .got = ir::to_string(shape_of(tensor)),
                     .wanted = "only tensors the model has a place for",
                     .next = kNextStep});
  }
}

}  // namespace

NameMap trained(const NameMap& map) {
  NameMap kept = map;
  std::erase_if(kept.pieces, [](const NamePiece& piece) { return !piece.is_trained; });
  return kept;
}

void require_tensors(const NameMap& map, const std::map<std::string, ir::Shape>& theirs) {
  refuse_strangers(map, theirs, &NamePiece::theirs);
  for (const NamePiece& piece : map.pieces) take(theirs, piece.theirs, piece.their_shape);
}

TensorMap import_tensors(const NameMap& map, const TensorMap& theirs) {
  refuse_strangers(map, theirs, &NamePiece::theirs);
  TensorMap ours;
  for (const NamePiece& piece : map.pieces) {
    const std::vector<float>& from = take(theirs, piece.theirs, piece.their_shape).data;
    std::vector<float>& to = make(ours, piece.ours, piece.our_shape).data;
    for_each_pair(piece, [&](size_t our, size_t their) { to[our] = from[their]; });
  }
  return ours;
}

TensorMap export_tensors(const NameMap& map, const TensorMap& ours) {
  refuse_strangers(map, ours, &NamePiece::ours);
  TensorMap theirs;
  for (const NamePiece& piece : map.pieces) {
    const std::vector<float>& from = take(ours, piece.ours, piece.our_shape).data;
    std::vector<float>& to = make(theirs, piece.theirs, piece.their_shape).data;
    for_each_pair(piece, [&](size_t our, size_t their) { to[their] = from[our]; });
  }
  return theirs;
}

TensorMap read_tensors(const SafetensorsFile& file, std::string_view prefix) {
  TensorMap tensors;
  for (const StoredTensor& tensor : file.tensors()) {
    if (!tensor.name.starts_with(prefix)) continue;
    tensors[tensor.name.substr(prefix.size())] = {tensor.shape, to_floats(tensor)};
  }
  file.require_unchanged();
  return tensors;
}

}  // namespace megacpp::checkpoint
