// SPDX-License-Identifier: Apache-2.0
// Pinned memory of the host through which bytes reach the device behind what is already enqueued. Who has them writes
// them there, piece by piece, and goes on at once: the device fetches a piece while the next ones are written. The host
// waits only where the ring is full of bytes that the device has not fetched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "megacpp/machine/cuda/driver.h"
#include "megacpp/machine/runtime/fill_piece.h"

namespace megacpp::runtime::cuda {

class UploadRing {
 public:
  static constexpr size_t kBytes = size_t{32} << 20;  // dozens of steps' batches
  static constexpr size_t kPieces = 512;              // in flight

  /// The context is current whenever it is used. `driver` outlives it.
  explicit UploadRing(const Driver& driver);
  ~UploadRing();
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;

  struct Target {
    Address to = 0;
    size_t bytes = 0;  // any number
    Stream* stream = nullptr;
  };
  /// What `fill` writes, in the order of the stream. Allocates nothing.
  void fill(const Target& target, const FillPiece& fill);

 private:
  struct Piece {
    size_t begin;
    size_t end;
  };
  size_t claim(size_t bytes);
  bool is_in_use(size_t begin, size_t end) const;
  void wait_for_oldest();

  const Driver& driver_;
  std::byte* memory_ = nullptr;
  size_t head_ = 0;             // where the next piece begins
  std::vector<Event*> events_;  // as many as pieces
  std::vector<Piece> pieces_;   // in flight: a ring of kPieces, so that nothing is allocated while steps run
  size_t oldest_ = 0;
  size_t in_flight_ = 0;
};

}  // namespace megacpp::runtime::cuda
