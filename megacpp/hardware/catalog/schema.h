// SPDX-License-Identifier: Apache-2.0
// A catalog's file: what marks it as one, and its tables, which are made of the records they hold (fields.h).
#pragma once

#include "megacpp/hardware/catalog/database.h"

namespace megacpp::catalog {

inline constexpr int64_t kApplicationId = 0x4D656743;  // "MegC" in the file's header
inline constexpr int64_t kSchemaVersion = 5;           // files of any other are refused

/// Opens a catalog. With write access a missing or empty file becomes one, in one transaction; with read access an
/// empty one is an empty catalog, and the file stays as it is. E1701 for any other file or a damaged one, which
/// includes one that lost a table or a column, E1702 for a catalog of another version; all are left as they are. What
/// others added to the file does not matter.
Database open_catalog_file(const std::filesystem::path& path, const Database::Options& options);

}  // namespace megacpp::catalog
