// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/trainer.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <set>
#include <unordered_map>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/utf8.h"

namespace megacpp::data::bpe {
namespace {

constexpr int64_t kLargestVocabulary = int64_t{1} << 24;
constexpr size_t kMergesBetweenReports = 64;

/// A word as its tokens, in the array of all words.
struct TokenRun {
  size_t begin = 0;
  uint32_t size = 0;
  int64_t count = 0;  // of the word
};

struct PairCount {
  int64_t count = 0;
  std::vector<uint32_t> words;  // where the pair was at some time
};

/// A pair with the count it had when it was queued.
struct Queued {
  int64_t count;
  uint64_t pair;
  bool operator<(const Queued& other) const { return count != other.count ? count < other.count : pair > other.pair; }
};

uint64_t make_pair_key(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

class PairTrainer {
 public:
  explicit PairTrainer(std::span<const CountedWord> words) {
    for (const CountedWord& word : words) {
      runs_.push_back({tokens_.size(), static_cast<uint32_t>(word.word.size()), word.count});
      for (const char byte : word.word) tokens_.push_back(static_cast<uint8_t>(byte));
    }
    for (size_t run = 0; run < runs_.size(); ++run)
      for (uint32_t i = 0; i + 1 < runs_[run].size; ++i)
        add(make_pair_key(at(run, i), at(run, i + 1)), runs_[run].count, static_cast<uint32_t>(run));
    for (const auto& [pair, count] : pairs_) queue_.push({count.count, pair});
  }

  /// Takes the most frequent pair out of the count; nothing where none occurs twice.
  std::optional<Merge> take_most_frequent() {
    while (!queue_.empty()) {
      const Queued top = queue_.top();
      queue_.pop();
      const auto found = pairs_.find(top.pair);
      if (found == pairs_.end()) continue;
      if (found->second.count != top.count) {  // it lost occurrences to other merges since, or won some
        if (found->second.count > 1) queue_.push({found->second.count, top.pair});
        continue;
      }
      if (top.count < 2) return std::nullopt;
      taken_ = std::move(found->second.words);
      pairs_.erase(found);
      return Merge{.left = static_cast<int32_t>(top.pair >> 32), .right = static_cast<int32_t>(top.pair & 0xffffffff)};
    }
    return std::nullopt;
  }

  /// Replaces the pair that was taken last by merge.merged.
  void apply(const Merge& merge) {
    grown_.clear();
    for (const uint32_t run : taken_) merge_in(run, merge);
    std::sort(grown_.begin(), grown_.end());
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (const uint64_t pair : grown_) {
      const auto found = pairs_.find(pair);
      if (found != pairs_.end() && found->second.count > 1) queue_.push({found->second.count, pair});
    }
  }

 private:
  int32_t& at(size_t run, uint32_t index) { return tokens_[runs_[run].begin + index]; }

  void add(uint64_t pair, int64_t count, uint32_t run) {
    PairCount& entry = pairs_[pair];
    entry.count += count;
    if (entry.words.empty() || entry.words.back() != run) entry.words.push_back(run);
  }
  void remove(uint64_t pair, int64_t count) {
    const auto found = pairs_.find(pair);
    if (found != pairs_.end()) found->second.count -= count;
  }

  /// Pairs around each occurrence change: (before, left) and (right, behind) are gone, those with `merged` are new.
  void merge_in(uint32_t run, const Merge& merge) {
    TokenRun& tokens = runs_[run];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < tokens.size; ++i) {
      if (i + 1 >= tokens.size || at(run, i) != merge.left || at(run, i + 1) != merge.right) {
        at(run, kept++) = at(run, i);
        continue;
      }
      if (kept > 0)
        replace(make_pair_key(at(run, kept - 1), merge.left), make_pair_key(at(run, kept - 1), merge.merged), run);
      if (i + 2 < tokens.size)
        replace(make_pair_key(merge.right, at(run, i + 2)), make_pair_key(merge.merged, at(run, i + 2)), run);
      at(run, kept++) = merge.merged;
      ++i;
    }
    tokens.size = kept;
  }

  void replace(uint64_t gone, uint64_t grown, uint32_t run) {
    remove(gone, runs_[run].count);
    add(grown, runs_[run].count, run);
    grown_.push_back(grown);
  }

  std::vector<int32_t> tokens_;
  std::vector<TokenRun> runs_;
  std::unordered_map<uint64_t, PairCount> pairs_;
  std::priority_queue<Queued> queue_;
  std::vector<uint32_t> taken_;  // runs of the pair that was taken last
  std::vector<uint64_t> grown_;  // by the merge at hand
};

void check_options(std::span<const CountedWord> words, const TrainOptions& options) {
  const int64_t smallest = 256 + static_cast<int64_t>(options.special.size());
  MEGACPP_REQUIRE(
      options.vocabulary >= smallest && options.vocabulary <= kLargestVocabulary, E1003,
      {.where = "vocabulary",
       .got = std::to_string(options.vocabulary),
       .wanted = std::to_string(smallest) + " (bytes and special tokens) to " + std::to_string(kLargestVocabulary),
       .next = "take a size in this range, such as 32768"});
  std::set<std::string> seen;
  for (const std::string& token : options.special)
    MEGACPP_REQUIRE(!token.empty() && base::is_utf8(token) && seen.insert(token).second, E1003,
                    {.where = "special token",
                     .got = token.empty() ? "no text" : "'" + token + "'",
                     .wanted = "valid UTF-8, each text once, none empty",
                     .next = "leave it out"});
  MEGACPP_REQUIRE(!words.empty(), E1101,
                  {.where = "the text to train from",
                   .got = "only empty files",
                   .wanted = "text",
                   .next = "give files or folders that hold text"});
}

}  // namespace

TrainedBpe train_bpe(std::span<const CountedWord> words, const TrainOptions& options) {
  check_options(words, options);
  TrainedBpe trained{.tokens = {}, .merges = {}, .special = options.special};
  std::unordered_map<std::string, int32_t> ids;
  const auto id_of = [&](const std::string& token) {
    const auto [found, is_new] = ids.emplace(token, static_cast<int32_t>(trained.tokens.size()));
    if (is_new) trained.tokens.push_back(token);
    return found->second;
  };
  for (int byte = 0; byte < 256; ++byte) id_of(std::string(1, static_cast<char>(byte)));
  PairTrainer trainer(words);
  const int64_t wanted = options.vocabulary - static_cast<int64_t>(options.special.size());
  while (static_cast<int64_t>(trained.tokens.size()) < wanted) {
    std::optional<Merge> merge = trainer.take_most_frequent();
    if (!merge) break;
    const std::string token =
        trained.tokens[static_cast<size_t>(merge->left)] + trained.tokens[static_cast<size_t>(merge->right)];
    if (std::ranges::count(options.special, token) > 0) continue;  // it has an id of its own
    merge->merged = id_of(token);                                  // two pairs may give the same bytes: one token
    trainer.apply(*merge);
    trained.merges.push_back(*merge);
    if (options.on_progress && trained.merges.size() % kMergesBetweenReports == 0)
      options.on_progress(static_cast<int64_t>(trained.tokens.size()), wanted);
  }
  return trained;
}

}  // namespace megacpp::data::bpe
