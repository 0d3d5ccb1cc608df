// SPDX-License-Identifier: Apache-2.0
// What one GPU offers to kernels when they are prepared: functions of embedded and of generated device code, libraries,
// and facts about the device. Shared by all virtual chips of the GPU; it outlives what is prepared with it. Called at
// load only, by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/machine/cuda/driver.h"
#include "megacpp/machine/cuda/function.h"
#include "megacpp/machine/cuda/library.h"

namespace megacpp::runtime::cuda {

class CublasLt;  // cublaslt.h
class Nvrtc;     // nvrtc.h

struct DeviceProperties {
  std::string name = {};  // "NVIDIA H200"
  std::string uuid = {};  // 32 hexadecimal digits: no other GPU has them
  int capability = 0;     // 90: sm_90
  int multiprocessors = 0;
  int64_t shared_bytes_per_block = 0;  // that a kernel may ask for, static and dynamic together
  int64_t l2_bytes = 0;
  int64_t memory_bytes = 0;

  /// "sm_90a": what device code is compiled for.
  std::string architecture() const { return "sm_" + std::to_string(capability) + "a"; }
};

/// Device memory for a search at load, given back when it goes.
class Borrowed {
 public:
  Borrowed(const Driver& driver, Address address) : driver_(&driver), address_(address) {}
  ~Borrowed();
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Address address() const { return address_; }

 private:
  const Driver* driver_;
  Address address_;
};

/// What the start of a run says of where its time went.
struct LoadSeconds {
  double code = 0;      // generated: compiled, or read from disk, and loaded
  double products = 0;  // their library and their algorithms
};

/// Device code by the name of its file: embedded in this build, or a test's own. Empty: there is none of that name.
using FindCubin = std::function<std::span<const std::byte>(std::string_view name)>;

class Toolbox {
 public:
  struct Options {
    DeviceProperties properties = {};
    LibrarySearch libraries = {};
    FindCubin find_cubin = {};
  };
  /// The context of the GPU is current on the thread that makes, uses and destroys it. `driver` outlives it.
  Toolbox(const Driver& driver, Options options);
  ~Toolbox();
  Toolbox(const Toolbox&) = delete;
  Toolbox& operator=(const Toolbox&) = delete;

  /// Of an embedded cubin. E1505 when this build has none of that name.
  Function function(std::string_view cubin, std::string_view name);
  /// Of source text, by NVRTC. The same text is compiled once.
  Function generated(const std::string& source, std::string_view name);
  /// Those of the texts that are not there yet are compiled, or read from disk, on all cores: generated() has them
  /// then.
  void generate(std::span<const std::string> sources);
  /// Null where nothing needed it.
  const Nvrtc* loaded_compiler() const { return compiler_.get(); }
  /// Loaded at the first call.
  CublasLt& products();
  /// Null where nothing needed it.
  const CublasLt* loaded_products() const { return products_.get(); }
  /// E1509 where it is not here.
  Library library(LibraryKind kind) const { return open_library(kind, options_.libraries); }

  LoadSeconds& load_seconds() { return load_seconds_; }
  const DeviceProperties& properties() const { return options_.properties; }
  /// For copies and fills of a kernel: driver().memset_bytes_async(...), on its launch's stream.
  const Driver& driver() const { return driver_; }

  // ---- For searches that run something at load
  /// Nothing where the device has not so much left.
  std::unique_ptr<Borrowed> borrow(int64_t bytes) const;
  /// A stream of its own, idle when load ends.
  Stream* stream() const { return stream_; }
  /// Of what `work` enqueues on stream(), by events; waits for it.
  double seconds_of(const std::function<void(Stream*)>& work) const;

 private:
  Function function_of(Module* module, std::string_view name) const;
  Module* load_module(const void* image);
  Nvrtc& compiler();

  const Driver& driver_;
  Options options_;
  Stream* stream_ = nullptr;
  std::map<std::string, Module*> modules_;  // by cubin name or by source text
  std::unique_ptr<Nvrtc> compiler_;
  std::unique_ptr<CublasLt> products_;
  LoadSeconds load_seconds_;
};

}  // namespace megacpp::runtime::cuda
