// SPDX-License-Identifier: Apache-2.0
// What the file system says of a path, links followed. Where it cannot say (links in a circle, a name that is too long,
// a folder that may not be searched) that is E1008 with the system's reason: the functions of std::filesystem without
// an error_code throw errors that have no code, and tests/layering/check refuses them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <vector>

namespace megacpp::base {

bool exists(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

/// Of a file that exists.
int64_t file_bytes(const std::filesystem::path& path);

/// From the root on; the path need not exist. E1008 where the current folder is gone.
std::filesystem::path absolute(const std::filesystem::path& path);
/// The one path that leads there without links, "." or a slash at its end. E1008 where nothing is there.
std::filesystem::path canonical(const std::filesystem::path& path);

/// What a folder holds, sorted, as far as the system says so, and why it does not say more. std::bad_alloc where memory
/// runs out.
struct FolderEntries {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
};
FolderEntries read_folder(const std::filesystem::path& folder);

/// Removes a file, a link, or a folder with all that is in it; nothing where nothing is there. Why it is not all gone;
/// std::bad_alloc as above.
std::error_code remove_tree(const std::filesystem::path& path);
/// Removes as much of it as can be: for destructors, and for what has failed already.
void try_to_remove_tree(const std::filesystem::path& path) noexcept;

/// What a folder holds, sorted; nothing where there is no such folder.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder);

}  // namespace megacpp::base
