// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "tests/fuzz/choices.h"

namespace megacpp::fuzz {
namespace {

constexpr std::array<uint8_t, 12> kBytes = {0, 1, 2, 0x0a, 0x20, 0x22, 0x3a, 0x7f, 0x80, 0xc3, 0xfe, 0xff};

/// Bytes [begin, end) of an input.
struct Range {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
};

Bytes part(Bytes input, Range range) { return input.subspan(range.begin, range.size()); }

void replace(Input& input, Range range, Bytes by) {
  const Input copy(by.begin(), by.end());  // `by` may be of the input itself
  const auto at =
      input.erase(input.begin() + static_cast<int64_t>(range.begin), input.begin() + static_cast<int64_t>(range.end));
  input.insert(at, copy.begin(), copy.end());
}

void replace(Input& input, Range range, std::string_view by) {
  replace(input, range, Bytes(reinterpret_cast<const uint8_t*>(by.data()), by.size()));
}

/// Short ranges are likelier than long ones.
Range any_range(Bytes input, Random& random) {
  if (input.empty()) return {};
  const size_t begin = random.below(input.size());
  const size_t most = std::min(input.size() - begin, size_t{1} << random.below(9));
  return {begin, begin + 1 + random.below(most)};
}

/// A word, number or single mark: what stands at a random place.
Range any_word(Bytes input, Random& random) {
  if (input.empty()) return {};
  const auto is_word = [&](size_t i) { return std::isalnum(input[i]) != 0 || input[i] == '_' || input[i] == '.'; };
  Range range{random.below(input.size()), 0};
  range.end = range.begin + 1;
  if (!is_word(range.begin)) return range;
  while (range.begin > 0 && is_word(range.begin - 1)) --range.begin;
  while (range.end < input.size() && is_word(range.end)) ++range.end;
  return range;
}

/// With its end.
Range any_line(Bytes input, Random& random) {
  if (input.empty()) return {};
  Range range{random.below(input.size()), 0};
  range.end = range.begin;
  while (range.begin > 0 && input[range.begin - 1] != '\n') --range.begin;
  while (range.end < input.size() && input[range.end++] != '\n') continue;
  return range;
}

Range any_part(Bytes input, Random& random) {
  switch (random.below(3)) {
    case 0:
      return any_range(input, random);
    case 1:
      return any_word(input, random);
    default:
      return any_line(input, random);
  }
}

std::string any_scalar(Random& random) {
  std::array<uint8_t, 16> bytes;
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next());
  Choices choices(bytes);
  return hostile_scalar(choices);
}

void change_byte(Input& input, Random& random) {
  if (input.empty()) return;
  uint8_t& byte = input[random.below(input.size())];
  switch (random.below(4)) {
    case 0:
      byte = static_cast<uint8_t>(byte ^ (1 << random.below(8)));
      break;
    case 1:
      byte = kBytes[random.below(kBytes.size())];
      break;
    case 2:
      byte = static_cast<uint8_t>(byte + (random.below(2) == 0 ? 1 : -1));
      break;
    default:
      byte = static_cast<uint8_t>(random.next());
  }
}

/// A number in binary: a length, an offset, a size.
void change_integer(Input& input, Random& random) {
  const size_t width = size_t{1} << random.below(4);
  if (input.size() < width) return;
  constexpr std::array<uint64_t, 8> kValues = {0,           1, 0x7f, 0x7fff, 0x7fffffff, 0x80000000, 0x7fffffffffffffff,
                                               ~uint64_t{0}};
  const uint64_t near = kValues[random.below(kValues.size())];
  const uint64_t value = near + random.below(3) - 1;
  const size_t begin = random.below(input.size() - width + 1);
  for (size_t i = 0; i < width; ++i) input[begin + i] = static_cast<uint8_t>(value >> (8 * i));
}

// One draw a statement: compilers differ in the order of arguments, and a seed gives the same cases everywhere.
void change_once(Input& input, Bytes other, Random& random) {
  switch (random.below(9)) {
    case 0:
    case 1:
      return change_byte(input, random);
    case 2:
      return change_integer(input, random);
    case 3: {
      const Range word = any_word(input, random);
      return replace(input, word, any_scalar(random));
    }
    case 4:
      return replace(input, any_part(input, random), Bytes());
    case 5: {
      const size_t at = any_part(input, random).begin;
      return replace(input, {at, at}, part(input, any_part(input, random)));
    }
    case 6: {
      const Range range = any_part(input, random);
      return replace(input, range, part(other, any_part(other, random)));
    }
    case 7: {
      const size_t at = any_part(input, random).begin;
      return replace(input, {at, at}, part(other, any_part(other, random)));
    }
    default: {
      const size_t at = any_word(input, random).begin;
      return replace(input, {at, at}, any_scalar(random));
    }
  }
}

}  // namespace

Random::Random(uint64_t seed, std::string_view target, uint64_t number) : state_(seed) {
  for (const char c : target) state_ = next() ^ static_cast<unsigned char>(c);
  state_ = next() ^ number;
  state_ = next();
}

uint64_t Random::next() {
  uint64_t mixed = state_ += 0x9e3779b97f4a7c15;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

Input mutate(Input input, Bytes other, Random& random) {
  for (size_t changes = size_t{1} << random.below(4); changes > 0; --changes) change_once(input, other, random);
  if (input.size() > kLargestInput) input.resize(kLargestInput);
  return input;
}

Input mutate_any(const std::vector<Input>& corpus, Random& random) {
  if (corpus.empty()) return mutate({}, {}, random);
  const Input& first = corpus[random.below(corpus.size())];
  return mutate(first, corpus[random.below(corpus.size())], random);
}

}  // namespace megacpp::fuzz
