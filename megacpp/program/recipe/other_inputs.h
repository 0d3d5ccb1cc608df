// SPDX-License-Identifier: Apache-2.0
// Files that are often given in the place of a recipe and are none: they are named, with the command that takes them.
#pragma once

#include <filesystem>
#include <string>

namespace megacpp::recipe {

/// E1008 for a folder of a Hugging Face model; nothing for any other path.
void refuse_model_folder(const std::filesystem::path& path);

/// E1004 for a Hugging Face configuration and for a file of tensors; nothing for what may be a recipe.
void refuse_model_file(const std::filesystem::path& path, const std::string& text);

}  // namespace megacpp::recipe
