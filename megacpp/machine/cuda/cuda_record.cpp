// SPDX-License-Identifier: Apache-2.0
// The record of the backend `cuda`. Everything here answers without a GPU too.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cuda/cuda_backend.h"
#include "megacpp/machine/cuda/exchange_steps.h"
#include "megacpp/machine/cuda/gpu.h"
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/plugins/nvidia_devices.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/machine/runtime/device_hardware.h"
#include "megacpp/machine/runtime/processor.h"

namespace megacpp::runtime::cuda {
namespace {

/// The driver, or why there is none that serves.
struct FoundDriver {
  const Driver* driver = nullptr;
  std::string why_not = {};
};

FoundDriver find_driver() {
  try {
    return {.driver = &open_driver(driver_place({}))};
  } catch (const base::Error& error) {
    if (error.code() != base::Code::E1508) throw;
    return {.why_not = error.problem().got + "; " + error.problem().next};
  }
}

// Every axis but that of stages is summed over. Sums over several axes at once are looked at when they are planned
// (exchange_workspace).
std::optional<recipe::Unsupported> cannot_run(const recipe::Recipe& recipe) {
  const recipe::Layout& layout = recipe.layout;
  for (const auto& [key, degree] :
       {std::pair("data_parallel", layout.data_parallel), std::pair("expert_parallel", layout.expert_parallel),
        std::pair("context_parallel", layout.context_parallel), std::pair("tensor_parallel", layout.tensor_parallel)})
    if (degree > kMaxExchangeMembers)
      return recipe::Unsupported{
          .setting = fmt::format("layout.{}: {}", key, degree),
          .reason = fmt::format("one launch adds up a sum over chips, and serves at most {}", kMaxExchangeMembers),
          .instead = fmt::format("at most {} along an axis: split it, for example into layout.data_parallel x "
                                 "layout.expert_parallel",
                                 kMaxExchangeMembers)};
  return std::nullopt;
}

base::Decision usable(const recipe::RunRequest&) {
  if (const std::vector<std::string_view> missing = missing_cubins(); !missing.empty())
    return base::Decision::no(
        fmt::format("a build without nvcc, which lacks the kernels {}; install the CUDA toolkit "
                    "and build again",
                    fmt::join(missing, ", ")));
  const FoundDriver found = find_driver();
  if (found.driver == nullptr) return base::Decision::no(found.why_not);
  if (base::Decision served = is_served(read_properties(*found.driver, 0)); !served) return served;
  try {
    for (const LibraryKind kind : {LibraryKind::cublaslt, LibraryKind::nvrtc}) open_library(kind, {});
  } catch (const base::Error& error) {
    if (error.code() != base::Code::E1509) throw;
    return base::Decision::no(fmt::format("no {}: {}", error.problem().where, error.problem().next));
  }
  return base::Decision::yes();
}

std::optional<int64_t> free_bytes(const recipe::RunRequest&) {
  const FoundDriver found = find_driver();
  return found.driver == nullptr ? std::nullopt : free_bytes_of(*found.driver, 0);
}

/// By the driver's files; where a container hides them, by the driver itself.
std::string device_name(const recipe::RunRequest&) {
  if (std::string name = plugins::nvidia_device_name(); !name.empty()) return name;
  const FoundDriver found = find_driver();
  return found.driver == nullptr ? "" : read_properties(*found.driver, 0).name;
}

/// Of what is here: "cuBLASLt 13.1.0".
std::vector<std::string> library_texts() {
  std::vector<std::string> texts;
  for (const LibraryInfo& info : all_libraries()) {
    try {
      texts.push_back(info.name + " " + version_of(open_library(info.kind, {})));
    } catch (const base::Error& error) {
      if (error.code() != base::Code::E1509) throw;
      texts.push_back("no " + info.name);
    }
  }
  return texts;
}

std::string identity(const recipe::RunRequest&) {
  const FoundDriver found = find_driver();
  if (found.driver == nullptr) return "no GPU";
  return fmt::format("{}, driver for CUDA {}, {}", read_properties(*found.driver, 0).name,
                     version_text(found.driver->version), fmt::join(library_texts(), ", "));
}

// Nothing is known of the devices but their number: a card of the generation stands in where plans must compare
// something, and no time is predicted from it.
FoundHardware unknown_cards(int64_t chips) {
  hw::Slice slice = hw::parse_target(fmt::format("h200:{}", chips));
  slice.chip.nominal_bytes = slice.chip.usable_bytes = 0;
  slice.chip.name = "cuda";
  slice.name = fmt::format("cuda:{}", chips);
  return {.slice = std::move(slice), .has_rates = false};
}

/// The chips of a machine are spread over its GPUs; virtual ones share one, and with it what is free of its memory.
void share_cards(FoundHardware& found, const Machine& machine) {
  const FoundDriver driver = find_driver();
  if (driver.driver == nullptr) return;
  const int64_t cards = device_count(*driver.driver), sharing = (machine.local_chips + cards - 1) / cards;
  int64_t& usable_bytes = found.slice.chip.usable_bytes;
  if (usable_bytes > 0) usable_bytes = std::min(usable_bytes, machine.free_bytes) / sharing;
  if (sharing > 1) found.note += fmt::format("; {} virtual chips share a GPU and its memory", sharing);
}

FoundHardware find_hardware(const recipe::RunRequest& request, const Machine& machine) {
  if (!request.hardware.target.empty()) return {.slice = hw::parse_target(request.hardware.target)};
  const int64_t chips = request.chips;
  if (machine.device_name.empty()) return unknown_cards(chips);
  FoundHardware found = hardware_of_devices(
      {.name = machine.device_name, .count = chips, .unknown = [chips] { return unknown_cards(chips); }});
  share_cards(found, machine);
  return found;
}

}  // namespace
}  // namespace megacpp::runtime::cuda

namespace megacpp::runtime {

Backend cuda_backend() {
  return {.name = "cuda",
          .runs_on = {hw::ChipKind::gpu},
          .cannot_run = cuda::cannot_run,
          .ignores = {{.key = "xla.", .decides = "only backend xla reads it"},
                      {.key = "train.threads", .decides = "kernels run on the GPU"},
                      {.key = "layout.collectives", .decides = "chips add up what they hold on their GPUs"}},
          .has_kernel = [](std::string_view op) { return cuda::find_kernel(op) != nullptr; },
          .transports = {"inproc", "mpi"},
          .chips_of_process = 1,
          .target = [](const recipe::RunRequest&,
                       const TargetMesh& mesh) { return cuda::cuda_target(mesh.chips, mesh.transport); },
          .load = [](const recipe::RunRequest&, const compile::Compiled& compiled,
                     const LoadOptions& options) { return cuda::load(compiled, options); },
          .usable = cuda::usable,
          .require_devices = [](const recipe::RunRequest&) { cuda::open_driver(cuda::driver_place({})); },
          .threads = [](const recipe::RunRequest&) { return available_threads(); },
          .free_bytes = cuda::free_bytes,
          .device_name = cuda::device_name,
          .find_hardware = cuda::find_hardware,
          .identity = cuda::identity,
          .settings = [](const recipe::RunRequest&) { return RunSettings{.text = "kernels for sm_90a"}; }};
}

}  // namespace megacpp::runtime
