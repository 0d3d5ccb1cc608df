// SPDX-License-Identifier: Apache-2.0
// The catalog for people and for programs: its entries as a table, one of them in full, both as JSON.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "megacpp/cli/correction_report.h"
#include "megacpp/cli/json.h"
#include "megacpp/hardware/catalog/catalog.h"

namespace megacpp::cli {

std::string list_text(const std::vector<catalog::Entry>& entries, const std::vector<LaneCorrection>& corrections);
Json list_json(const std::vector<catalog::Entry>& entries, const std::vector<LaneCorrection>& corrections);

/// `corrected` has for each sample of the entry what the other layouts make of its prediction.
std::string entry_text(const catalog::Entry& entry, const std::vector<double>& corrected);
Json entry_json(const catalog::Entry& entry, const std::vector<double>& corrected);

/// "nam56r-tiny on v6e:4x4, data=2, batch=8".
std::string subject_line(const catalog::Signature& signature);
/// "2 launches, 1 start, 0 measurements".
std::string counts_text(const catalog::Forgotten& forgotten);

}  // namespace megacpp::cli
