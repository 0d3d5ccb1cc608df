// SPDX-License-Identifier: Apache-2.0
#include "megacpp/collectives/processes/gate_board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace megacpp::collectives {
namespace {

// Pages that nothing was written to take no memory.
void* map_board(int file, int protection) {
  void* const memory = ::mmap(nullptr, sizeof(GateBoardLayout), protection, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

std::unique_ptr<GateBoard> GateBoard::make(uint64_t token) {
  const int file = ::memfd_create("megacpp gates", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  void* memory = nullptr;
  if (::ftruncate(file, sizeof(GateBoardLayout)) == 0) memory = map_board(file, PROT_READ | PROT_WRITE);
  if (memory == nullptr) {
    ::close(file);
    return nullptr;
  }
  auto* const layout = static_cast<GateBoardLayout*>(memory);
  layout->token = token;
  return std::unique_ptr<GateBoard>(new GateBoard(file, layout));
}

GateBoard::~GateBoard() {
  ::munmap(layout_, sizeof(GateBoardLayout));
  ::close(file_);
}

GateSlot* GateBoard::add_group(uint64_t id) {
  const uint64_t number = layout_->count.load(std::memory_order_relaxed);
  if (number == GateBoardLayout::kGroups) return nullptr;
  // Memory is taken now, and not by calls of later steps. The slots are zero already.
  std::memset(static_cast<void*>(layout_->slots[number]), 0, sizeof(layout_->slots[number]));
  layout_->ids[number].store(id, std::memory_order_relaxed);
  layout_->count.store(number + 1, std::memory_order_release);
  return layout_->slots[number];
}

std::shared_ptr<const PeerBoard> PeerBoard::open(pid_t pid, int file, uint64_t token) {
  const std::string name = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(file);
  const int own = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (own < 0) return nullptr;
  const off_t bytes = ::lseek(own, 0, SEEK_END);
  void* const memory = bytes == static_cast<off_t>(sizeof(GateBoardLayout)) ? map_board(own, PROT_READ) : nullptr;
  ::close(own);
  if (memory == nullptr) return nullptr;
  std::shared_ptr<const PeerBoard> board(new PeerBoard(static_cast<const GateBoardLayout*>(memory)));
  return board->layout_->token == token ? board : nullptr;
}

PeerBoard::~PeerBoard() { ::munmap(const_cast<GateBoardLayout*>(layout_), sizeof(GateBoardLayout)); }

const GateSlot* PeerBoard::find_group(uint64_t id) const {
  const uint64_t count = layout_->count.load(std::memory_order_acquire);
  for (uint64_t number = 0; number < count; ++number)
    if (layout_->ids[number].load(std::memory_order_relaxed) == id) return layout_->slots[number];
  return nullptr;
}

}  // namespace megacpp::collectives
