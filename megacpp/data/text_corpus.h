// SPDX-License-Identifier: Apache-2.0
// Text files as one run of byte tokens with document boundaries. The same sources give the same bytes: files are taken
// in the order of the sources, within a folder or glob in the order of their paths. Bounded: what goes beyond the cap
// is cut off.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace megacpp::data {

inline constexpr int64_t kMaxCorpusBytes = int64_t{64} << 20;
inline constexpr int64_t kByteVocabulary = 256;

struct TextCorpus {
  std::vector<uint8_t> bytes;            // all documents, one after another
  std::vector<int64_t> document_begins;  // ascending, the first is 0
  std::vector<std::string> files;        // one per document
};

/// Reads the sources: files, folders (walked, hidden entries skipped) or globs; none means the C++ headers of this
/// machine. E1101 when a source does not exist or nothing was found to read.
TextCorpus load_text(std::span<const std::string> sources, int64_t max_bytes = kMaxCorpusBytes);

}  // namespace megacpp::data
