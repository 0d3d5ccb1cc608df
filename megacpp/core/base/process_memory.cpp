// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/process_memory.h"

#include <pthread.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace megacpp::base {
namespace {

constexpr int64_t kKibibyte = 1024;
constexpr uint64_t kMallocArena = uint64_t{64} << 20;  // glibc begins the arena of a thread at a multiple of this

struct Mapping {
  uint64_t begin = 0, end = 0;
  bool is_guard = false;  // nothing may touch it
  std::string name = {};  // a file, "[heap]", or none
  bool is_data = false;   // of the file that the mapping before belongs to: variables that begin as zero
};

// "ffffb0920000-ffffb0940000 r-xp 00000000 fe:00 123 /lib/libfmt.so.9"; nothing for the lines between.
std::optional<Mapping> read_mapping(const std::string& line) {
  Mapping mapping;
  const char* const last = line.data() + line.size();
  const auto begin = std::from_chars(line.data(), last, mapping.begin, 16);
  if (begin.ptr == last || *begin.ptr != '-') return std::nullopt;
  const auto end = std::from_chars(begin.ptr + 1, last, mapping.end, 16);
  if (end.ptr == last || *end.ptr != ' ') return std::nullopt;
  std::istringstream rest(std::string(end.ptr, last));
  std::string permissions, skipped;
  rest >> permissions >> skipped >> skipped >> skipped >> mapping.name;
  mapping.is_guard = permissions.starts_with("---");
  return mapping;
}

int64_t& part_of(ProcessMemory& memory, const Mapping& mapping, const Mapping& before, int64_t stack_bytes) {
  const bool is_adjacent = before.end == mapping.begin;
  if (mapping.name == "[heap]") return memory.heap;
  if (mapping.name.starts_with("[stack")) return memory.stacks;
  if (!mapping.name.empty() && !mapping.name.starts_with("[anon")) return memory.code;
  if (mapping.begin % kMallocArena == 0) return memory.heap;
  if (is_adjacent && (before.name.starts_with("/") || before.is_data)) return memory.code;
  const uint64_t with_guard = mapping.end - before.begin;
  if (is_adjacent && before.is_guard && with_guard == static_cast<uint64_t>(stack_bytes)) return memory.stacks;
  return memory.mapped;
}

int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  int64_t kibibytes = 0;
  for (std::string word; status >> word;)
    if (word == "VmHWM:" && status >> kibibytes) break;
  return kibibytes * kKibibyte;
}

int64_t default_stack_bytes() {
  pthread_attr_t attributes;
  size_t bytes = 0;
  if (::pthread_getattr_default_np(&attributes) != 0) return 0;
  ::pthread_attr_getstacksize(&attributes, &bytes);
  ::pthread_attr_destroy(&attributes);
  return static_cast<int64_t>(bytes);
}

}  // namespace

ProcessMemory read_process_memory(std::istream& smaps, int64_t peak, int64_t stack_bytes) {
  ProcessMemory memory{.peak = peak};
  Mapping mapping, before;
  int64_t resident = 0;
  for (std::string line; std::getline(smaps, line);) {
    constexpr std::string_view kResident = "Rss:";
    if (std::optional<Mapping> next = read_mapping(line)) {
      before = std::exchange(mapping, *std::move(next));
      mapping.is_data = mapping.name.empty() && before.end == mapping.begin && before.name.starts_with("/");
    } else if (line.starts_with(kResident)) {
      const int64_t bytes = std::stoll(line.substr(kResident.size())) * kKibibyte;
      part_of(memory, mapping, before, stack_bytes) += bytes;
      resident += bytes;
    }
  }
  memory.released = std::max<int64_t>(peak - resident, 0);
  return memory;
}

std::optional<ProcessMemory> process_memory() {
  std::ifstream smaps("/proc/self/smaps");
  const int64_t peak = peak_bytes();
  if (!smaps || peak == 0) return std::nullopt;
  return read_process_memory(smaps, peak, default_stack_bytes());
}

}  // namespace megacpp::base
