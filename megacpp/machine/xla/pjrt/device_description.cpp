// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/device_description.h"

#include "megacpp/machine/xla/pjrt/api.h"

namespace megacpp::runtime::pjrt {

std::vector<int64_t> DeviceDescription::coords() const {
  const auto* coords = find<std::vector<int64_t>>(attributes, "coords");
  return coords == nullptr ? std::vector<int64_t>{} : *coords;
}

std::optional<int64_t> DeviceDescription::memory_limit() const {
  const auto* limit = find<int64_t>(attributes, "device_memory_bytes_limit");
  return limit == nullptr ? std::nullopt : std::optional(*limit);
}

DeviceDescription describe(const Api& api, PJRT_DeviceDescription* device) {
  DeviceDescription result;
  auto id = MEGACPP_PJRT_ARGS(PJRT_DeviceDescription_Id);
  id.device_description = device;
  api.call(&PJRT_Api::PJRT_DeviceDescription_Id, id, Phase::query);
  result.id = id.id;
  auto process = MEGACPP_PJRT_ARGS(PJRT_DeviceDescription_ProcessIndex);
  process.device_description = device;
  api.call(&PJRT_Api::PJRT_DeviceDescription_ProcessIndex, process, Phase::query);
  result.process = process.process_index;
  auto kind = MEGACPP_PJRT_ARGS(PJRT_DeviceDescription_Kind);
  kind.device_description = device;
  api.call(&PJRT_Api::PJRT_DeviceDescription_Kind, kind, Phase::query);
  result.kind.assign(kind.device_kind, kind.device_kind_size);
  auto label = MEGACPP_PJRT_ARGS(PJRT_DeviceDescription_ToString);
  label.device_description = device;
  api.call(&PJRT_Api::PJRT_DeviceDescription_ToString, label, Phase::query);
  result.label.assign(label.to_string, label.to_string_size);
  auto attributes = MEGACPP_PJRT_ARGS(PJRT_DeviceDescription_Attributes);
  attributes.device_description = device;
  api.call(&PJRT_Api::PJRT_DeviceDescription_Attributes, attributes, Phase::query);
  result.attributes = named_values(attributes.attributes, attributes.num_attributes);
  return result;
}

}  // namespace megacpp::runtime::pjrt
