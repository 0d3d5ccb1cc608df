// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/buffer.h"

#include <numeric>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/xla/pjrt/client_state.h"

namespace megacpp::runtime::pjrt {

Buffer::Buffer(const Client& client, size_t device, const ir::TensorType& type, std::span<const std::byte> bytes,
               HostBytes host) {
  MEGACPP_CHECK(std::ssize(bytes) == type.bytes()) << bytes.size() << " bytes for " << ir::to_string(type);
  const std::shared_ptr<ClientState>& state = client.state();
  const Api& api = state->api();
  auto args = MEGACPP_PJRT_ARGS(PJRT_Client_BufferFromHostBuffer);
  args.client = as<PJRT_Client>(state->client);
  args.data = bytes.data();
  args.type = buffer_type(type.dtype);
  args.dims = type.shape.data();
  args.num_dims = type.shape.size();
  args.host_buffer_semantics = host == HostBytes::copied ? PJRT_HostBufferSemantics_kImmutableOnlyDuringCall
                                                         : PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
  args.device = state->devices.at(device);
  api.call(&PJRT_Api::PJRT_Client_BufferFromHostBuffer, args, Phase::transfer);
  buffer_ = own_buffer(api, args.buffer, state);
  if (host == HostBytes::awaited)
    api.await(args.done_with_host_buffer, Phase::transfer);
  else if (args.done_with_host_buffer != nullptr)
    const Handle unused = own_event(api, args.done_with_host_buffer, state);  // freed: nobody waits for it
  state->count([&](Counters& counters) {
    counters.host_to_device.count += 1;
    counters.host_to_device.bytes += std::ssize(bytes);
  });
}

ir::TensorType Buffer::type() const {
  auto element = MEGACPP_PJRT_ARGS(PJRT_Buffer_ElementType);
  element.buffer = as<PJRT_Buffer>(buffer_);
  buffer_.api().call(&PJRT_Api::PJRT_Buffer_ElementType, element, Phase::query);
  auto dims = MEGACPP_PJRT_ARGS(PJRT_Buffer_Dimensions);
  dims.buffer = as<PJRT_Buffer>(buffer_);
  buffer_.api().call(&PJRT_Api::PJRT_Buffer_Dimensions, dims, Phase::query);
  return {dtype_of(element.type), ir::Shape(dims.dims, dims.dims + dims.num_dims)};
}

int64_t Buffer::bytes_on_device() const {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Buffer_OnDeviceSizeInBytes);
  args.buffer = as<PJRT_Buffer>(buffer_);
  buffer_.api().call(&PJRT_Api::PJRT_Buffer_OnDeviceSizeInBytes, args, Phase::query);
  return static_cast<int64_t>(args.on_device_size_in_bytes);
}

bool Buffer::is_deleted() const {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Buffer_IsDeleted);
  args.buffer = as<PJRT_Buffer>(buffer_);
  buffer_.api().call(&PJRT_Api::PJRT_Buffer_IsDeleted, args, Phase::query);
  return args.is_deleted;
}

void Buffer::await() const {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Buffer_ReadyEvent);
  args.buffer = as<PJRT_Buffer>(buffer_);
  buffer_.api().call(&PJRT_Api::PJRT_Buffer_ReadyEvent, args, Phase::query);
  buffer_.client()->count([](Counters& counters) { counters.host_syncs += 1; });
  buffer_.api().await(args.event, Phase::execute);
}

void Buffer::to_host(std::span<std::byte> bytes) const {
  const ir::TensorType tensor = type();
  MEGACPP_CHECK(std::ssize(bytes) == tensor.bytes()) << bytes.size() << " bytes for " << ir::to_string(tensor);
  // Named, because without a layout the bytes would come in the device's order of dimensions.
  std::vector<int64_t> minor_to_major(tensor.shape.size());
  std::iota(minor_to_major.rbegin(), minor_to_major.rend(), 0);
  auto layout = MEGACPP_PJRT_STRUCT(PJRT_Buffer_MemoryLayout);
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();

  auto args = MEGACPP_PJRT_ARGS(PJRT_Buffer_ToHostBuffer);
  args.src = as<PJRT_Buffer>(buffer_);
  args.host_layout = &layout;
  args.dst = bytes.data();
  args.dst_size = bytes.size();
  buffer_.api().call(&PJRT_Api::PJRT_Buffer_ToHostBuffer, args, Phase::transfer);
  buffer_.client()->count([&](Counters& counters) {
    counters.host_syncs += 1;
    counters.device_to_host.count += 1;
    counters.device_to_host.bytes += std::ssize(bytes);
  });
  buffer_.api().await(args.event, Phase::transfer);
}

}  // namespace megacpp::runtime::pjrt
