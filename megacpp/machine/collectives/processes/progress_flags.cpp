// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/processes/progress_flags.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace megacpp::collectives {
namespace {

// Pages that nothing was written to take no memory.
void* map_flags(int file, int protection) {
  void* const memory = ::mmap(nullptr, sizeof(ProgressFlagsLayout), protection, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

std::unique_ptr<ProgressFlags> ProgressFlags::make(uint64_t token) {
  const int file = ::memfd_create("megacpp progress", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  void* memory = nullptr;
  if (::ftruncate(file, sizeof(ProgressFlagsLayout)) == 0) memory = map_flags(file, PROT_READ | PROT_WRITE);
  if (memory == nullptr) {
    ::close(file);
    return nullptr;
  }
  auto* const layout = static_cast<ProgressFlagsLayout*>(memory);
  layout->token = token;
  return std::unique_ptr<ProgressFlags>(new ProgressFlags(file, layout));
}

ProgressFlags::~ProgressFlags() {
  ::munmap(layout_, sizeof(ProgressFlagsLayout));
  ::close(file_);
}

ProgressFlag* ProgressFlags::add_group(uint64_t id) {
  const uint64_t number = layout_->count.load(std::memory_order_relaxed);
  if (number == ProgressFlagsLayout::kGroups) return nullptr;
  // Memory is taken now, and not by calls of later steps. The slots are zero already.
  std::memset(static_cast<void*>(layout_->slots[number]), 0, sizeof(layout_->slots[number]));
  layout_->ids[number].store(id, std::memory_order_relaxed);
  layout_->count.store(number + 1, std::memory_order_release);
  return layout_->slots[number];
}

std::shared_ptr<const PeerFlags> PeerFlags::open(pid_t pid, int file, uint64_t token) {
  const std::string name = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(file);
  const int own = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (own < 0) return nullptr;
  const off_t bytes = ::lseek(own, 0, SEEK_END);
  void* const memory = bytes == static_cast<off_t>(sizeof(ProgressFlagsLayout)) ? map_flags(own, PROT_READ) : nullptr;
  ::close(own);
  if (memory == nullptr) return nullptr;
  std::shared_ptr<const PeerFlags> flags(new PeerFlags(static_cast<const ProgressFlagsLayout*>(memory)));
  return flags->layout_->token == token ? flags : nullptr;
}

PeerFlags::~PeerFlags() { ::munmap(const_cast<ProgressFlagsLayout*>(layout_), sizeof(ProgressFlagsLayout)); }

const ProgressFlag* PeerFlags::find_group(uint64_t id) const {
  const uint64_t count = layout_->count.load(std::memory_order_acquire);
  for (uint64_t number = 0; number < count; ++number)
    if (layout_->ids[number].load(std::memory_order_relaxed) == id) return layout_->slots[number];
  return nullptr;
}

}  // namespace megacpp::collectives
