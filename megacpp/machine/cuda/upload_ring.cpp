// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/upload_ring.h"

#include <algorithm>

namespace megacpp::runtime::cuda {
namespace {

constexpr unsigned kWithoutTiming = 2;  // CU_EVENT_DISABLE_TIMING
constexpr size_t kLargestPiece = UploadRing::kBytes / 4;
constexpr size_t kLine = 64;  // bytes

}  // namespace

UploadRing::UploadRing(const Driver& driver) : driver_(driver), events_(kPieces), pieces_(kPieces) {
  void* memory = nullptr;
  driver_.mem_host_alloc(&memory, kBytes, 0);
  memory_ = static_cast<std::byte*>(memory);
  for (Event*& event : events_) driver_.event_create(&event, kWithoutTiming);
}

UploadRing::~UploadRing() {
  for (Event* const event : events_) driver_.event_destroy.attempt(event);
  driver_.mem_free_host.attempt(memory_);
}

void UploadRing::fill(const Target& target, const FillPiece& fill) {
  for (size_t done = 0; done < target.bytes;) {
    const size_t bytes = std::min(target.bytes - done, kLargestPiece), begin = claim(bytes);
    fill(done, {memory_ + begin, bytes});
    driver_.memcpy_to_device_async(target.to + done, memory_ + begin, bytes, target.stream);
    const size_t slot = (oldest_ + in_flight_) % kPieces;
    driver_.event_record(events_[slot], target.stream);
    pieces_[slot] = {begin, begin + bytes};
    ++in_flight_;
    head_ = begin + bytes;
    done += bytes;
  }
}

// Pieces begin at cache lines, and are not divided at the end of the ring.
size_t UploadRing::claim(size_t bytes) {
  const size_t next = (head_ + kLine - 1) / kLine * kLine, begin = next + bytes <= kBytes ? next : 0;
  while (in_flight_ == kPieces || is_in_use(begin, begin + bytes)) wait_for_oldest();
  return begin;
}

bool UploadRing::is_in_use(size_t begin, size_t end) const {
  for (size_t i = 0; i < in_flight_; ++i) {
    const Piece& piece = pieces_[(oldest_ + i) % kPieces];
    if (piece.begin < end && begin < piece.end) return true;
  }
  return false;
}

void UploadRing::wait_for_oldest() {
  driver_.event_synchronize(events_[oldest_]);
  oldest_ = (oldest_ + 1) % kPieces;
  --in_flight_;
}

}  // namespace megacpp::runtime::cuda
