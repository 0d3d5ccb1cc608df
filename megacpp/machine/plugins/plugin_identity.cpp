// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/plugin_identity.h"

#include <elf.h>

#include <cctype>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/hash.h"

namespace megacpp::runtime::plugins {
namespace {

using FileBytes = std::span<const std::byte>;

constexpr const char* kNvidiaDriver = "/proc/driver/nvidia/version";

/// A copy of the T at `offset`; nothing where the bytes end before it does.
template <typename T>
std::optional<T> read_at(FileBytes bytes, size_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::string hex(FileBytes bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

size_t padded(size_t size) { return (size + 3) / 4 * 4; }

/// The build id among the notes, which are a header, a name and a description each.
std::optional<std::string> build_id_in(FileBytes notes) {
  size_t at = 0;
  while (const auto note = read_at<Elf64_Nhdr>(notes, at)) {
    const size_t name = at + sizeof(Elf64_Nhdr), id = name + padded(note->n_namesz);
    const size_t end = id + padded(note->n_descsz);
    if (end > notes.size()) break;
    const bool is_gnu = note->n_namesz == 4 && std::memcmp(notes.data() + name, "GNU", 4) == 0;
    if (is_gnu && note->n_type == NT_GNU_BUILD_ID) return hex(notes.subspan(id, note->n_descsz));
    at = end;
  }
  return std::nullopt;
}

std::optional<std::string> build_id(FileBytes file) {
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64)
    return std::nullopt;
  for (size_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = read_at<Elf64_Phdr>(file, header->e_phoff + i * header->e_phentsize);
    if (!segment) return std::nullopt;
    const bool is_inside = segment->p_offset <= file.size() && segment->p_filesz <= file.size() - segment->p_offset;
    if (segment->p_type != PT_NOTE || !is_inside) continue;
    if (auto id = build_id_in(file.subspan(segment->p_offset, segment->p_filesz))) return id;
  }
  return std::nullopt;
}

std::string driver_here() {
  std::error_code ignored;
  return std::filesystem::exists(kNvidiaDriver, ignored) ? driver_version(base::read_file(kNvidiaDriver)) : "";
}

}  // namespace

std::string plugin_identity(PluginKind kind, const std::filesystem::path& named) {
  const std::string name = "plugin " + info_of(kind).name;
  try {
    const PluginPlace place = find_plugin(kind, named);
    const std::string version = place.version.empty() ? "" : " " + place.version;
    const std::string driver = kind == PluginKind::cuda ? driver_here() : "";
    return fmt::format("{}{} (build {}){}", name, version, library_id(place.file),
                       driver.empty() ? "" : ", driver " + driver);
  } catch (const base::Error& error) {
    if (error.code() != base::Code::E1501) throw;
    return name + ", which is not here";
  }
}

std::string library_id(const std::filesystem::path& file) {
  const base::MappedFile mapped(file);
  return mapped.read_unchanged([bytes = mapped.bytes()]() -> std::string {
    if (const auto id = build_id(bytes)) return *id;
    return base::hash_text(base::hash_of(bytes));
  });
}

std::string library_hash(const std::filesystem::path& file) {
  const base::MappedFile mapped(file);
  const XXH128_hash_t hash =
      mapped.read_unchanged([bytes = mapped.bytes()] { return XXH3_128bits(bytes.data(), bytes.size()); });
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string driver_version(const std::string& text) {
  std::istringstream words(text.substr(0, text.find('\n')));
  for (std::string word; words >> word;)
    if (std::isdigit(static_cast<unsigned char>(word[0])) && word.find('.') != std::string::npos) return word;
  return "";
}

}  // namespace megacpp::runtime::plugins
