// SPDX-License-Identifier: Apache-2.0
// The driver's library where there is none: see stand_in_cuda.h.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "megacpp/machine/cuda/driver.h"
#include "tests/support/stand_in_cuda.h"

namespace {

using namespace megacpp::stand_in_cuda;
using megacpp::runtime::cuda::LaunchConfig;

constexpr int kInvalidValue = 1, kNoMemory = 2, kInvalidContext = 201, kNoPeerAccess = 217, kInvalidHandle = 400,
              kPeerAccessEnabled = 704, kUnjoined = 904, kIsolation = 905;
constexpr size_t kAlign = 256;

struct Step {
  Operation operation;
  std::function<void()> effect;  // on memory; may be empty
};
struct StreamState;
/// Which steps of a capture come before what is enqueued next, by index.
using Before = std::vector<bool>;
struct Captured {
  std::vector<Step> steps = {};
  std::vector<Before> before = {};         // by step
  int number = 0;                          // of this capture, from 1
  std::vector<StreamState*> streams = {};  // that take part, the origin first
};
struct StreamState {
  int device = 0;
  Captured* captured = nullptr;
  Before before = {};
};
struct EventState {
  int device = 0;
  double seconds = 0;
  int capture = 0;  // that it was recorded in; 0: none
  Before before = {};
};
struct FunctionState {
  std::string name;
  int device = 0;
};
struct ModuleState {
  int device = 0;
  std::vector<std::unique_ptr<FunctionState>> functions = {};
};
struct ContextState {
  std::set<const void*> peers = {};  // contexts whose memory it may access
};

std::recursive_mutex mutex;
Machine machine;
double clock_seconds = 0;
int captures = 0;                        // begun
std::map<int, Captured*> open_captures;  // by number
ContextState contexts[kMaxDevices];      // primary, by device
thread_local void* current_context = nullptr;

/// At addresses of their own: what kernels are handed is searched for pointers, and two numbers side by side, or a
/// number beside a padding with what is left of a pointer, must not pass for one. The lower half is no number that they
/// have.
void* map_device_memory(size_t bytes) {
  constexpr uint64_t kFirst = 0x5a3c90000000, kLast = 0x6a3c90000000, kApart = uint64_t{1} << 32;
  for (uint64_t at = kFirst; at < kLast; at += kApart) {
    void* const memory = mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory != MAP_FAILED) return memory;
  }
  return nullptr;
}

void breach(const std::string& what) { machine.breaches.push_back(what); }

/// -1: there is none.
int current_device() {
  if (current_context == nullptr) return -1;
  return static_cast<int>(static_cast<ContextState*>(current_context) - contexts);
}

/// What runs on a stream, and the code of it, is of the device whose context is current.
bool require_current(const std::string& what, int device) {
  if (device == current_device()) return true;
  breach(what + " of device " + std::to_string(device) + " while the context of another is current");
  return false;
}

size_t used_bytes(int device) {
  size_t used = machine.taken_bytes;
  for (const auto& [address, bytes] : machine.allocated)
    if (machine.places.at(address) == device) used += bytes;
  return used;
}

/// Whether the call may go on; else what it answers is in `result`.
bool may_call(const char* symbol, int& result, bool needs_context = true) {
  for (const std::string& asked : {std::string(symbol), symbol + ("@" + std::to_string(current_device()))}) {
    const auto at = machine.answers.find(asked);
    if (at == machine.answers.end()) continue;
    result = at->second;
    return false;
  }
  if (needs_context && current_context == nullptr) {
    breach(std::string(symbol) + " on a thread without a context");
    result = kInvalidContext;
    return false;
  }
  return true;
}

bool may_create(const char* symbol, int& result) {
  if (!may_call(symbol, result)) return false;
  if (machine.is_loaded) breach(std::string(symbol) + " after load");
  return true;
}

/// On which device it is; -1: it is memory of none.
int device_of(uint64_t address, size_t bytes) {
  auto at = machine.allocated.upper_bound(address);
  if (at == machine.allocated.begin()) return -1;
  --at;
  return address + bytes <= at->first + at->second ? machine.places.at(at->first) : -1;
}

bool is_device_memory(uint64_t address, size_t bytes) { return device_of(address, bytes) >= 0; }

/// Memory of other devices needs access, which is of each direction alone.
void check_access(const Operation& operation) {
  for (const Range& range : operation.ranges) {
    const int owner = device_of(range.address, range.bytes);
    if (owner < 0 || owner == operation.device) continue;
    if (!contexts[operation.device].peers.contains(&contexts[owner]))
      breach("device " + std::to_string(operation.device) + " touches memory of device " + std::to_string(owner) +
             " without access");
  }
}

bool require_device_memory(const char* symbol, uint64_t address, size_t bytes) {
  if (is_device_memory(address, bytes)) return true;
  breach(std::string(symbol) + " of memory that is not the device's");
  return false;
}

void run(Step step, bool replayed) {
  if (step.effect) step.effect();
  step.operation.replayed = replayed;
  machine.operations.push_back(std::move(step.operation));
  clock_seconds += 1e-6;
}

void enqueue(void* stream, Step step) {
  auto* const state = static_cast<StreamState*>(stream);
  step.operation.device = state == nullptr ? std::max(current_device(), 0) : state->device;
  require_current("work on a stream", step.operation.device);
  check_access(step.operation);
  if (state == nullptr || state->captured == nullptr) return run(std::move(step), false);
  state->captured->steps.push_back(std::move(step));
  state->captured->before.push_back(state->before);
  state->before.resize(state->captured->steps.size());
  state->before.back() = true;
}

void take_part(StreamState& stream, Captured& captured) {
  stream.captured = &captured;
  captured.streams.push_back(&stream);
}

void add_before(Before& before, const Before& more) {
  before.resize(std::max(before.size(), more.size()));
  for (size_t i = 0; i < more.size(); ++i)
    if (more[i]) before[i] = true;
}

/// Whether all that was captured comes before the end of the origin.
bool is_joined(const Captured& captured) {
  const Before& before = captured.streams.front()->before;
  return std::count(before.begin(), before.end(), true) == static_cast<std::ptrdiff_t>(captured.steps.size());
}

bool overlaps(const Range& copied, const Range& other) {
  return other.address < copied.address + copied.bytes &&
         copied.address < other.address + std::max<size_t>(other.bytes, 1);
}

/// Copies from and to the host run beside kernels and each other: what else touches their device memory, or that of the
/// host where either writes it, must come before or behind.
void check_copies_are_ordered(const Captured& captured) {
  for (size_t c = 0; c < captured.steps.size(); ++c) {
    const Operation& copy = captured.steps[c].operation;
    if (copy.kind != Kind::upload && copy.kind != Kind::download) continue;
    for (size_t s = 0; s < captured.steps.size(); ++s) {
      const Operation& other = captured.steps[s].operation;
      const size_t first = std::min(c, s), last = std::max(c, s);
      if (c == s || (first < captured.before[last].size() && captured.before[last][first])) continue;
      for (const Range& range : other.ranges)
        if (overlaps(copy.ranges[0], range)) breach("a copy of device memory that something else touches meanwhile");
      if (copy.kind == Kind::download && other.host.bytes > 0 && overlaps(copy.host, other.host))
        breach("a copy to memory of the host that another touches meanwhile");
    }
  }
}

/// Words of a kernel's parameters that are addresses of the device.
std::vector<Range> pointers_in(const void* parameters, size_t bytes) {
  std::vector<Range> found;
  for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, static_cast<const char*>(parameters) + at, sizeof word);
    if (is_device_memory(word, 1)) found.push_back({word, 0});
  }
  return found;
}

/// A kernel of this name is handed a table: how many entries there are, how many words each has, then the entries.
bool has_table(const std::string& name) { return name.ends_with("_batch"); }

Operation launch_of_table(const std::string& name, const void* parameters, size_t bytes) {
  Operation launched{.kind = Kind::kernel, .name = name};
  uint32_t counts[2] = {};
  std::memcpy(counts, parameters, sizeof counts);
  const size_t entry_bytes = counts[1] * sizeof(uint64_t);
  if (counts[0] == 0 || sizeof counts + counts[0] * entry_bytes > bytes) breach(name + " with a table of no such size");
  for (size_t at = sizeof counts; launched.entries.size() < counts[0] && at + entry_bytes <= bytes; at += entry_bytes) {
    const std::vector<Range> own = pointers_in(static_cast<const char*>(parameters) + at, entry_bytes);
    launched.entries.push_back(own.size());
    launched.ranges.insert(launched.ranges.end(), own.begin(), own.end());
  }
  return launched;
}

}  // namespace

#define LOCKED const std::scoped_lock lock(mutex)
#define CALL(symbol, ...) \
  LOCKED;                 \
  if (int answer = 0; !may_call(#symbol, answer, ##__VA_ARGS__)) return answer
#define CREATE(symbol) \
  LOCKED;              \
  if (int answer = 0; !may_create(#symbol, answer)) return answer

extern "C" {

Machine* megacpp_stand_in_machine() { return &machine; }
void megacpp_stand_in_enqueue(void* stream, const Operation& operation) {
  LOCKED;
  enqueue(stream, {operation, {}});
}

int megacpp_stand_in_current_device() { return current_device(); }
void megacpp_stand_in_require_current(const char* what, int device) {
  LOCKED;
  require_current(what, device);
}

int cuInit(unsigned) {
  CALL(cuInit, false);
  return machine.devices > 0 ? 0 : 100;
}
int cuDriverGetVersion(int* version) {
  CALL(cuDriverGetVersion, false);
  *version = machine.driver_version;
  return 0;
}
int cuDeviceGetCount(int* count) {
  CALL(cuDeviceGetCount, false);
  *count = machine.devices;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  CALL(cuDeviceGet, false);
  *device = ordinal;
  return ordinal < machine.devices ? 0 : 101;
}
int cuDeviceGetName(char* name, int length, int device) {
  CALL(cuDeviceGetName, false);
  const auto other = machine.names.find(device);
  std::snprintf(name, static_cast<size_t>(length), "%s",
                other == machine.names.end() ? "NVIDIA H200" : other->second.c_str());
  return 0;
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  CALL(cuDeviceGetUuid_v2, false);
  std::memset(uuid, device + 1, 16);
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  CALL(cuDeviceGetAttribute, false);
  const auto other = machine.capabilities.find(device);
  const int capability = other == machine.capabilities.end() ? 90 : other->second;
  switch (attribute) {
    case 16:
      *value = 132;
      return 0;
    case 38:
      *value = 50 << 20;
      return 0;
    case 75:
      *value = capability / 10;
      return 0;
    case 76:
      *value = capability % 10;
      return 0;
    case 97:
      *value = 227 << 10;
      return 0;
    default:
      return kInvalidValue;
  }
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  CALL(cuDeviceTotalMem_v2, false);
  *bytes = machine.memory_bytes;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  CALL(cuDevicePrimaryCtxRetain, false);
  *context = &contexts[device];
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) {
  CALL(cuDevicePrimaryCtxRelease_v2, false);
  return 0;
}
int cuCtxSetCurrent(void* context) {
  CALL(cuCtxSetCurrent, false);
  current_context = context;
  return 0;
}
int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  CALL(cuDeviceCanAccessPeer, false);
  *can = machine.has_peers && device != peer ? 1 : 0;
  return 0;
}
int cuCtxEnablePeerAccess(void* peer, unsigned flags) {
  CALL(cuCtxEnablePeerAccess);
  if (flags != 0 || peer == current_context) return kInvalidValue;
  if (!machine.has_peers) return kNoPeerAccess;
  return static_cast<ContextState*>(current_context)->peers.insert(peer).second ? 0 : kPeerAccessEnabled;
}

int cuMemGetInfo_v2(size_t* free, size_t* total) {
  CALL(cuMemGetInfo_v2);
  *total = machine.memory_bytes;
  *free = machine.memory_bytes - std::min(used_bytes(current_device()), machine.memory_bytes);
  return 0;
}
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  CREATE(cuMemAlloc_v2);
  if (bytes == 0) return kInvalidValue;
  if (used_bytes(current_device()) + bytes > machine.memory_bytes) return kNoMemory;
  void* const memory = map_device_memory(bytes);
  if (memory == nullptr) return kNoMemory;
  std::memset(memory, 0xFF, bytes);
  *address = reinterpret_cast<uint64_t>(memory);
  machine.allocated[*address] = bytes;
  machine.places[*address] = current_device();
  return 0;
}
int cuMemFree_v2(uint64_t address) {
  CALL(cuMemFree_v2);
  const auto allocated = machine.allocated.find(address);
  if (allocated == machine.allocated.end()) {
    breach("cuMemFree_v2 of memory that was not allocated");
    return kInvalidValue;
  }
  munmap(reinterpret_cast<void*>(address), allocated->second);
  machine.allocated.erase(allocated);
  machine.places.erase(address);
  return 0;
}
int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  CREATE(cuMemHostAlloc);
  *memory = std::aligned_alloc(kAlign, (bytes + kAlign - 1) / kAlign * kAlign);
  return *memory == nullptr ? kNoMemory : 0;
}
int cuMemFreeHost(void* memory) {
  CALL(cuMemFreeHost);
  std::free(memory);
  return 0;
}
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  CALL(cuMemcpyAsync);
  if (!require_device_memory("cuMemcpyAsync", to, bytes) || !require_device_memory("cuMemcpyAsync", from, bytes))
    return kInvalidValue;
  enqueue(stream, {{.kind = Kind::copy, .name = "", .ranges = {{to, bytes}, {from, bytes}}},
                   [=] { std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); }});
  return 0;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  CALL(cuMemcpyHtoDAsync_v2);
  if (!require_device_memory("cuMemcpyHtoDAsync_v2", to, bytes)) return kInvalidValue;
  const Range host{reinterpret_cast<uint64_t>(from), bytes};
  enqueue(stream, {{.kind = Kind::upload, .name = "", .ranges = {{to, bytes}}, .host = host},
                   [=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); }});
  return 0;
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  CALL(cuMemcpyDtoHAsync_v2);
  if (!require_device_memory("cuMemcpyDtoHAsync_v2", from, bytes)) return kInvalidValue;
  const Range host{reinterpret_cast<uint64_t>(to), bytes};
  enqueue(stream, {{.kind = Kind::download, .name = "", .ranges = {{from, bytes}}, .host = host},
                   [=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); }});
  return 0;
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void* stream) {
  CALL(cuMemsetD8Async);
  if (!require_device_memory("cuMemsetD8Async", to, bytes)) return kInvalidValue;
  enqueue(stream, {{.kind = Kind::fill, .name = "", .ranges = {{to, bytes}}},
                   [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); }});
  return 0;
}
int cuMemsetD32Async(uint64_t to, unsigned value, size_t count, void* stream) {
  CALL(cuMemsetD32Async);
  if (!require_device_memory("cuMemsetD32Async", to, count * sizeof value)) return kInvalidValue;
  enqueue(stream, {{.kind = Kind::fill, .name = "", .ranges = {{to, count * sizeof value}}},
                   [=] { std::fill_n(reinterpret_cast<unsigned*>(to), count, value); }});
  return 0;
}

int cuStreamCreate(void** stream, unsigned) {
  CREATE(cuStreamCreate);
  *stream = new StreamState{.device = current_device()};
  return 0;
}
int cuStreamDestroy_v2(void* stream) {
  CALL(cuStreamDestroy_v2);
  delete static_cast<StreamState*>(stream);
  return 0;
}
int cuStreamSynchronize(void*) {
  CALL(cuStreamSynchronize);
  ++machine.waits;
  return 0;
}
int cuStreamQuery(void*) {
  CALL(cuStreamQuery);
  ++machine.waits;
  return 0;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  CALL(cuStreamWaitEvent);
  auto& waiting = *static_cast<StreamState*>(stream);
  const auto& awaited = *static_cast<EventState*>(event);
  if (awaited.capture == 0) {
    if (waiting.captured == nullptr) return 0;
    breach("a captured stream waits for what is not captured");
    return kIsolation;
  }
  const auto open = open_captures.find(awaited.capture);
  if (open == open_captures.end()) {
    breach("a stream waits for an event of a capture that has ended");
    return kIsolation;
  }
  if (waiting.captured == nullptr) take_part(waiting, *open->second);
  add_before(waiting.before, awaited.before);
  return 0;
}
int cuStreamBeginCapture_v2(void* stream, int) {
  CALL(cuStreamBeginCapture_v2);
  auto& origin = *static_cast<StreamState*>(stream);
  if (origin.captured != nullptr || !require_current("a capture", origin.device)) return kInvalidHandle;
  auto* const captured = new Captured{.number = ++captures};
  open_captures[captured->number] = captured;
  take_part(origin, *captured);
  return 0;
}
int cuStreamEndCapture(void* stream, void** graph) {
  CALL(cuStreamEndCapture);
  Captured* const captured = static_cast<StreamState*>(stream)->captured;
  *graph = nullptr;
  if (captured == nullptr) return kInvalidHandle;
  const bool is_whole = captured->streams.front() == stream && is_joined(*captured);
  for (StreamState* const each : captured->streams) *each = {.device = each->device};
  open_captures.erase(captured->number);
  captured->streams.clear();
  if (is_whole) {
    check_copies_are_ordered(*captured);
    *graph = captured;
    return 0;
  }
  delete captured;
  return kUnjoined;
}

int cuEventCreate(void** event, unsigned) {
  CREATE(cuEventCreate);
  *event = new EventState{.device = current_device()};
  return 0;
}
int cuEventDestroy_v2(void* event) {
  CALL(cuEventDestroy_v2);
  delete static_cast<EventState*>(event);
  return 0;
}
int cuEventRecord(void* event, void* stream) {
  CALL(cuEventRecord);
  auto& recorded = *static_cast<EventState*>(event);
  const auto* const state = static_cast<StreamState*>(stream);
  if (state != nullptr && state->device != recorded.device) {
    breach("an event is recorded on a stream of another device");
    return kInvalidHandle;
  }
  recorded = {.device = recorded.device, .seconds = clock_seconds};
  if (state == nullptr || state->captured == nullptr) return 0;
  recorded.capture = state->captured->number;
  recorded.before = state->before;
  return 0;
}
int cuEventSynchronize(void*) {
  CALL(cuEventSynchronize);
  ++machine.waits;
  return 0;
}
int cuEventQuery(void*) {
  CALL(cuEventQuery);
  ++machine.waits;
  return 0;
}
int cuEventElapsedTime(float* milliseconds, void* from, void* to) {
  CALL(cuEventElapsedTime);
  *milliseconds =
      static_cast<float>((static_cast<EventState*>(to)->seconds - static_cast<EventState*>(from)->seconds) * 1e3);
  return 0;
}

int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  CALL(cuGraphInstantiateWithFlags);
  *executable = new Captured(*static_cast<Captured*>(graph));
  ++machine.graphs;
  return 0;
}
int cuGraphUpload(void*, void*) {
  CALL(cuGraphUpload);
  return 0;
}
int cuGraphLaunch(void* executable, void* stream) {
  CALL(cuGraphLaunch);
  require_current("a graph", static_cast<StreamState*>(stream)->device);
  ++machine.graph_launches;
  for (const Step& step : static_cast<Captured*>(executable)->steps) run(step, true);
  return 0;
}
int cuGraphExecDestroy(void* executable) {
  CALL(cuGraphExecDestroy);
  delete static_cast<Captured*>(executable);
  return 0;
}
int cuGraphDestroy(void* graph) {
  CALL(cuGraphDestroy);
  delete static_cast<Captured*>(graph);
  return 0;
}

int cuModuleLoadData(void** module, const void* image) {
  CREATE(cuModuleLoadData);
  if (image == nullptr) return 200;
  *module = new ModuleState{.device = current_device()};
  return 0;
}
int cuModuleUnload(void* module) {
  CALL(cuModuleUnload);
  require_current("a module", static_cast<ModuleState*>(module)->device);
  delete static_cast<ModuleState*>(module);
  return 0;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  CALL(cuModuleGetFunction);
  auto& owner = *static_cast<ModuleState*>(module);
  require_current("a module", owner.device);
  *function = owner.functions.emplace_back(new FunctionState{.name = name, .device = owner.device}).get();
  return 0;
}
int cuFuncGetAttribute(int* value, int, void*) {
  CALL(cuFuncGetAttribute);
  *value = 0;
  return 0;
}
int cuFuncSetAttribute(void*, int, int) {
  CALL(cuFuncSetAttribute);
  return 0;
}
int cuLaunchKernelEx(const LaunchConfig* config, void* function, void** parameters, void** extra) {
  CALL(cuLaunchKernelEx);
  if (parameters == nullptr || extra != nullptr) {
    breach("cuLaunchKernelEx without its parameter and the size of it");
    return kInvalidValue;
  }
  for (const unsigned size :
       {config->grid[0], config->grid[1], config->grid[2], config->block[0], config->block[1], config->block[2]})
    if (size == 0) return kInvalidValue;
  if (config->block[0] * config->block[1] * config->block[2] > 1024) return kInvalidValue;
  require_current("a function", static_cast<FunctionState*>(function)->device);
  const std::string& name = static_cast<FunctionState*>(function)->name;
  const size_t bytes = *static_cast<const size_t*>(parameters[1]);
  enqueue(config->stream,
          {has_table(name) ? launch_of_table(name, parameters[0], bytes)
                           : Operation{.kind = Kind::kernel, .name = name, .ranges = pointers_in(parameters[0], bytes)},
           {}});
  return 0;
}
int cuTensorMapEncodeTiled(void* map, int, uint32_t, void* address, const uint64_t*, const uint64_t*, const uint32_t*,
                           const uint32_t*, int, int, int, int) {
  CALL(cuTensorMapEncodeTiled, false);
  std::memset(map, 0, 128);
  std::memcpy(map, &address, sizeof address);
  return 0;
}

}  // extern "C"
