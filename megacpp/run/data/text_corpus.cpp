// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/text_corpus.h"

#include <glob.h>

#include <algorithm>
#include <new>
#include <string_view>

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/philox.h"

namespace megacpp::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultSource = "/usr/include/c++/*";

[[noreturn]] void refuse(const std::string& source, std::string got) {
  base::raise(base::Code::E1101, {.where = "data.text " + source,
                                  .got = std::move(got),
                                  .wanted = "text files, folders or globs that hold text",
                                  .next = "give your own files with --set data.text=[path]"});
}

/// Paths that match a glob, sorted; none when nothing matches.
std::vector<fs::path> matches(const std::string& pattern) {
  glob_t found = {};
  std::vector<fs::path> paths;
  const int failed = ::glob(pattern.c_str(), 0, nullptr, &found);
  if (failed == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (failed == GLOB_NOSPACE) throw std::bad_alloc();
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool is_hidden(const fs::path& path) { return path.filename().string().rfind('.', 0) == 0; }

/// The visible regular files below a folder, sorted by path. Folders that may not be entered are passed over.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files, folders = {folder};
  while (!folders.empty()) {
    const base::FolderEntries found = base::read_folder(folders.back());
    const bool may_be_read = found.error != std::errc::permission_denied;
    if (found.error && may_be_read) refuse(folders.back().string(), found.error.message());
    folders.pop_back();
    for (const fs::path& entry : found.entries) {
      std::error_code ignored;
      if (is_hidden(entry)) continue;
      if (fs::symlink_status(entry, ignored).type() == fs::file_type::directory) folders.push_back(entry);
      if (fs::is_regular_file(entry, ignored)) files.push_back(entry);
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

void add_path(const fs::path& path, std::vector<fs::path>& files) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return files.push_back(path);
  const std::vector<fs::path> below = files_below(path);
  files.insert(files.end(), below.begin(), below.end());
}

std::vector<fs::path> files_of(const std::string& source) {
  std::vector<fs::path> files;
  std::error_code ignored;
  if (fs::exists(source, ignored)) {
    add_path(source, files);
  } else {
    for (const fs::path& path : matches(source)) add_path(path, files);
  }
  if (files.empty()) refuse(source, "no file there");
  return files;
}

/// Appends one document, cut at the cap; false when the corpus is full.
bool append(TextCorpus& corpus, const fs::path& file, int64_t max_bytes) {
  const int64_t free_bytes = max_bytes - static_cast<int64_t>(corpus.bytes.size());
  if (free_bytes <= 0) return false;
  const std::string text = base::read_file(file);
  if (text.empty()) return true;
  corpus.document_begins.push_back(static_cast<int64_t>(corpus.bytes.size()));
  corpus.files.push_back(file.string());
  const std::string_view taken = std::string_view(text).substr(0, static_cast<size_t>(free_bytes));
  corpus.bytes.insert(corpus.bytes.end(), taken.begin(), taken.end());
  return true;
}

}  // namespace

int64_t TextCorpus::sequences(const Draw& draw, int64_t length) const {
  const Parts parts = parts_of(static_cast<int64_t>(bytes.size()), draw.held_out);
  if (draw.part == Draw::Part::training) return std::max<int64_t>(0, parts.training - length);
  return std::max<int64_t>(0, (parts.held_out - 1) / length);
}

int64_t TextCorpus::start_of(const Draw& draw, int64_t sample, int64_t length) const {
  const auto count = static_cast<uint64_t>(sequences(draw, length));
  if (draw.part == Draw::Part::held_out) {
    const int64_t first = parts_of(static_cast<int64_t>(bytes.size()), draw.held_out).training;
    return first + sample % static_cast<int64_t>(count) * length;
  }
  // The corpus is capped far below 2^32 bytes, so a 32-bit word scaled to the range is as good as uniform.
  const base::Philox random(draw.seed, "data");
  return static_cast<int64_t>((random.word(static_cast<uint64_t>(sample)) * count) >> 32);
}

void TextCorpus::read(const Draw& draw, int64_t sample, std::span<int32_t> tokens, std::span<int32_t> segments) const {
  const int64_t start = start_of(draw, sample, static_cast<int64_t>(tokens.size()) - 1);
  std::copy_n(bytes.begin() + start, tokens.size(), tokens.begin());
  auto next = std::upper_bound(document_begins.begin(), document_begins.end(), start);
  int32_t document = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    if (next != document_begins.end() && start + static_cast<int64_t>(i) == *next) ++document, ++next;
    segments[i] = document;
  }
}

uint64_t TextCorpus::fingerprint() const {
  const uint64_t of_text = XXH64(bytes.data(), bytes.size(), 0);
  return XXH64(document_begins.data(), document_begins.size() * sizeof(int64_t), of_text);
}

std::vector<SourcePart> TextCorpus::parts() const {
  std::vector<SourcePart> parts;
  for (size_t i = 0; i < files.size(); ++i) {
    const bool is_last = i + 1 == files.size();
    const auto begin = static_cast<size_t>(document_begins[i]);
    const size_t end = is_last ? bytes.size() : static_cast<size_t>(document_begins[i + 1]);
    parts.push_back({.name = files[i], .fingerprint = XXH64(bytes.data() + begin, end - begin, 0)});
  }
  return parts;
}

std::string TextCorpus::describe() const {
  return fmt::format("{:.1f} MB from {}", static_cast<double>(bytes.size()) / 1e6,
                     base::counted(std::ssize(files), "file"));
}

std::vector<fs::path> list_files(std::span<const std::string> sources) {
  const std::string default_source = kDefaultSource;
  if (sources.empty()) sources = std::span(&default_source, 1);
  std::vector<fs::path> files;
  for (const std::string& source : sources) {
    const std::vector<fs::path> own = files_of(source);
    files.insert(files.end(), own.begin(), own.end());
  }
  return files;
}

TextCorpus load_text(std::span<const std::string> sources, int64_t max_bytes) {
  TextCorpus corpus;
  for (const fs::path& file : list_files(sources))
    if (!append(corpus, file, max_bytes)) return corpus;
  if (corpus.bytes.empty()) refuse(sources.empty() ? kDefaultSource : sources.front(), "only empty files");
  return corpus;
}

}  // namespace megacpp::data
