// SPDX-License-Identifier: Apache-2.0
// LoRA adapters in tensors by name: a matrix W [.., in, out] with its pair A [.., in, rank] and B [.., rank, out] (see
// blocks/lora.h) becomes W + alpha / rank * A B, which computes the same without them. Sums are in double precision.
#pragma once

#include <string>

#include "megacpp/run/checkpoint/manifest.h"
#include "megacpp/run/checkpoint/name_map.h"
#include "megacpp/run/checkpoint/reader.h"

namespace megacpp::checkpoint {

/// Whether the checkpoint has adapters of the matrix.
bool has_adapters(const Manifest& manifest, const std::string& matrix);
bool has_adapters(const Manifest& manifest);

/// lora.alpha of the run that saved it; E1205 where it had no adapters.
double alpha_of(const Reader& reader);

/// A whole float tensor of the checkpoint.
FloatTensor whole_tensor(const Reader& reader, const std::string& name);

/// The checkpoint's adapters alone; E1205 where it has none.
TensorMap read_adapters(const Reader& reader);

/// Every matrix that has adapters among the tensors with them merged in, and these removed. E1205 for an adapter
/// without its matrix or its other half, or with a shape that does not fit them.
void merge_adapters(TensorMap& tensors, double alpha);

/// The same for one matrix of a checkpoint that has adapters of it.
FloatTensor read_merged(const Reader& reader, const std::string& matrix);

}  // namespace megacpp::checkpoint
