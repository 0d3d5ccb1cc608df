// SPDX-License-Identifier: Apache-2.0
// NVIDIA's driver API, found and loaded at run time: one program serves machines with and without a GPU, and none of
// CUDA's headers is needed to build it. Each entry is called like a function and raises what the driver answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace megacpp::runtime::cuda {

using Address = uint64_t;  // of device memory: CUdeviceptr
using Result = int;        // CUresult; 0 is success
struct Stream;             // opaque: CUstream is Stream*, and so on
struct Event;
struct Context;
struct Module;
struct FunctionHandle;
struct Graph;
struct GraphExec;

/// One of CUlaunchAttribute: its value is a union of 64 bytes.
struct LaunchAttribute {
  int id;
  char padding[4];
  alignas(8) char value[64];
};

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  Stream* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

/// What driver.h's users tell apart; all other numbers are errors too.
inline constexpr Result kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100, kNotReady = 600, kPeerAccessEnabled = 704;

/// "CUDA_ERROR_OUT_OF_MEMORY (2)".
std::string result_text(Result result);

/// Whether the device is lost to this process: every later call answers the same.
bool is_sticky(Result result);

/// E2004 for memory, E3204 for a device that failed while running and for all other answers, with the call's name.
[[noreturn]] void raise_failed_call(std::string_view call, Result result);

template <typename... Arguments>
class Entry {
 public:
  Entry() = default;
  Entry(const char* symbol, void* function)
      : symbol_(symbol), function_(reinterpret_cast<Result (*)(Arguments...)>(function)) {}

  void operator()(Arguments... arguments) const {
    if (const Result result = function_(arguments...); result != kSuccess) raise_failed_call(symbol_, result);
  }
  /// The driver's answer, for calls that may fail.
  Result attempt(Arguments... arguments) const { return function_(arguments...); }

 private:
  const char* symbol_ = nullptr;
  Result (*function_)(Arguments...) = nullptr;
};

struct Driver {
  std::filesystem::path file;
  int version = 0;  // 13000: CUDA 13.0 is the newest it serves
#define MEGACPP_CUDA_ENTRY(name, symbol, ...) Entry<__VA_ARGS__> name;
#include "megacpp/machine/cuda/driver_list.inc"
#undef MEGACPP_CUDA_ENTRY
};

/// The oldest driver that serves the kernels of this build: those for Hopper are compiled by CUDA 12 or later.
inline constexpr int kOldestDriver = 12'000;

/// "13.0" of 13000.
std::string version_text(int version);

/// Loaded and initialised once for each file, for the life of the process. E1508 where there is no such library, it
/// finds no device, or it is too old.
const Driver& open_driver(const std::filesystem::path& file);

}  // namespace megacpp::runtime::cuda
