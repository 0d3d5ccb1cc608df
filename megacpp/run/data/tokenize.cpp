// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/tokenize.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "megacpp/core/base/output_path.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/temporary_file.h"
#include "megacpp/core/base/thread_pool.h"
#include "megacpp/run/data/indexed_writer.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/data/text_units.h"

namespace megacpp::data {
namespace {

/// How far an earlier call came.
struct Note {
  size_t units = 0;
  int64_t text_bytes = 0;
  WrittenParts parts = {};
};

std::filesystem::path note_path(const TokenizeOptions& options) { return options.out.string() + ".tokenize"; }

/// Of all that decides the dataset and how the work is cut into units.
std::string signature_of(const Tokenizer& tokenizer, const TokenizeOptions& options, uint64_t files) {
  return fmt::format("{:016x}-{:016x}-{}-{}", files, tokenizer.fingerprint(), options.unit_bytes, options.text_field);
}

// Nothing where there is none, or one of other text or another tokenizer.
Note read_note(const TokenizeOptions& options, const std::string& signature) {
  std::error_code ignored;
  if (!std::filesystem::exists(note_path(options), ignored)) return {};
  try {
    const base::Json note =
        base::parse_json(base::read_file(note_path(options)), base::Code::E1008, note_path(options).string());
    if (note.at("signature") != signature) return {};
    const Note read{.units = note.at("units"),
                    .text_bytes = note.at("text_bytes"),
                    .parts = {.bin_bytes = note.at("bin_bytes"), .documents = note.at("documents")}};
    // What the note says must still be there.
    const auto holds = [&](const char* ending, int64_t bytes) {
      const auto size = std::filesystem::file_size(options.out.string() + ending, ignored);
      return !ignored && size >= static_cast<uint64_t>(bytes);
    };
    const bool is_whole = holds(".bin.tmp", read.parts.bin_bytes) && holds(".lengths.tmp", 4 * read.parts.documents);
    return is_whole ? read : Note{};
  } catch (const nlohmann::json::exception&) {
    return {};
  } catch (const base::Error&) {
    return {};
  }
}

/// One call at a time writes the parts of a dataset: the first of them is locked, by the open file, until the object or
/// the process ends.
class PartsLock {
 public:
  explicit PartsLock(const std::filesystem::path& out) {
    const std::filesystem::path part = out.string() + ".bin.tmp";
    constexpr mode_t kMode = 0666;
    file_ = ::open(part.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kMode);
    if (file_ < 0) base::fail_writing(part, "cannot open", errno);
    // A call that finishes while this one waits gives the file its final name: what was locked is no part then.
    struct stat locked = {}, named = {};
    const bool is_ours = ::flock(file_, LOCK_EX | LOCK_NB) == 0 && ::fstat(file_, &locked) == 0 &&
                         ::stat(part.c_str(), &named) == 0 && locked.st_dev == named.st_dev &&
                         locked.st_ino == named.st_ino;
    if (is_ours) return;
    ::close(file_);
    base::raise(base::Code::E3001, {.where = out.string(),
                                    .got = "another process that writes this dataset",
                                    .wanted = "one process at a time",
                                    .next = "wait for it or stop it, or give another --out"});
  }
  ~PartsLock() { ::close(file_); }
  PartsLock(const PartsLock&) = delete;
  PartsLock& operator=(const PartsLock&) = delete;

 private:
  int file_;  // descriptor
};

/// The documents of one unit.
struct Encoded {
  std::vector<std::byte> tokens;
  std::vector<int32_t> lengths;
  std::exception_ptr failure;
};

class Run {
 public:
  Run(const Tokenizer& tokenizer, const TokenizeOptions& options)
      : tokenizer_(tokenizer),
        options_(options),
        type_(token_type_for(tokenizer.vocab_size())),
        files_(list_files(options.sources)),
        units_(list_units(files_, options.unit_bytes)),
        fingerprint_(fingerprint_of_files(files_)),
        signature_(signature_of(tokenizer, options, fingerprint_)),
        lock_(options.out),
        note_(read_note(options, signature_)),
        writer_(options.out, type_, note_.parts),
        pool_(options.threads) {
    if (note_.units > 0)
      writer_.keep_parts();
    else
      remove_note();  // of other text, or of parts that are gone
    for (const TextUnit& unit : units_) progress_.total_bytes += unit.bytes();
    progress_.text_bytes = progress_.resumed_bytes = note_.text_bytes;
    progress_.documents = note_.parts.documents;
    progress_.tokens = note_.parts.bin_bytes / token_type(static_cast<uint8_t>(type_))->bytes;
  }

  TokenizeProgress run() {
    int64_t noted = progress_.text_bytes;
    for (size_t unit = note_.units; unit < units_.size();) {
      unit = encode_group(unit);
      if (options_.on_progress) options_.on_progress(progress_);
      const bool stops = options_.should_stop && options_.should_stop();
      if (stops || progress_.text_bytes - noted >= options_.note_bytes) {
        write_note(unit);
        noted = progress_.text_bytes;
      }
      if (stops && unit < units_.size()) return progress_;
    }
    MEGACPP_REQUIRE(progress_.documents > 0, E1101,
                    {.where = options_.sources.empty() ? "text" : options_.sources.front(),
                     .got = "no document that has text",
                     .wanted = "text files, or .jsonl with a text in every line",
                     .next = "give other files"});
    require_fingerprint(files_, fingerprint_);
    writer_.finish();
    remove_note();
    progress_.finished = true;
    return progress_;
  }

 private:
  // As many units as keep all threads busy for a while; returns the one behind them.
  size_t encode_group(size_t first) {
    const int64_t enough = options_.unit_bytes * 4 * options_.threads;
    size_t end = first;
    for (int64_t bytes = 0; end < units_.size() && bytes < enough; ++end) bytes += units_[end].bytes();
    encoded_.resize(std::max(encoded_.size(), end - first));
    pool_.for_each(static_cast<int64_t>(end - first), [&](int64_t i, int) {
      encode(units_[first + static_cast<size_t>(i)], encoded_[static_cast<size_t>(i)]);
    });
    for (size_t i = 0; i < end - first; ++i) append(units_[first + i], encoded_[i]);
    return end;
  }

  void encode(const TextUnit& unit, Encoded& to) const {
    to.tokens.clear();
    to.lengths.clear();
    to.failure = nullptr;
    try {
      std::vector<int32_t> ids;
      for_each_document(files_[unit.file], unit, options_.text_field, [&](std::string_view text) {
        ids.clear();
        tokenizer_.encode(text, ids);
        if (const auto end = tokenizer_.end_of_document()) ids.push_back(*end);
        to.lengths.push_back(document_length(ids.size(), files_[unit.file].string()));
        encode_tokens(type_, ids, to.tokens);
      });
    } catch (...) {
      to.failure = std::current_exception();
    }
  }

  void append(const TextUnit& unit, const Encoded& encoded) {
    if (encoded.failure) std::rethrow_exception(encoded.failure);
    writer_.append(encoded.tokens, encoded.lengths);
    progress_.text_bytes += unit.bytes();
    progress_.documents += std::ssize(encoded.lengths);
    for (const int32_t length : encoded.lengths) progress_.tokens += length;
  }

  void write_note(size_t units) {
    const WrittenParts parts = writer_.sync();
    const base::Json note = {{"signature", signature_},
                             {"units", units},
                             {"text_bytes", progress_.text_bytes},
                             {"bin_bytes", parts.bin_bytes},
                             {"documents", parts.documents}};
    base::write_file_atomically(note_path(options_), base::to_text(note, 2) + "\n");
    writer_.keep_parts();  // the next call finds them by the note; without one they are of no use
  }

  void remove_note() const {
    std::error_code ignored;
    std::filesystem::remove(note_path(options_), ignored);
    base::remove_abandoned_temporaries(note_path(options_));
  }

  const Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
  TokenType type_;
  std::vector<std::filesystem::path> files_;
  std::vector<TextUnit> units_;
  uint64_t fingerprint_;  // of the files
  std::string signature_;
  PartsLock lock_;  // before what another call may change is read
  Note note_;
  IndexedWriter writer_;
  base::ThreadPool pool_;
  std::vector<Encoded> encoded_;  // [unit of a group]
  TokenizeProgress progress_;
};

}  // namespace

void require_new_dataset(const std::filesystem::path& out) {
  const auto has = [&](const char* ending) { return base::exists(out.string() + ending); };
  // Tokens without an index are an earlier call's own where its lengths are beside them: it was killed at the end.
  const char* const taken = has(".idx") ? ".idx" : has(".bin") && !has(".lengths.tmp") ? ".bin" : nullptr;
  MEGACPP_REQUIRE(taken == nullptr, E1007,
                  {.where = "--out",
                   .got = out.string() + taken + " is there already",
                   .wanted = "the name of a dataset that does not exist yet",
                   .next = "remove it, or give another --out"});
}

TokenizeProgress tokenize(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  return Run(tokenizer, options).run();
}

}  // namespace megacpp::data
