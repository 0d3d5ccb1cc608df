// SPDX-License-Identifier: Apache-2.0
// How the parameters of one model stand in someone else's files: names, transposed matrices, parts of fused tensors.
// A map is a list of pieces, each copied both ways; together they cover every element of both sides exactly once,
// so export of an import gives back the same tensors. Gradients have the layout of their parameters.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "megacpp/core/ir/tensor_type.h"
#include "megacpp/run/checkpoint/safetensors.h"

namespace megacpp::checkpoint {

struct FloatTensor {
  ir::Shape shape;
  std::vector<float> data;  // row-major
};

using TensorMap = std::map<std::string, FloatTensor>;

/// One rectangle of a tensor of theirs and its place in a tensor of ours.
/// Plain: their rows from row_begin on, as many as fill ours, same order of elements, perhaps another shape.
/// Plain with a step: element i of ours is element row_begin + i step of theirs, as where two tensors are interleaved.
/// Transposed: theirs is [slices, rows, columns]; rows [row_begin, row_begin + our columns) go to our slices
/// [slice_begin, slice_begin + slices) as [columns, rows]. Two-dimensional tensors have one slice.
struct NamePiece {
  std::string ours;
  ir::Shape our_shape;
  std::string theirs;
  ir::Shape their_shape;
  bool transposed = false;
  int64_t row_begin = 0;
  int64_t slice_begin = 0;
  int64_t step = 1;
  bool is_trained = true;  // false: state that no gradient changes, a buffer of theirs
};

struct NameMap {
  std::vector<NamePiece> pieces;
  std::vector<std::string> ignored;  // tensors of theirs that carry nothing of their own, such as a tied head
};

/// The pieces of what is trained.
NameMap trained(const NameMap& map);

/// E1203 as import_tensors() has it, from the shapes of their tensors alone.
void require_tensors(const NameMap& map, const std::map<std::string, ir::Shape>& theirs);

/// Ours from theirs. E1203 when a tensor is missing, misshapen, or has no place in the model.
TensorMap import_tensors(const NameMap& map, const TensorMap& theirs);

/// Theirs from ours. E1203 when a tensor of ours is missing, misshapen, or has no place in their files.
TensorMap export_tensors(const NameMap& map, const TensorMap& ours);

/// The float tensors of a file whose names begin with `prefix`, under the names without it. E1008 where the file
/// changes meanwhile.
TensorMap read_tensors(const SafetensorsFile& file, std::string_view prefix = "");

}  // namespace megacpp::checkpoint
