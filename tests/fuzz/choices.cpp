// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/choices.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace megacpp::fuzz {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::array kScalars = {"0"sv,
                                 "1"sv,
                                 "2"sv,
                                 "3"sv,
                                 "4"sv,
                                 "5"sv,
                                 "7"sv,
                                 "8"sv,
                                 "16"sv,
                                 "17"sv,
                                 "64"sv,
                                 "100"sv,
                                 "255"sv,
                                 "256"sv,
                                 "1024"sv,
                                 "4096"sv,
                                 "65535"sv,
                                 "65536"sv,
                                 "1048576"sv,
                                 "16777216"sv,
                                 "2147483647"sv,
                                 "2147483648"sv,
                                 "4294967296"sv,
                                 "9007199254740993"sv,
                                 "4611686018427387904"sv,
                                 "9223372036854775807"sv,
                                 "9223372036854775808"sv,
                                 "18446744073709551616"sv,
                                 "-1"sv,
                                 "-2"sv,
                                 "-9223372036854775808"sv,
                                 "1e9"sv,
                                 "1e18"sv,
                                 "1e19"sv,
                                 "1e300"sv,
                                 "1e-300"sv,
                                 "5e-324"sv,
                                 "1e309"sv,
                                 "-0.0"sv,
                                 "0.5"sv,
                                 "0.1"sv,
                                 "1.5"sv,
                                 ".inf"sv,
                                 "-.inf"sv,
                                 ".nan"sv,
                                 "NaN"sv,
                                 "Infinity"sv,
                                 "0x10"sv,
                                 "1_000"sv,
                                 "1KiB"sv,
                                 "3GiB"sv,
                                 "16EiB"sv,
                                 "true"sv,
                                 "false"sv,
                                 "null"sv,
                                 "~"sv,
                                 ""sv,
                                 " "sv,
                                 "A"sv,
                                 "AEME"sv,
                                 "A|E"sv,
                                 "|"sv,
                                 "auto"sv,
                                 "none"sv,
                                 "full"sv,
                                 "f32"sv,
                                 "bf16"sv,
                                 "spmd"sv,
                                 "fsdp"sv,
                                 "megatron"sv,
                                 "cpu"sv,
                                 "xla"sv,
                                 "[]"sv,
                                 "[1, 2]"sv,
                                 "{}"sv,
                                 "{a: 1}"sv,
                                 "a: b"sv,
                                 "\"x\""sv,
                                 "'"sv,
                                 "&a"sv,
                                 "*a"sv,
                                 "!!int 3"sv,
                                 "<<"sv,
                                 "---"sv,
                                 "#"sv,
                                 "\n"sv,
                                 "\t"sv,
                                 "\0"sv,
                                 "a\0b"sv,
                                 "\xff"sv,
                                 "\xc3\x28"sv,
                                 "\xed\xa0\x80"sv,
                                 "\xe2\x80\xae"sv,
                                 "\x1b[31m"sv,
                                 "%s%n"sv,
                                 "../../etc/passwd"sv,
                                 "/dev/null"sv};

}  // namespace

uint8_t Choices::byte() {
  if (rest_.empty()) return 0;
  const uint8_t first = rest_.front();
  rest_ = rest_.subspan(1);
  return first;
}

size_t Choices::below(size_t count) {
  size_t value = byte();
  if (count > 256) value = value << 8 | byte();
  return value % count;
}

std::string Choices::text(size_t most) {
  const size_t wanted = most == 0 ? 0 : below(most + 1);  // takes bytes of the rest: before its size is read
  const size_t size = std::min(wanted, rest_.size());
  std::string text(as_text(rest_.first(size)));
  rest_ = rest_.subspan(size);
  return text;
}

std::string hostile_scalar(Choices& choices) {
  const size_t which = choices.below(kScalars.size() + 8);
  return which < kScalars.size() ? std::string(kScalars[which]) : choices.text(24);
}

}  // namespace megacpp::fuzz
