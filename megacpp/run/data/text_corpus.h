// SPDX-License-Identifier: Apache-2.0
// Text files as one run of byte tokens with document boundaries. The same sources give the same bytes: files are taken
// in the order of the sources, within a folder or glob in the order of their paths. Bounded: what goes beyond the cap
// is cut off. As a source it is drawn from with replacement: a training sequence begins anywhere in the text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "megacpp/run/data/source.h"

namespace megacpp::data {

inline constexpr int64_t kMaxCorpusBytes = int64_t{64} << 20;
inline constexpr int64_t kByteVocabulary = 256;

struct TextCorpus : TokenSource {
  std::vector<uint8_t> bytes;            // all documents, one after another
  std::vector<int64_t> document_begins;  // ascending, the first is 0
  std::vector<std::string> files;        // one per document

  /// In training: places to begin at. Held out: sequences cut one behind another.
  int64_t sequences(const Draw& draw, int64_t length) const override;
  void read(const Draw& draw, int64_t sample, std::span<int32_t> tokens, std::span<int32_t> segments) const override;
  int64_t vocabulary() const override { return kByteVocabulary; }
  uint64_t fingerprint() const override;
  std::vector<SourcePart> parts() const override;  // a file each
  std::string describe() const override;

  /// Where in the text a sample begins.
  int64_t start_of(const Draw& draw, int64_t sample, int64_t length) const;
};

/// The files that sources name, in the order described above: files, folders (walked, hidden entries skipped) or globs;
/// none means the C++ headers of this machine. E1101 when a source does not exist or has no file.
std::vector<std::filesystem::path> list_files(std::span<const std::string> sources);

/// Reads the files of list_files(). E1101 when nothing was found to read.
TextCorpus load_text(std::span<const std::string> sources, int64_t max_bytes = kMaxCorpusBytes);

}  // namespace megacpp::data
