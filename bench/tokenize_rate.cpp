// SPDX-License-Identifier: Apache-2.0
// Encodes files with a tokenizer on one thread, each file as one document, and prints JSON: bytes, tokens, processor
// seconds of the best of several passes, and a hash of the ids. bench/tokenize runs it.
// Usage: tokenize_rate TOKENIZER PASSES FILE...
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "megacpp/core/base/file.h"
#include "megacpp/run/data/tokenizer.h"

namespace {

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::fputs("usage: tokenize_rate TOKENIZER PASSES FILE...\n", stderr), 2;
  std::vector<std::string> texts;
  size_t bytes = 0;
  for (int i = 3; i < argc; ++i) bytes += texts.emplace_back(megacpp::base::read_file(argv[i])).size();
  double seconds = INFINITY;
  std::vector<int32_t> ids;
  for (int pass = 0; pass < std::max(1, std::atoi(argv[2])); ++pass) {
    const auto tokenizer = megacpp::data::load_tokenizer(argv[1]);  // anew: no pass knows the words of another
    ids.clear();
    const double begin = processor_seconds();
    for (const std::string& text : texts) tokenizer->encode(text, ids);
    seconds = std::min(seconds, processor_seconds() - begin);
  }
  const uint64_t hash = XXH64(ids.data(), ids.size() * sizeof(int32_t), 0);
  fmt::print("{{\"bytes\": {}, \"tokens\": {}, \"seconds\": {:.4f}, \"hash\": \"{:016x}\"}}\n", bytes, ids.size(),
             seconds, hash);
  return 0;
}
