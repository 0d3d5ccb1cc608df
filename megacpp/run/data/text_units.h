// SPDX-License-Identifier: Apache-2.0
// Files of text as units of work: a whole file, or the lines of a .jsonl file that begin in a range of its bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace megacpp::data {

struct TextUnit {
  size_t file;         // index into the files
  int64_t begin, end;  // bytes
  bool is_lines;

  int64_t bytes() const { return end - begin; }
};

/// In the order of the files. E1008 for a file whose size is not known.
std::vector<TextUnit> list_units(std::span<const std::filesystem::path> files, int64_t unit_bytes);

/// Calls body(text) for every document of the unit that is not empty. E1008 for a file that cannot be read or
/// changes meanwhile, a line that is not JSON and one without the text field: what was called until then is void.
void for_each_document(const std::filesystem::path& file, const TextUnit& unit, const std::string& text_field,
                       const std::function<void(std::string_view text)>& body);

/// xxHash64 of what the files are known by: names, sizes and times of change.
uint64_t fingerprint_of_files(std::span<const std::filesystem::path> files);
/// E1008 for files that have another one now: units that were read at different times are of one text otherwise.
void require_fingerprint(std::span<const std::filesystem::path> files, uint64_t fingerprint);

}  // namespace megacpp::data
