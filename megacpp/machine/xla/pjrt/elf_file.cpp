// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/elf_file.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

namespace megacpp::runtime::pjrt {
namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);

bool is_ours(const Header& header) {
  constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == kClass;
}

// Where `bytes` from `offset` end; nothing where that is beyond every file.
std::optional<uint64_t> end_of(uint64_t offset, uint64_t bytes) {
  uint64_t end = 0;
  if (__builtin_add_overflow(offset, bytes, &end)) return std::nullopt;
  return end;
}

base::Decision too_short(const std::string& part, size_t size) {
  return base::Decision::no("the file ends after " + std::to_string(size) + " bytes, before " + part +
                            ": it is a part of an ELF file");
}

}  // namespace

base::Decision is_whole_elf_file(std::span<const std::byte> file) {
  Header header{};
  if (!file.empty()) std::memcpy(&header, file.data(), std::min(file.size(), sizeof(header)));
  if (!is_ours(header)) return base::Decision::yes();
  if (file.size() < sizeof(header)) return too_short("the end of its header", file.size());
  const auto table_end = end_of(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Segment));
  if (header.e_phentsize != sizeof(Segment) || !table_end || *table_end > file.size())
    return too_short("the end of its table of segments", file.size());
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Segment segment{};
    std::memcpy(&segment, file.data() + header.e_phoff + i * sizeof(Segment), sizeof(Segment));
    if (segment.p_type != PT_LOAD && segment.p_type != PT_DYNAMIC) continue;
    const auto end = end_of(segment.p_offset, segment.p_filesz);
    if (!end || *end > file.size())
      return too_short("the end of segment " + std::to_string(i) + (end ? " at " + std::to_string(*end) : ""),
                       file.size());
  }
  return base::Decision::yes();
}

}  // namespace megacpp::runtime::pjrt
