// SPDX-License-Identifier: Apache-2.0
// fuzz_libfuzzer --target=NAME [libFuzzer's own arguments]: one target under libFuzzer, which keeps inputs that reach
// new code. Half of the mutations are libFuzzer's, half are ours, which know numbers, words and lines.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/fuzz/mutate.h"
#include "tests/fuzz/oracle.h"

using namespace megacpp::fuzz;

namespace {

const Target* g_target = nullptr;

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kOption = "--target=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (argument.substr(0, kOption.size()) == kOption) g_target = find_target(argument.substr(kOption.size()));
  }
  if (g_target != nullptr) return 0;
  std::fprintf(stderr, "fuzz_libfuzzer: --target=NAME must name a target:\n");
  for (const Target& target : all_targets())
    std::fprintf(stderr, "  %-20s %s\n", target.name.c_str(), target.subject.c_str());
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Judgement judgement = judge(*g_target, Bytes(data, size));
  if (judgement.finding.empty()) return 0;
  std::fprintf(stderr, "finding: %s: %s\n", g_target->name.c_str(), judgement.finding.c_str());
  std::abort();
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned int seed) {
  Random random(seed);
  if (random.below(2) == 0) return LLVMFuzzerMutate(data, size, most);
  const Input input(data, data + size);
  const Input changed = mutate(input, input, random);
  const size_t kept = std::min(changed.size(), most);
  std::copy_n(changed.begin(), kept, data);
  return kept;
}
