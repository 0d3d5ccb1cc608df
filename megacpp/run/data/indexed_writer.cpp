// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/indexed_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"

namespace megacpp::data {
namespace {

template <typename T>
void store(std::vector<std::byte>& out, T value) {
  const size_t at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &value, sizeof(T));
}

template <typename T>
bool holds(int32_t token) {
  if constexpr (std::is_same_v<T, float>) return token >= 0 && token <= 1 << 24;
  if constexpr (std::is_same_v<T, double> || sizeof(T) >= 4) return token >= 0;
  return token >= 0 && token <= static_cast<int32_t>(std::numeric_limits<T>::max());
}

template <typename T>
void encode_as(std::span<const int32_t> tokens, const char* name, std::vector<std::byte>& out) {
  out.reserve(out.size() + tokens.size() * sizeof(T));
  for (const int32_t token : tokens) {
    MEGACPP_REQUIRE(holds<T>(token), E1102,
                    {.where = "dataset",
                     .got = fmt::format("token {}", token),
                     .wanted = fmt::format("tokens that {} holds", name),
                     .next = "write the dataset with a wider type"});
    store(out, static_cast<T>(token));
  }
}

[[noreturn]] void refuse_part(const std::filesystem::path& path) {
  base::raise(base::Code::E3001, {.where = path.string(),
                                  .got = std::strerror(errno),
                                  .wanted = "a file that can be written",
                                  .next = "check permissions and free space, or give another --out"});
}

std::filesystem::path ending(const std::filesystem::path& prefix, const char* text) { return prefix.string() + text; }

}  // namespace

void encode_tokens(TokenType type, std::span<const int32_t> tokens, std::vector<std::byte>& out) {
  switch (type) {
    case TokenType::u8:
      return encode_as<uint8_t>(tokens, "uint8", out);
    case TokenType::i8:
      return encode_as<int8_t>(tokens, "int8", out);
    case TokenType::i16:
      return encode_as<int16_t>(tokens, "int16", out);
    case TokenType::i32:
      return encode_as<int32_t>(tokens, "int32", out);
    case TokenType::i64:
      return encode_as<int64_t>(tokens, "int64", out);
    case TokenType::f64:
      return encode_as<double>(tokens, "float64", out);
    case TokenType::f32:
      return encode_as<float>(tokens, "float32", out);
    case TokenType::u16:
      return encode_as<uint16_t>(tokens, "uint16", out);
  }
}

std::vector<std::byte> index_bytes(TokenType type, std::span<const int32_t> lengths) {
  std::vector<std::byte> out;
  const uint64_t count = lengths.size();
  out.reserve(kIndexHeaderBytes + count * 20 + 8);
  for (const char c : kIndexMagic) out.push_back(static_cast<std::byte>(c));
  store(out, kIndexVersion);
  store(out, static_cast<uint8_t>(type));
  store(out, count);
  store(out, count + 1);
  for (const int32_t length : lengths) store(out, length);
  int64_t offset = 0;
  for (const int32_t length : lengths) {
    store(out, offset);
    offset += length * token_type(static_cast<uint8_t>(type))->bytes;
  }
  for (uint64_t bound = 0; bound <= count; ++bound) store(out, static_cast<int64_t>(bound));
  return out;
}

int32_t document_length(size_t tokens, const std::string& where) {
  constexpr size_t kMost = std::numeric_limits<int32_t>::max();
  MEGACPP_REQUIRE(tokens <= kMost, E1008,
                  {.where = where,
                   .got = fmt::format("a document of {} tokens", tokens),
                   .wanted = fmt::format("at most {} in one document: its length has 32 bits", kMost),
                   .next = "split the file, or make it .jsonl with a document in every line"});
  return static_cast<int32_t>(tokens);
}

IndexedWriter::Part::Part(std::filesystem::path path, int64_t bytes) : path_(std::move(path)), bytes_(bytes) {
  constexpr mode_t kMode = 0666;
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kMode);
  if (file_ < 0) refuse_part(path_);
  if (::ftruncate(file_, bytes) != 0 || ::lseek(file_, bytes, SEEK_SET) != bytes) refuse_part(path_);
}

IndexedWriter::Part::~Part() { close(); }

void IndexedWriter::Part::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) refuse_part(path_);
    bytes = bytes.subspan(static_cast<size_t>(written));
    bytes_ += written;
  }
}

void IndexedWriter::Part::sync() {
  if (::fsync(file_) != 0) refuse_part(path_);
}

void IndexedWriter::Part::close() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

IndexedWriter::IndexedWriter(std::filesystem::path prefix, TokenType type, const WrittenParts& from)
    : prefix_(std::move(prefix)),
      type_(*token_type(static_cast<uint8_t>(type))),
      tokens_(ending(prefix_, ".bin.tmp"), from.bin_bytes),
      lengths_(ending(prefix_, ".lengths.tmp"), from.documents * static_cast<int64_t>(sizeof(int32_t))) {}

IndexedWriter::~IndexedWriter() {
  if (keeps_parts_) return;
  std::error_code ignored;
  for (Part* part : {&tokens_, &lengths_}) {
    part->close();
    std::filesystem::remove(part->path(), ignored);
  }
}

void IndexedWriter::add(std::span<const int32_t> document) {
  const int32_t length = document_length(document.size(), prefix_.string());
  encoded_.clear();
  encode_tokens(type_.type, document, encoded_);
  append(encoded_, std::span(&length, 1));
}

void IndexedWriter::append(std::span<const std::byte> tokens, std::span<const int32_t> lengths) {
  tokens_.append(tokens);
  lengths_.append(std::as_bytes(lengths));
}

WrittenParts IndexedWriter::sync() {
  tokens_.sync();
  lengths_.sync();
  return {.bin_bytes = tokens_.bytes(), .documents = lengths_.bytes() / static_cast<int64_t>(sizeof(int32_t))};
}

void IndexedWriter::finish() {
  sync();
  std::vector<std::byte> index;
  {
    const std::string text = base::read_file(lengths_.path());
    std::vector<int32_t> lengths(text.size() / sizeof(int32_t));
    if (!lengths.empty()) std::memcpy(lengths.data(), text.data(), lengths.size() * sizeof(int32_t));
    index = index_bytes(type_.type, lengths);
  }
  keeps_parts_ = true;  // tokens without an index are ours where their lengths are beside them: see tokenize.cpp
  // An index of what was there before must not stand beside the new tokens, however briefly.
  std::error_code error;
  std::filesystem::remove(ending(prefix_, ".idx"), error);
  tokens_.close();
  std::filesystem::rename(tokens_.path(), ending(prefix_, ".bin"), error);
  if (error) {
    errno = error.value();
    refuse_part(ending(prefix_, ".bin"));
  }
  const std::span<const std::byte> part = index;
  base::write_file_atomically(ending(prefix_, ".idx"), std::span(&part, 1));
  keeps_parts_ = false;
}

}  // namespace megacpp::data
