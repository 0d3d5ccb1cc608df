// SPDX-License-Identifier: Apache-2.0
// What the NVIDIA devices of this machine call themselves, by the files of their driver: no library is loaded and no
// device is woken, so that a plan can be made for them before anything is compiled.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace megacpp::runtime::plugins {

/// "NVIDIA H200", as PJRT calls the kind of such a device. Of several kinds all, sorted, with commas: no chip has such
/// a name. Empty where there is no driver or its files cannot be read. `devices` has a folder for each, with a file
/// `information`.
std::string nvidia_device_name(const std::filesystem::path& devices = "/proc/driver/nvidia/gpus");

/// "NVIDIA H200" from the text of such a file; empty where it names no model.
std::string model_of_device(std::string_view information);

}  // namespace megacpp::runtime::plugins
