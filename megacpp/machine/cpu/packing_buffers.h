// SPDX-License-Identifier: Apache-2.0
// The buffers that OpenBLAS packs panels into, one for each call in flight. It maps them at the first call that finds
// none free, and where the system refuses it tries again for ever: with a limit on address space a run would hang in
// its first step. So they are mapped before, as many as threads will call at once, and what does not fit is an error.
#pragma once

namespace megacpp::runtime::cpu {

class PackingBuffers {
 public:
  /// For so many threads more, for as long as the object lives. E2005, with the limit, when the address space does not
  /// suffice. Mapped buffers stay with the process and serve later objects.
  explicit PackingBuffers(int threads);
  ~PackingBuffers();
  PackingBuffers(const PackingBuffers&) = delete;
  PackingBuffers& operator=(const PackingBuffers&) = delete;

 private:
  int threads_;
};

}  // namespace megacpp::runtime::cpu
