// SPDX-License-Identifier: Apache-2.0
// Receipts as files: receipt.json of a run directory, written whole or not at all, with a checksum of its content. What
// cannot be trusted is an error with a name and never an empty receipt: E1801 for a file that is truncated, edited or
// none of ours, E1802 for a newer schema, E1803 where there is none and nothing to make one from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "megacpp/evidence/receipt/receipt.h"

namespace megacpp::receipt {

inline constexpr const char* kReceiptFile = "receipt.json";

/// The file's text: members as fields.h has them, with "schema" and "checksum" in front.
std::string to_text(const Receipt& receipt);
/// `where` stands in errors. Verdict and answers are what today's rules say of the content.
Receipt receipt_from(const std::string& text, const std::string& where);

/// Replaces the run directory's. E3001.
void write_receipt(const Receipt& receipt, const std::filesystem::path& run);

/// What becomes of the receipt of a killed run that a reader has completed.
enum class Completion : uint8_t {
  stored,      // for the next reader, where the folder can be written
  not_stored,  // by readers that change nothing
};

/// The receipt of a run directory, or of a receipt file itself ("latest": of the run that was started last). The stored
/// one; where its run goes on, with the steps logged so far. A run whose process is gone without a word is killed: its
/// receipt is made of the one it began with and its log. Runs of versions that wrote no receipt get what their recipe
/// and log have.
Receipt receipt_of(const std::filesystem::path& run, Completion completion = Completion::stored);

}  // namespace megacpp::receipt
