// SPDX-License-Identifier: Apache-2.0
// The layout of Megatron's indexed datasets, PATH.bin and PATH.idx, all little-endian and without padding:
//   .bin  tokens of all sequences, one behind another, in one element type
//   .idx  magic (9 bytes), version u64 = 1, element type u8, sequences u64, document bounds u64, then
//         lengths i32[sequences] in tokens, offsets i64[sequences] in bytes of .bin, bounds i64[document bounds]
// A document is a range of sequences between two bounds; the first bound is 0, the last the number of sequences.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace megacpp::data {

inline constexpr std::string_view kIndexMagic{"MMIDIDX\0\0", 9};
inline constexpr uint64_t kIndexVersion = 1;
inline constexpr size_t kIndexHeaderBytes = 9 + 8 + 1 + 8 + 8;

/// Element types by their code in the file.
enum class TokenType : uint8_t {
  u8 = 1,
  i8 = 2,
  i16 = 3,
  i32 = 4,
  i64 = 5,
  f64 = 6,
  f32 = 7,
  u16 = 8,
};

struct TokenTypeInfo {
  TokenType type;
  std::string_view name;
  int64_t bytes;
};
inline constexpr std::array<TokenTypeInfo, 8> kTokenTypes = {{{TokenType::u8, "uint8", 1},
                                                              {TokenType::i8, "int8", 1},
                                                              {TokenType::i16, "int16", 2},
                                                              {TokenType::i32, "int32", 4},
                                                              {TokenType::i64, "int64", 8},
                                                              {TokenType::f64, "float64", 8},
                                                              {TokenType::f32, "float32", 4},
                                                              {TokenType::u16, "uint16", 2}}};

/// Nothing for a code that the format lacks.
inline std::optional<TokenTypeInfo> token_type(uint8_t code) {
  if (code < 1 || code > kTokenTypes.size()) return std::nullopt;
  return kTokenTypes[code - size_t{1}];
}

/// The type that datasets of a vocabulary are written in, as Megatron chooses it.
inline TokenType token_type_for(int64_t vocabulary) { return vocabulary < 65500 ? TokenType::u16 : TokenType::i32; }

}  // namespace megacpp::data
