// SPDX-License-Identifier: Apache-2.0
// The Hugging Face tensor names of each supported model class, as a NameMap from a model's sizes alone.
// Their linear layers are [out, in], ours [in, out].
#pragma once

#include <string>
#include <string_view>

#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/checkpoint/name_map.h"

namespace megacpp::checkpoint {

/// Some classes are spelled differently in published files than by the library that loads them: Mixtral's experts one
/// by one under block_sparse_moe, NemotronH under backbone. Other classes have one spelling.
enum class HfNaming { in_memory, on_disk };

/// The spelling that has a tensor of this name; in_memory when the name decides nothing.
HfNaming naming_of(std::string_view tensor_name);

NameMap llama_names(const recipe::Model& model);
NameMap mixtral_names(const recipe::Model& model, HfNaming naming);
NameMap mamba2_names(const recipe::Model& model);
NameMap nemotron_h_names(const recipe::Model& model, HfNaming naming);
/// A lone R mixer: block00.R without norm, embedding or head.
NameMap recurrent_gemma_block_names(const recipe::Model& model);

}  // namespace megacpp::checkpoint
