// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/indexed_dataset.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/error.h"

namespace megacpp::data {
namespace {

// The format packs its fields, so nothing is aligned.
template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

[[noreturn]] void refuse_index(const std::string& name, std::string got, std::string wanted) {
  base::raise(base::Code::E1008, {.where = name,
                                  .got = std::move(got),
                                  .wanted = std::move(wanted),
                                  .next = "write the dataset again: megacpp data tokenize TEXT --out PREFIX"});
}

/// Converts elements of one type; returns the first that is no token, or as many as there are.
template <typename T>
size_t convert(const std::byte* from, std::span<int32_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const T value = load<T>(from + i * sizeof(T));
    if constexpr (std::is_floating_point_v<T>) {
      if (!(value >= 0 && value < T{2147483648.0}) || value != static_cast<T>(static_cast<int32_t>(value))) return i;
    } else if constexpr (std::is_signed_v<T> || sizeof(T) > 2) {
      if (value < 0 || static_cast<int64_t>(value) > std::numeric_limits<int32_t>::max()) return i;
    }
    tokens[i] = static_cast<int32_t>(value);
  }
  return tokens.size();
}

size_t convert(TokenType type, const std::byte* from, std::span<int32_t> tokens) {
  switch (type) {
    case TokenType::u8:
      return convert<uint8_t>(from, tokens);
    case TokenType::i8:
      return convert<int8_t>(from, tokens);
    case TokenType::i16:
      return convert<int16_t>(from, tokens);
    case TokenType::i32:
      return convert<int32_t>(from, tokens);
    case TokenType::i64:
      return convert<int64_t>(from, tokens);
    case TokenType::f64:
      return convert<double>(from, tokens);
    case TokenType::f32:
      return convert<float>(from, tokens);
    case TokenType::u16:
      return convert<uint16_t>(from, tokens);
  }
  return 0;
}

std::filesystem::path with_ending(std::filesystem::path prefix, const char* ending) {
  prefix += ending;
  return prefix;
}

// All of the index, and of the tokens, which may be terabytes, both ends and places between them: another text or
// another tokenizer changes all of them, or the index.
uint64_t fingerprint_of(std::span<const std::byte> idx, std::span<const std::byte> bin) {
  constexpr size_t kEnd = 1 << 16, kPlaces = 64, kPlace = 1 << 12;
  uint64_t hash = XXH64(idx.data(), idx.size(), bin.size());
  const auto add = [&hash](std::span<const std::byte> bytes) { hash = XXH64(bytes.data(), bytes.size(), hash); };
  add(bin.first(std::min(kEnd, bin.size())));
  add(bin.last(std::min(kEnd, bin.size())));
  if (bin.size() <= 2 * kEnd) return hash;
  const size_t between = bin.size() - 2 * kEnd;
  for (size_t place = 0; place < kPlaces; ++place) {
    const size_t begin = kEnd + between / kPlaces * place;
    add(bin.subspan(begin, std::min(kPlace, bin.size() - begin)));
  }
  return hash;
}

}  // namespace

TokenIndex::TokenIndex(std::span<const std::byte> bytes, int64_t bin_bytes, const std::string& name) : bytes_(bytes) {
  read_header(name);
  check_sequences(bin_bytes, name);
  check_documents(name);
}

void TokenIndex::read_header(const std::string& name) {
  if (bytes_.size() < kIndexHeaderBytes)
    refuse_index(name, fmt::format("{} bytes", bytes_.size()), fmt::format("a header of {} bytes", kIndexHeaderBytes));
  if (std::memcmp(bytes_.data(), kIndexMagic.data(), kIndexMagic.size()) != 0)
    refuse_index(name, "other first bytes", "a file that begins with MMIDIDX and two zeros");
  const std::byte* at = bytes_.data() + kIndexMagic.size();
  const auto version = load<uint64_t>(at);
  if (version != kIndexVersion) refuse_index(name, fmt::format("version {}", version), "version 1");
  const auto code = load<uint8_t>(at + 8);
  const std::optional<TokenTypeInfo> type = token_type(code);
  if (!type) refuse_index(name, fmt::format("element type {}", code), "a type from 1 to 8");
  type_ = *type;
  const auto sequences = load<uint64_t>(at + 9), bounds = load<uint64_t>(at + 17);
  const uint64_t rest = bytes_.size() - kIndexHeaderBytes;
  // Each count is bounded by the bytes there are before the two are added up.
  const bool fits = sequences <= rest / 12 && bounds <= rest / 8 && sequences * 12 + bounds * 8 <= rest;
  if (!fits)
    refuse_index(name, fmt::format("{} sequences and {} document bounds in {} bytes", sequences, bounds, bytes_.size()),
                 "as many bytes as they need: the file is cut off or its counts are wrong");
  const uint64_t behind = rest - sequences * 12 - bounds * 8;
  if (behind != 0 && behind != sequences)  // multimodal datasets have a byte more for each sequence
    refuse_index(name, fmt::format("{} bytes behind the document bounds", behind), "none");
  sequences_ = static_cast<int64_t>(sequences);
  bounds_ = static_cast<int64_t>(bounds);
}

int32_t TokenIndex::length(int64_t sequence) const {
  return load<int32_t>(bytes_.data() + kIndexHeaderBytes + sequence * 4);
}
int64_t TokenIndex::offset(int64_t sequence) const {
  return load<int64_t>(bytes_.data() + kIndexHeaderBytes + sequences_ * 4 + sequence * 8);
}
int64_t TokenIndex::bound(int64_t index) const {
  return load<int64_t>(bytes_.data() + kIndexHeaderBytes + sequences_ * 12 + index * 8);
}

void TokenIndex::check_sequences(int64_t bin_bytes, const std::string& name) {
  int64_t end = 0;  // of the sequences so far, in bytes
  for (int64_t i = 0; i < sequences_; ++i) {
    const int64_t size = length(i), begin = offset(i);
    if (size < 0) refuse_index(name, fmt::format("sequence {} of {} tokens", i, size), "lengths of 0 or more");
    if (begin != end)
      refuse_index(name, fmt::format("sequence {} at byte {}", i, begin),
                   fmt::format("byte {}, where the one before it ends", end));
    end += size * type_.bytes;
    if (end > bin_bytes)
      refuse_index(name, fmt::format("sequence {} that ends at byte {} of a .bin of {} bytes", i, end, bin_bytes),
                   "a .bin that holds all sequences: it is cut off, or the index is of another file");
  }
  if (end != bin_bytes)
    refuse_index(name, fmt::format("sequences of {} bytes and a .bin of {} bytes", end, bin_bytes),
                 "as many bytes: the index is of another file");
  tokens_ = end / type_.bytes;
}

void TokenIndex::check_documents(const std::string& name) {
  if (bounds_ < 1 || bound(0) != 0)
    refuse_index(name, bounds_ < 1 ? "no document bound" : fmt::format("first document bound {}", bound(0)),
                 "document bounds that begin with 0");
  for (int64_t i = 1; i < bounds_; ++i)
    if (bound(i) < bound(i - 1) || bound(i) > sequences_)
      refuse_index(name, fmt::format("document bound {} behind {}", bound(i), bound(i - 1)),
                   fmt::format("ascending bounds of at most {}, the number of sequences", sequences_));
  if (bound(bounds_ - 1) != sequences_)
    refuse_index(name, fmt::format("last document bound {}", bound(bounds_ - 1)),
                 fmt::format("{}, the number of sequences", sequences_));
  for (int64_t i = 0; i < documents(); ++i) empty_documents_ += begin_of(i) == begin_of(i + 1) ? 1 : 0;
}

int64_t TokenIndex::begin_of(int64_t document) const {
  const int64_t sequence = bound(document);
  // A bound beyond all sequences is in no index, but in a file that is being written to while it is mapped.
  return sequence < 0 || sequence >= sequences_ ? tokens_ : offset(sequence) / type_.bytes;
}

int64_t TokenIndex::document_behind(int64_t token) const {
  int64_t low = 0, high = documents();  // the first with begin_of > token is in [low, high]
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (begin_of(middle) > token) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

std::filesystem::path dataset_prefix(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending != ".bin" && ending != ".idx") return path;
  std::filesystem::path prefix = path;
  return prefix.replace_extension();
}

IndexedDataset::IndexedDataset(const std::filesystem::path& prefix)
    : name_(dataset_prefix(prefix).string()),
      idx_(with_ending(name_, ".idx")),
      bin_(with_ending(name_, ".bin")),
      index_(idx_.read_unchanged(
          [this] { return TokenIndex(idx_.bytes(), static_cast<int64_t>(bin_.bytes().size()), name_ + ".idx"); })),
      fingerprint_(bin_.read_unchanged([this] { return fingerprint_of(idx_.bytes(), bin_.bytes()); })) {
  idx_.require_unchanged();
}

int64_t IndexedDataset::sequences(const Draw& draw, int64_t length) const {
  const Parts parts = parts_of(std::max<int64_t>(0, (index_.tokens() - 1) / length), draw.held_out);
  return draw.part == Draw::Part::training ? parts.training : parts.held_out;
}

void IndexedDataset::read(const Draw& draw, int64_t sample, std::span<int32_t> tokens,
                          std::span<int32_t> segments) const {
  const int64_t length = static_cast<int64_t>(tokens.size()) - 1, count = sequences(draw, length);
  const bool is_training = draw.part == Draw::Part::training;
  const int64_t first_held_out = parts_of((index_.tokens() - 1) / length, draw.held_out).training;
  const int64_t place =
      is_training ? shuffled(draw.seed, sample / count, sample % count, count) : first_held_out + sample % count;
  const int64_t start = place * length;
  copy(start, tokens);
  if (segments.empty()) return;
  int64_t next = index_.document_behind(start);
  int32_t document = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    const int64_t token = start + static_cast<int64_t>(i);
    if (next < index_.documents() && index_.begin_of(next) == token) {
      ++document;
      while (next < index_.documents() && index_.begin_of(next) == token) ++next;  // empty documents begin here too
    }
    segments[i] = document;
  }
  idx_.require_unchanged();
}

void IndexedDataset::copy(int64_t first, std::span<int32_t> tokens) const {
  MEGACPP_CHECK(first >= 0 && first + std::ssize(tokens) <= index_.tokens()) << "tokens from " << first;
  const TokenTypeInfo& type = index_.type();
  const std::byte* from = bin_.bytes().data() + first * type.bytes;
  const size_t good = convert(type.type, from, tokens);
  bin_.require_unchanged();
  MEGACPP_REQUIRE(good == tokens.size(), E1102,
                  {.where = fmt::format("{}.bin, token {}", name_, first + static_cast<int64_t>(good)),
                   .got = fmt::format("a {} that is no token", type.name),
                   .wanted = "whole numbers from 0 to 2147483647",
                   .next = "write the dataset again: megacpp data tokenize TEXT --out PREFIX"});
}

int32_t IndexedDataset::largest_token() const {
  std::vector<int32_t> part(size_t{1} << 16);
  int32_t largest = 0;
  for (int64_t first = 0; first < index_.tokens(); first += std::ssize(part)) {
    const auto size = static_cast<size_t>(std::min<int64_t>(std::ssize(part), index_.tokens() - first));
    copy(first, std::span(part).first(size));
    largest = std::max(largest, *std::max_element(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(size)));
  }
  return largest;
}

std::string IndexedDataset::describe() const {
  return fmt::format("{:.1f}M tokens of {} in {}", static_cast<double>(index_.tokens()) / 1e6,
                     base::counted(index_.documents(), "document"), name_);
}

}  // namespace megacpp::data
