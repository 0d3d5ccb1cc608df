// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/compiled_program.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/xla/pjrt/api.h"

namespace megacpp::runtime::pjrt {
namespace {

/// Calls what a plugin may leave out; false when it did.
template <typename A>
bool call_optional(const Api& api, PJRT_Error* (*PJRT_Api::*function)(A*), Args<A>& args) {
  auto failure = api.try_call(function, args);
  if (!failure) return true;
  if (failure->code != StatusCode::unimplemented) api.raise(std::move(*failure), Phase::query);
  return false;
}

using MemoryStats = PJRT_Executable_GetCompiledMemoryStats_Args;

/// Fields that version 0.104 of the C API has behind those of our header.
struct LaterMemoryStats {
  int64_t total_size = 0;
  int64_t total_allocation = 0;  // of all buffers in the default memory, where they are placed; 0 from older plugins
  int64_t indefinite_allocations = 0;
  int64_t peak_unpadded_heap = 0;
};
static_assert(sizeof(LaterMemoryStats) <= sizeof(Args<MemoryStats>::room_behind));
constexpr size_t kLaterMemoryStats = offsetof(MemoryStats, peak_memory_in_bytes) + sizeof(int64_t);

LaterMemoryStats later_stats(const Args<MemoryStats>& args) {
  LaterMemoryStats later;
  std::memcpy(&later, reinterpret_cast<const std::byte*>(&args) + kLaterMemoryStats, sizeof(later));
  return later;
}

/// Of temporaries, gaps between them included. libtpu adds to the bytes of the heap what buffers of the outermost
/// computation leave of it, so that it counts what loops hold twice; its placement has them once.
int64_t temporary_bytes(const Args<MemoryStats>& args) {
  const int64_t placed = later_stats(args).total_allocation;
  if (placed == 0) return args.temp_size_in_bytes;
  const int64_t outputs = args.output_size_in_bytes - args.alias_size_in_bytes;
  return std::min(args.temp_size_in_bytes, placed - args.argument_size_in_bytes - outputs);
}

double number(const Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* floating = std::get_if<float>(&value)) return static_cast<double>(*floating);
  return 0;
}

}  // namespace

std::string CompiledProgram::name() const {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Executable_Name);
  args.executable = as<PJRT_Executable>(executable_);
  executable_.api().call(&PJRT_Api::PJRT_Executable_Name, args, Phase::query);
  return {args.executable_name, args.executable_name_size};
}

int64_t CompiledProgram::num_outputs() const {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Executable_NumOutputs);
  args.executable = as<PJRT_Executable>(executable_);
  executable_.api().call(&PJRT_Api::PJRT_Executable_NumOutputs, args, Phase::query);
  return static_cast<int64_t>(args.num_outputs);
}

std::vector<ir::TensorType> CompiledProgram::output_types() const {
  auto elements = MEGACPP_PJRT_ARGS(PJRT_Executable_OutputElementTypes);
  elements.executable = as<PJRT_Executable>(executable_);
  executable_.api().call(&PJRT_Api::PJRT_Executable_OutputElementTypes, elements, Phase::query);
  auto dims = MEGACPP_PJRT_ARGS(PJRT_Executable_OutputDimensions);
  dims.executable = as<PJRT_Executable>(executable_);
  executable_.api().call(&PJRT_Api::PJRT_Executable_OutputDimensions, dims, Phase::query);
  MEGACPP_CHECK(elements.num_output_types == dims.num_outputs) << "the plugin counts outputs in two ways";

  std::vector<ir::TensorType> types;
  const int64_t* next = dims.dims;
  for (size_t i = 0; i < dims.num_outputs; ++i) {
    types.push_back({dtype_of(elements.output_types[i]), ir::Shape(next, next + dims.dim_sizes[i])});
    next += dims.dim_sizes[i];
  }
  return types;
}

std::optional<CompiledMemory> CompiledProgram::memory() const {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Executable_GetCompiledMemoryStats);
  args.struct_size = std::max(args.struct_size, kLaterMemoryStats + sizeof(LaterMemoryStats));
  args.executable = as<PJRT_Executable>(executable_);
  if (!call_optional(executable_.api(), &PJRT_Api::PJRT_Executable_GetCompiledMemoryStats, args)) return std::nullopt;
  return CompiledMemory{
      .code = args.generated_code_size_in_bytes,
      .argument = args.argument_size_in_bytes,
      .output = args.output_size_in_bytes,
      .alias = args.alias_size_in_bytes,
      .temp = temporary_bytes(args),
      .peak = args.peak_memory_in_bytes,
      .host_code = args.host_generated_code_size_in_bytes,
      .host_argument = args.host_argument_size_in_bytes,
      .host_output = args.host_output_size_in_bytes,
      .host_alias = args.host_alias_size_in_bytes,
      .host_temp = args.host_temp_size_in_bytes,
  };
}

std::map<std::string, double> CompiledProgram::cost() const {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Executable_GetCostAnalysis);
  args.executable = as<PJRT_Executable>(executable_);
  std::map<std::string, double> result;
  if (!call_optional(executable_.api(), &PJRT_Api::PJRT_Executable_GetCostAnalysis, args)) return result;
  for (const NamedValue& property : named_values(args.properties, args.num_properties)) {
    result[property.name] = number(property.value);
  }
  return result;
}

OptimizedProgram CompiledProgram::optimized() const {
  auto program = MEGACPP_PJRT_STRUCT(PJRT_Program);
  auto args = MEGACPP_PJRT_ARGS(PJRT_Executable_OptimizedProgram);
  args.executable = as<PJRT_Executable>(executable_);
  args.program = &program;
  executable_.api().call(&PJRT_Api::PJRT_Executable_OptimizedProgram, args, Phase::query);  // says the size
  OptimizedProgram result{.format = {}, .code = std::string(program.code_size, '\0')};
  program.code = result.code.data();
  executable_.api().call(&PJRT_Api::PJRT_Executable_OptimizedProgram, args, Phase::query);
  result.format.assign(program.format, program.format_size);
  return result;
}

std::string CompiledProgram::fingerprint() const {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Executable_Fingerprint);
  args.executable = as<PJRT_Executable>(executable_);
  if (!call_optional(executable_.api(), &PJRT_Api::PJRT_Executable_Fingerprint, args)) return {};
  return {args.executable_fingerprint, args.executable_fingerprint_size};
}

std::string CompiledProgram::serialize() const {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Executable_Serialize);
  args.executable = as<PJRT_Executable>(executable_);
  executable_.api().call(&PJRT_Api::PJRT_Executable_Serialize, args, Phase::query);
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

}  // namespace megacpp::runtime::pjrt
