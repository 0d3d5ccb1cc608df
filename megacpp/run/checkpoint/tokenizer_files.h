// SPDX-License-Identifier: Apache-2.0
// The files of a Hugging Face folder beside its config and tensors: of its tokenizer, and how text is generated. They
// travel with a model from folder to run directory to folder, unread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace megacpp::checkpoint {

/// Copies those that `from` has into the folder `to`, each atomically; returns their names. E3001 where one cannot be
/// written.
std::vector<std::string> copy_tokenizer_files(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace megacpp::checkpoint
