// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/word_counts.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "megacpp/core/base/thread_pool.h"
#include "megacpp/run/data/bpe/pre_tokenizer.h"
#include "megacpp/run/data/bpe/utf8_text.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/data/text_units.h"

namespace megacpp::data::bpe {
namespace {

constexpr int64_t kUnitBytes = int64_t{4} << 20;

struct WordHash {
  using is_transparent = void;
  size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
};
using Counts = std::unordered_map<std::string, int64_t, WordHash, std::equal_to<>>;

class WordCounter {
 public:
  void add(std::string_view bytes) {
    for (size_t at = 0; at < bytes.size();) {
      const size_t valid = valid_run(bytes, at);
      words_.split(bytes.substr(at, valid), [this](std::string_view word) { count(word); });
      at += valid;
      const size_t invalid = invalid_run(bytes, at);
      if (invalid > 0) count(bytes.substr(at, invalid));
      at += invalid;
    }
  }
  const Counts& counts() const { return counts_; }

 private:
  void count(std::string_view word) {
    const auto found = counts_.find(word);
    if (found != counts_.end()) ++found->second;
    if (found == counts_.end()) counts_.emplace(word, 1);
  }

  PreTokenizer words_{llama3_words()};
  Counts counts_;
};

std::vector<CountedWord> merged(const std::vector<WordCounter>& counters) {
  std::vector<CountedWord> all;
  for (const WordCounter& counter : counters)
    for (const auto& [word, count] : counter.counts()) all.push_back({word, count});
  std::sort(all.begin(), all.end(), [](const CountedWord& a, const CountedWord& b) { return a.word < b.word; });
  std::vector<CountedWord> words;
  for (CountedWord& next : all) {
    if (!words.empty() && words.back().word == next.word) {
      words.back().count += next.count;
    } else {
      words.push_back(std::move(next));
    }
  }
  return words;
}

}  // namespace

std::vector<CountedWord> count_words(const WordSources& from) {
  const std::vector<std::filesystem::path> files = list_files(from.sources);
  const std::vector<TextUnit> units = list_units(files, kUnitBytes);
  const int64_t total = std::accumulate(units.begin(), units.end(), int64_t{0},
                                        [](int64_t sum, const TextUnit& unit) { return sum + unit.bytes(); });
  const uint64_t fingerprint = fingerprint_of_files(files);
  base::ThreadPool pool(from.threads);
  std::vector<WordCounter> counters(static_cast<size_t>(pool.size()));
  std::vector<std::exception_ptr> failures(units.size());
  std::atomic<int64_t> done = 0;
  pool.for_each(static_cast<int64_t>(units.size()), [&](int64_t index, int worker) {
    const TextUnit& unit = units[static_cast<size_t>(index)];
    try {
      for_each_document(files[unit.file], unit, from.text_field,
                        [&](std::string_view text) { counters[static_cast<size_t>(worker)].add(text); });
    } catch (...) {
      failures[static_cast<size_t>(index)] = std::current_exception();
    }
    const int64_t bytes = done.fetch_add(unit.bytes()) + unit.bytes();
    if (worker == 0 && from.on_progress) from.on_progress(bytes, total);
  });
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  require_fingerprint(files, fingerprint);
  return merged(counters);
}

}  // namespace megacpp::data::bpe
