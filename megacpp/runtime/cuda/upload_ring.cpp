// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/upload_ring.h"

#include <algorithm>
#include <cstring>

namespace megacpp::runtime::cuda {
namespace {

constexpr unsigned kWithoutTiming = 2;  // CU_EVENT_DISABLE_TIMING
constexpr size_t kLargestPiece = UploadRing::kBytes / 4;

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

void UploadRing::upload(Address to, std::span<const std::byte> from, Stream* stream) {
  while (!from.empty()) {
    const size_t bytes = std::min(from.size(), kLargestPiece);
    const size_t begin = claim(bytes);
    std::memcpy(memory_ + begin, from.data(), bytes);
    driver_.memcpy_to_device_async(to, memory_ + begin, bytes, stream);
    const size_t slot = (oldest_ + in_flight_) % kPieces;
    driver_.event_record(events_[slot], stream);
    pieces_[slot] = {begin, begin + bytes};
    ++in_flight_;
    head_ = begin + bytes;
    to += bytes;
    from = from.subspan(bytes);
  }
}

// Pieces are not divided at the end of the ring.
size_t UploadRing::claim(size_t bytes) {
  const size_t begin = head_ + bytes <= kBytes ? head_ : 0;
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
