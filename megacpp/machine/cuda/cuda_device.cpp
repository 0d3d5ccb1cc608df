// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/runtime/finite_values.h"
#include "megacpp/program/memory/out_of_memory.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr unsigned kNonBlockingStream = 1;  // as the driver has it

constexpr size_t kDownloadBytes = size_t{8} << 20;  // at once

Address address_of(const std::byte* pointer) { return reinterpret_cast<Address>(pointer); }

std::vector<Address> addresses_of(std::span<std::byte* const> pointers) {
  std::vector<Address> addresses;
  for (const std::byte* pointer : pointers) addresses.push_back(address_of(pointer));
  return addresses;
}

[[noreturn]] void refuse_memory(const Gpu& gpu, int64_t chip, size_t bytes) {
  const int64_t free = gpu.free_bytes();
  throw memory::OutOfMemory(
      base::Code::E2003,
      {.where = fmt::format("chip {} on {}", chip, gpu.text()),
       .got = fmt::format("{} for {} bytes; {} are free", result_text(kOutOfMemory), bytes, free),
       .wanted = "the planned bytes in one piece",
       .next = "end other programs on the GPU (nvidia-smi), or reduce train.batch or train.sequence"},
      {.cls = memory::OomClass::load,
       .phase = "loading",
       .chip = chip,
       .wanted = static_cast<int64_t>(bytes),
       .limit = free});
}

}  // namespace

CudaDevice::CudaDevice(std::shared_ptr<Gpu> gpu, const Options& options)
    : gpu_(std::move(gpu)), driver_(gpu_->driver()), arena_bytes_(options.arena_bytes), steps_(options.steps) {
  gpu_->attach();
  if (!steps_) steps_ = std::make_shared<StepGraph>(StepGraph::Options{.driver = driver_});
  try {
    driver_.stream_create(&stream_, kNonBlockingStream);
    Address arena = 0;
    const size_t bytes = static_cast<size_t>(std::max<int64_t>(arena_bytes_, kAlignment));
    const Result result = driver_.mem_alloc.attempt(&arena, bytes);
    if (result == kOutOfMemory) refuse_memory(*gpu_, options.chip, bytes);
    if (result != kSuccess) raise_failed_call("cuMemAlloc_v2", result);
    allocated_.push_back(arena);
    driver_.memset_bytes_async(arena, 0, bytes, stream_);
    if (options.host_bytes > 0) host_ = std::make_unique<HostCopies>(driver_, stream_, options.host_bytes);
    uploads_ = std::make_unique<UploadRing>(driver_);
    void* pinned = nullptr;
    driver_.mem_host_alloc(&pinned, kDownloadBytes, 0);
    downloaded_ = static_cast<std::byte*>(pinned);
    if (options.connect) connection_ = options.connect(stream_);
    number_ = steps_->join(stream_);
  } catch (...) {
    release();
    throw;
  }
}

CudaDevice::~CudaDevice() { release(); }

// Whatever state the GPU is in: a device that failed refuses all of these, and that is no other failure.
void CudaDevice::release() {
  driver_.ctx_set_current.attempt(gpu_->context());
  if (stream_ != nullptr) driver_.stream_synchronize.attempt(stream_);
  steps_->release();  // before the transport, which may wait for graphs with its calls to go
  launches_ = {};     // of a load that failed
  connection_ = {};
  for (Event* const event : marks_) driver_.event_destroy.attempt(event);
  host_.reset();
  uploads_.reset();
  if (downloaded_ != nullptr) driver_.mem_free_host.attempt(downloaded_);
  for (const Address address : allocated_) driver_.mem_free.attempt(address);
  if (stream_ != nullptr) driver_.stream_destroy.attempt(stream_);
}

std::byte* CudaDevice::at(int64_t offset) const {
  return reinterpret_cast<std::byte*>(allocated_.front() + static_cast<Address>(offset));
}

std::byte* CudaDevice::at_tier(ir::Tier tier, int64_t offset) const {
  MEGACPP_CHECK(host_ && tier == ir::Tier::host)
      << "byte " << offset << " in " << ir::record(tier).what << " that nothing was planned in";
  return host_->at(offset);
}

Address CudaDevice::allocate(size_t bytes) {
  Address address = 0;
  driver_.mem_alloc(&address, std::max<size_t>(bytes, 1));
  allocated_.push_back(address);
  driver_.memset_bytes_async(address, 0, std::max<size_t>(bytes, 1), stream_);
  return address;
}

std::byte* CudaDevice::reserve(size_t bytes) { return reinterpret_cast<std::byte*>(allocate(bytes)); }

DeviceCall CudaDevice::prepare(const BoundNode& bound) {
  const ops::OpDef& op = ops::op_def(bound.node.op);
  if (!op.is_collective && !op.is_tier_copy) return prepare_kernel(bound);
  DeviceCall call = op.is_collective ? prepare_collective(bound) : prepare_tier_copy(bound);
  launches_.add(call.run);
  return call;
}

DeviceCall CudaDevice::prepare_collective(const BoundNode& bound) {
  MEGACPP_CHECK(connection_.prepare) << "a chip without a transport has " << bound.node.op << " @" << bound.node.scope;
  return connection_.prepare(bound);
}

DeviceCall CudaDevice::prepare_tier_copy(const BoundNode& bound) {
  MEGACPP_CHECK(host_) << "a chip without pinned memory has " << bound.node.op << " @" << bound.node.scope;
  return host_->prepare(bound);
}

DeviceCall CudaDevice::prepare_kernel(const BoundNode& bound) {
  const ir::Node& node = bound.node;
  const Kernel* const kernel = find_kernel(node.op);
  MEGACPP_CHECK(kernel != nullptr) << "the cuda backend has no kernel for " << node.op << " @" << node.scope;
  const ops::Types operand_types = bound.graph.operand_types(node), result_types = bound.graph.result_types(node);
  const ops::NodeView view{operand_types, result_types, node.attrs};
  Prepared prepared = kernel->prepare(view, gpu_->toolbox());
  const int64_t workspace = kernel->workspace_bytes ? kernel->workspace_bytes(view) : 0;
  const std::vector<Address> operands = addresses_of(bound.operands), results = addresses_of(bound.results);
  const Launch at{operands, results, address_of(bound.workspace), stream_};
  if (node.op == "fused") {
    BoundTile tile = bind_tile(std::move(prepared), view, workspace, at);
    DeviceCall call{.run = tile.run, .workspace_bytes = workspace};
    launches_.add(std::move(tile));
    return call;
  }
  DeviceCall call{.run = bind_launch(std::move(prepared.run), at), .workspace_bytes = workspace};
  launches_.add(call.run);
  return call;
}

void CudaDevice::copy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0) driver_.memcpy_async(address_of(to), address_of(from), bytes, stream_);
}

void CudaDevice::upload(std::byte* to, std::span<const std::byte> from) {
  fill(to, from.size(), [&from](size_t begin, std::span<std::byte> piece) {
    std::memcpy(piece.data(), from.data() + begin, piece.size());
  });
}

// What is in the host's memory already needs no ring: once the device is done with it, it is the host's like any other.
void CudaDevice::fill(std::byte* to, size_t bytes, const FillPiece& fill) {
  gpu_->attach();
  if (is_on_host(to)) {
    wait_until_idle();
    fill(0, {to, bytes});
    return;
  }
  uploads_->fill({.to = address_of(to), .bytes = bytes, .stream = stream_}, fill);
}

void CudaDevice::download(std::span<std::byte> to, const std::byte* from) const {
  read_pieces(from, to.size(), [&](size_t offset, std::span<const std::byte> piece) {
    std::memcpy(to.data() + offset, piece.data(), piece.size());
    return true;
  });
}

bool CudaDevice::all_finite(const std::byte* data, const ir::TensorType& type) const {
  bool finite = true;
  read_pieces(data, static_cast<size_t>(type.bytes()), [&](size_t, std::span<const std::byte> piece) {
    return finite = runtime::all_finite(piece, type.dtype);
  });
  return finite;
}

// Until `use` says that it has seen enough.
void CudaDevice::read_pieces(const std::byte* from, size_t bytes,
                             const std::function<bool(size_t offset, std::span<const std::byte> piece)>& use) const {
  gpu_->attach();
  if (is_on_host(from)) {
    wait_until_idle();
    use(0, {from, bytes});
    return;
  }
  for (size_t offset = 0; offset < bytes; offset += kDownloadBytes) {
    const size_t count = std::min(kDownloadBytes, bytes - offset);
    driver_.memcpy_to_host_async(downloaded_, address_of(from) + offset, count, stream_);
    wait_until_idle();
    if (!use(offset, {downloaded_, count})) return;
  }
}

void CudaDevice::wait_until_idle() const {
  if (connection_.wait)
    connection_.wait();
  else
    driver_.stream_synchronize(stream_);
}

// ---- Steps ----

void CudaDevice::reserve_marks(size_t count) {
  gpu_->attach();
  while (marks_.size() < count) driver_.event_create(&marks_.emplace_back(), 0);
}

void CudaDevice::mark(size_t number) { driver_.event_record(marks_[number], stream_); }

double CudaDevice::seconds_between(size_t from, size_t to) const {
  float milliseconds = 0;
  driver_.event_elapsed_time(&milliseconds, marks_[from], marks_[to]);
  return static_cast<double>(milliseconds) / 1e3;
}

}  // namespace megacpp::runtime::cuda
