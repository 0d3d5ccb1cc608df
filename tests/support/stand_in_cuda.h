// SPDX-License-Identifier: Apache-2.0
// What the libraries that stand in for NVIDIA's show to tests: every launch, copy and fill with the device memory it
// was handed, what is allocated, and what no caller may do. Device memory is memory of the host; kernels and products
// do nothing. Every device has memory, a context, streams, events and code of its own. A folder holds libcuda.so.1,
// libcublasLt.so.13 and libnvrtc.so.13: a copy of it is another machine, with a state of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace megacpp::stand_in_cuda {

enum class Kind { kernel, product, copy, fill, upload, download };

/// Device memory that an operation was handed. A kernel's parameters say where, not how much: 0 bytes.
struct Range {
  uint64_t address;
  size_t bytes;
};

struct Operation {
  Kind kind;
  std::string name;  // of a kernel
  std::vector<Range> ranges = {};
  std::vector<size_t> entries = {};  // of a kernel's table: how many of the ranges each has; empty: there is none
  bool replayed = false;             // as part of a graph
  int device = 0;                    // whose stream it was enqueued on
  Range host = {};                   // of an upload or a download: memory of the host
};

inline constexpr int kMaxDevices = 8;

struct Machine {
  // Set by tests; the first two before the driver is opened.
  int driver_version = 13000;
  int devices = 1;                        // at most kMaxDevices
  std::map<int, std::string> names;       // of devices that are no "NVIDIA H200"
  bool has_peers = true;                  // each device may be let to access memory of the others
  std::map<int, int> capabilities;        // of devices that are not of 9.0: 80
  size_t memory_bytes = size_t{4} << 30;  // of each
  size_t taken_bytes = 0;                 // of these, by other programs
  bool is_loaded = false;                 // nothing may be allocated or created any more
  /// What a call answers instead of doing anything, by symbol; by "cuLaunchKernelEx@1" while device 1 is current.
  std::map<std::string, int> answers;

  // What happened.
  std::map<uint64_t, size_t> allocated;  // bytes by address
  std::map<uint64_t, int> places;        // the same: on which device
  std::vector<Operation> operations;     // in the order in which they ran
  std::vector<std::string> breaches;     // a sentence each
  int graphs = 0;                        // made
  int graph_launches = 0;
  int waits = 0;  // of the host, and questions whether it must wait
};

/// The source that libnvrtc.so.13 does not compile.
inline constexpr const char* kRefusedSource = "refused";
/// Exported by it as megacpp_stand_in_compiles: how often, by source. Asked when no thread compiles.
using GetCompiles = std::map<std::string, int>*();

/// Exported by libcublasLt.so.13 as megacpp_stand_in_products.
struct Products {
  uint64_t word = 0;              // the first of the algorithm that it proposes
  uint64_t refused = UINT64_MAX;  // the first of one that it does not take
};
using GetProducts = Products*();

/// Exported by libcuda.so.1 as megacpp_stand_in_machine.
using GetMachine = Machine*();
/// Exported as megacpp_stand_in_enqueue, for the other libraries: on a stream, which may be captured.
using Enqueue = void(void* stream, const Operation& operation);
/// Exported as megacpp_stand_in_current_device: -1 where the thread has no context.
using GetCurrentDevice = int();
/// Exported as megacpp_stand_in_require_current: a breach where another device is.
using RequireCurrent = void(const char* what, int device);

}  // namespace megacpp::stand_in_cuda
