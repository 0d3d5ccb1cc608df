// SPDX-License-Identifier: Apache-2.0
// What a run is trained on, kept in its directory (data.json): the fingerprint of the whole and of each file or
// dataset. A run that goes on reads its samples where it stopped, which means something in the same data alone.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "megacpp/run/data/source.h"

namespace megacpp::launch {

/// Of a run directory.
std::filesystem::path data_file_of(const std::filesystem::path& run);

/// The content of data.json.
std::string data_text(const data::TokenSource& source);

/// What has changed since data.json was written: "changed: a.txt; new: b.txt". Nothing where the data are the same, or
/// where the file is not there, as in runs of earlier versions. E1008 where it is no such file.
std::optional<std::string> changed_data(const std::filesystem::path& run, const data::TokenSource& source);

/// E1007 where the data have changed, with what has.
void require_same_data(const std::filesystem::path& run, const data::TokenSource& source);

}  // namespace megacpp::launch
