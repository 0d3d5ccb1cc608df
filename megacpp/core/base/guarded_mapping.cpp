// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/guarded_mapping.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <utility>

namespace megacpp::base {

/// What the handler knows of a mapping. It may look at any slot at any time, so slots are used again and never freed.
struct MappingSlot {
  std::atomic<uint64_t> version = 0;  // odd while the next three change
  std::atomic<uintptr_t> begin = 0, end = 0;
  std::atomic<int> protection = 0;
  std::atomic<uint32_t> damages = 0;
  MappingSlot* next = nullptr;  // never changes once the slot can be found
  bool is_free = true;          // under the lock of free slots, which the handler does not take
};

namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uintptr_t>::is_always_lock_free &&
                  std::atomic<MappingSlot*>::is_always_lock_free,
              "a signal handler may not wait for a lock");

std::atomic<MappingSlot*> first_slot = nullptr;
std::mutex slots_mutex;  // of is_free, and of adding slots
uintptr_t page_bytes = 0;
struct sigaction action_before = {};

void set_range(MappingSlot& slot, uintptr_t begin, uintptr_t end, int protection) {
  slot.version.fetch_add(1, std::memory_order_acq_rel);
  slot.begin.store(begin, std::memory_order_release);
  slot.end.store(end, std::memory_order_release);
  slot.protection.store(protection, std::memory_order_release);
  slot.version.fetch_add(1, std::memory_order_acq_rel);
}

/// Puts zeros in the place of the page that holds the address and of all behind it, where a mapping has it. Called by
/// the handler. A slot whose range changes meanwhile is passed over: that of a mapping that is being read does not.
bool replace_pages_from(uintptr_t address) {
  for (MappingSlot* slot = first_slot.load(std::memory_order_acquire); slot != nullptr; slot = slot->next) {
    const uint64_t version = slot->version.load(std::memory_order_acquire);
    const uintptr_t begin = slot->begin.load(std::memory_order_acquire),
                    end = slot->end.load(std::memory_order_acquire);
    const int protection = slot->protection.load(std::memory_order_acquire);
    const bool has_changed = version % 2 != 0 || slot->version.load(std::memory_order_acquire) != version;
    if (has_changed || address < begin || address >= end) continue;
    slot->damages.fetch_add(1, std::memory_order_acq_rel);  // before another thread can read the zeros
    const uintptr_t page = address / page_bytes * page_bytes;
    // The system call itself: the library's function may be a sanitizer's, which is not for signal handlers.
    return ::syscall(SYS_mmap, page, end - page, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
                     -1, 0) == static_cast<long>(page);
  }
  return false;
}

/// What happens without a handler: the instruction is tried again, or the signal sent, and ends the process.
void end_by(int signal, const siginfo_t& info) {
  struct sigaction none = {};
  none.sa_handler = SIG_DFL;
  ::sigaction(signal, &none, nullptr);
  if (info.si_code <= 0) ::raise(signal);
}

// Calls only what is safe in a signal handler. A signal that a process sent has no address (si_code <= 0).
void handle_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool is_replaced = info->si_code > 0 && replace_pages_from(reinterpret_cast<uintptr_t>(info->si_addr));
  errno = error;
  if (is_replaced) return;
  if ((action_before.sa_flags & SA_SIGINFO) != 0) return action_before.sa_sigaction(signal, info, context);
  if (action_before.sa_handler == SIG_DFL) return end_by(signal, *info);
  if (action_before.sa_handler != SIG_IGN) return action_before.sa_handler(signal);
  if (info->si_code > 0) end_by(signal, *info);  // the system does not let a process ignore these
}

bool install_handler() {
  page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  ::sigaction(SIGBUS, nullptr, &action_before);
  struct sigaction action = {};
  action.sa_sigaction = handle_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  return ::sigaction(SIGBUS, &action, nullptr) == 0;
}

MappingSlot& take_slot() {
  const std::lock_guard lock(slots_mutex);
  static const bool is_handled = install_handler();
  static_cast<void>(is_handled);
  for (MappingSlot* slot = first_slot.load(); slot != nullptr; slot = slot->next)
    if (std::exchange(slot->is_free, false)) return *slot;
  auto* const slot = new MappingSlot;
  slot->is_free = false;
  slot->next = first_slot.load();
  first_slot.store(slot);
  return *slot;
}

void give_back(MappingSlot& slot) {
  set_range(slot, 0, 0, 0);
  slot.damages.store(0, std::memory_order_release);
  const std::lock_guard lock(slots_mutex);
  slot.is_free = true;
}

}  // namespace

GuardedMapping::GuardedMapping(int file, size_t bytes, int protection, int flags) {
  MappingSlot& slot = take_slot();
  void* const data = ::mmap(nullptr, bytes, protection, flags, file, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    give_back(slot);
    errno = error;
    return;
  }
  const auto begin = reinterpret_cast<uintptr_t>(data);
  set_range(slot, begin, begin + bytes, protection);
  bytes_ = {static_cast<std::byte*>(data), bytes};
  slot_ = &slot;
}

GuardedMapping::~GuardedMapping() {
  if (slot_ == nullptr) return;
  give_back(*slot_);
  ::munmap(bytes_.data(), bytes_.size());
}

GuardedMapping::GuardedMapping(GuardedMapping&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), slot_(std::exchange(other.slot_, nullptr)) {}

GuardedMapping& GuardedMapping::operator=(GuardedMapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(slot_, other.slot_);
  return *this;
}

// A change of the number and not only a look at it: reads before it are over then, on every processor.
bool GuardedMapping::is_damaged() const {
  return slot_ != nullptr && slot_->damages.fetch_add(0, std::memory_order_acq_rel) != 0;
}

}  // namespace megacpp::base
