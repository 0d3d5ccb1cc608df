// SPDX-License-Identifier: Apache-2.0
// Wheels for tests, written with libarchive: sound ones, and some that no honest tool makes.
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace megacpp::testing_support {

struct WheelEntry {
  std::string path;
  std::string text = {};
  std::string link = {};  // the entry is a symbolic link to this
};

enum class Packing { deflated, stored };

/// A wheel with these entries in this order; real ones are deflated.
inline std::filesystem::path make_wheel(const std::filesystem::path& file, const std::vector<WheelEntry>& entries,
                                        Packing packing = Packing::deflated) {
  ::archive* archive = ::archive_write_new();
  EXPECT_EQ(::archive_write_set_format_zip(archive), ARCHIVE_OK);
  const bool is_stored = packing == Packing::stored;
  EXPECT_EQ(::archive_write_set_options(archive, is_stored ? "zip:compression=store" : "zip:compression=deflate"),
            ARCHIVE_OK);
  EXPECT_EQ(::archive_write_open_filename(archive, file.c_str()), ARCHIVE_OK) << ::archive_error_string(archive);
  for (const WheelEntry& one : entries) {
    ::archive_entry* entry = ::archive_entry_new();
    ::archive_entry_set_pathname(entry, one.path.c_str());
    ::archive_entry_set_perm(entry, 0644);
    ::archive_entry_set_filetype(entry, one.link.empty() ? AE_IFREG : AE_IFLNK);
    if (!one.link.empty()) ::archive_entry_set_symlink(entry, one.link.c_str());
    ::archive_entry_set_size(entry, static_cast<la_int64_t>(one.text.size()));
    EXPECT_EQ(::archive_write_header(archive, entry), ARCHIVE_OK) << ::archive_error_string(archive);
    EXPECT_EQ(::archive_write_data(archive, one.text.data(), one.text.size()),
              static_cast<la_ssize_t>(one.text.size()));
    ::archive_entry_free(entry);
  }
  EXPECT_EQ(::archive_write_close(archive), ARCHIVE_OK) << ::archive_error_string(archive);
  ::archive_write_free(archive);
  return file;
}

}  // namespace megacpp::testing_support
