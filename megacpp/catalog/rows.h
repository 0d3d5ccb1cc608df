// SPDX-License-Identifier: Apache-2.0
// Records as rows of the catalog's tables: the columns to select, and the record a row holds. Lists are kept as JSON.
// A row that megacpp cannot have written is E1701 and names the file.
#pragma once

#include "megacpp/catalog/database.h"
#include "megacpp/catalog/records.h"

namespace megacpp::catalog {

// Each list of columns ends with nothing; `read` functions take the column at which it begins.
inline constexpr const char* kSignatureColumns =
    "signature.code_version, signature.platform, signature.threads, signature.processor, signature.hardware, "
    "signature.model, signature.model_hash, signature.layout, signature.features, signature.shape";
inline constexpr int kSignatureWidth = 10;
Signature read_signature(const Statement& row, int first);

inline constexpr const char* kOutcomeColumns =
    "at, fits, oom_class, phase, rung, chip, predicted_bytes, measured_bytes, limit_bytes, predicted_seconds, "
    "measured_seconds, note, report";
/// Without its signature, which is a row of another table.
Outcome read_outcome(const Statement& row, int first);

inline constexpr const char* kStartColumns = "at, rung, settings, reasons";
Start read_start(const Statement& row, int first);
/// Empty where there is none.
std::string report_text(const std::optional<OomReport>& report);
std::string settings_text(const std::vector<Setting>& settings);
std::string reasons_text(const std::vector<std::string>& reasons);

inline constexpr const char* kSampleColumns = "at, lane, quantity, parts, measured";
/// Without its signature.
Sample read_sample(const Statement& row, int first);
std::string parts_text(const std::vector<Part>& parts);

}  // namespace megacpp::catalog
