// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "megacpp/core/base/error.h"
#include "megacpp/program/memory/out_of_memory.h"

namespace megacpp::runtime::cuda {
namespace {

struct KnownResult {
  Result result;
  std::string_view name;
  bool sticky = false;  // the context is lost
};
constexpr KnownResult kResults[] = {{1, "CUDA_ERROR_INVALID_VALUE"},
                                    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
                                    {3, "CUDA_ERROR_NOT_INITIALIZED"},
                                    {34, "CUDA_ERROR_STUB_LIBRARY"},
                                    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
                                    {kNoDevice, "CUDA_ERROR_NO_DEVICE"},
                                    {101, "CUDA_ERROR_INVALID_DEVICE"},
                                    {200, "CUDA_ERROR_INVALID_IMAGE"},
                                    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", true},
                                    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
                                    {220, "CUDA_ERROR_NVLINK_UNCORRECTABLE", true},
                                    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
                                    {226, "CUDA_ERROR_CONTAINED", true},
                                    {400, "CUDA_ERROR_INVALID_HANDLE"},
                                    {500, "CUDA_ERROR_NOT_FOUND"},
                                    {kNotReady, "CUDA_ERROR_NOT_READY"},
                                    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", true},
                                    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
                                    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", true},
                                    {kPeerAccessEnabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"},
                                    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", true},
                                    {710, "CUDA_ERROR_ASSERT", true},
                                    {711, "CUDA_ERROR_TOO_MANY_PEERS"},
                                    {714, "CUDA_ERROR_HARDWARE_STACK_ERROR", true},
                                    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", true},
                                    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", true},
                                    {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE", true},
                                    {718, "CUDA_ERROR_INVALID_PC", true},
                                    {719, "CUDA_ERROR_LAUNCH_FAILED", true},
                                    {802, "CUDA_ERROR_SYSTEM_NOT_READY"},
                                    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
                                    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"},
                                    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
                                    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
                                    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
                                    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
                                    {999, "CUDA_ERROR_UNKNOWN", true}};

const KnownResult* find_result(Result result) {
  const auto at = std::ranges::find(kResults, result, &KnownResult::result);
  return at == std::end(kResults) ? nullptr : at;
}

constexpr const char* kWanted = "a GPU of the Hopper generation with NVIDIA's driver for CUDA 12 or later";

[[noreturn]] void refuse(const std::filesystem::path& file, std::string got, std::string next) {
  base::raise(base::Code::E1508,
              {.where = file.string(), .got = std::move(got), .wanted = kWanted, .next = std::move(next)});
}

void* required_symbol(void* library, const std::filesystem::path& file, const char* name) {
  void* const function = ::dlsym(library, name);
  if (function == nullptr)
    refuse(file, fmt::format("no function {}: a driver before CUDA {}", name, version_text(kOldestDriver)),
           "install a newer driver");
  return function;
}

// Why cuInit() fails, by the answers that users can mend.
std::string advice_for(Result result) {
  switch (result) {
    case kNoDevice:
      return "see what nvidia-smi says and whether CUDA_VISIBLE_DEVICES hides the GPU; --backend cpu runs here";
    case 34:
      return "the library is the toolkit's stub: put the driver's own before it in LD_LIBRARY_PATH";
    case 803:
      return "the kernel's driver and the library are of different versions: reboot, or load the module again";
    default:
      return "see what nvidia-smi says, and the kernel's log; --backend cpu runs here";
  }
}

// What to do about a call that fails once the driver is here.
std::string advice_after(Result result) {
  if (is_sticky(result))
    return "the GPU is lost to this process: resume from the last checkpoint; the kernel's log (dmesg, lines with Xid) "
           "says why, and megacpp train --check-nans finds the node";
  switch (result) {
    case 46:
      return "another program has the GPU for itself: end it (nvidia-smi), or choose another GPU with "
             "CUDA_VISIBLE_DEVICES";
    case 200:
    case 209:
    case 222:
      return "the driver does not take this device code, which a newer toolkit or another NVRTC made: update the "
             "driver; docs/cuda.md has the versions that serve";
    default:
      return "megacpp doctor --only gpus says what is here; docs/cuda.md has the versions that serve";
  }
}

Driver load_driver(const std::filesystem::path& file) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    refuse(file, std::string("cannot be loaded: ") + ::dlerror(),
           "run where NVIDIA's driver is installed, or mount its libraries into the container; --backend cpu runs "
           "here");
  Driver driver;
  driver.file = file;
#define MEGACPP_CUDA_ENTRY(name, symbol, ...) \
  driver.name = Entry<__VA_ARGS__>(#symbol, required_symbol(library, file, #symbol));
#include "megacpp/machine/cuda/driver_list.inc"
#undef MEGACPP_CUDA_ENTRY
  if (const Result result = driver.init.attempt(0); result != kSuccess)
    refuse(file, "cuInit: " + result_text(result), advice_for(result));
  driver.driver_get_version(&driver.version);
  if (driver.version < kOldestDriver)
    refuse(file, fmt::format("a driver for CUDA {}", version_text(driver.version)),
           fmt::format("install one for CUDA {} or later", version_text(kOldestDriver)));
  int devices = 0;
  driver.device_get_count(&devices);
  if (devices == 0) refuse(file, "the driver shows no device", advice_for(kNoDevice));
  return driver;
}

}  // namespace

std::string result_text(Result result) {
  const KnownResult* const known = find_result(result);
  return fmt::format("{} ({})", known == nullptr ? "CUDA error" : known->name, result);
}

bool is_sticky(Result result) {
  const KnownResult* const known = find_result(result);
  return known != nullptr && known->sticky;
}

void raise_failed_call(std::string_view call, Result result) {
  const std::string where(call), got = result_text(result);
  if (result == kOutOfMemory)
    throw memory::OutOfMemory(base::Code::E2004,
                              {.where = where,
                               .got = got,
                               .wanted = "memory for what the driver keeps beside the planned bytes",
                               .next = "end other programs on the GPU (nvidia-smi), or set hardware.limit lower"},
                              {.cls = memory::OomClass::runtime, .phase = "driver", .text = got});
  base::raise(base::Code::E3204, {.where = where,
                                  .got = got,
                                  .wanted = is_sticky(result) ? "a GPU that goes on" : "a call that succeeds",
                                  .next = advice_after(result)});
}

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

const Driver& open_driver(const std::filesystem::path& file) {
  static std::mutex mutex;
  static std::map<std::filesystem::path, Driver> drivers;
  const std::scoped_lock lock(mutex);
  const auto at = drivers.find(file);
  return at != drivers.end() ? at->second : drivers.emplace(file, load_driver(file)).first->second;
}

}  // namespace megacpp::runtime::cuda
