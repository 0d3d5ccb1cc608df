// SPDX-License-Identifier: Apache-2.0
// The one header of this folder that knows the plugin's C header; included by .cpp files of this folder only. Api is
// the function table of a loaded plugin with checked calls; arguments are made by MEGACPP_PJRT_ARGS:
//
//   auto args = MEGACPP_PJRT_ARGS(PJRT_Client_Compile);
//   args.client = ...;
//   api.call(&PJRT_Api::PJRT_Client_Compile, args, Phase::compile);
#pragma once

#include <pjrt_c_api.h>

#include <array>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "megacpp/core/ir/dtype.h"
#include "megacpp/machine/xla/pjrt/device_description.h"
#include "megacpp/machine/xla/pjrt/handle.h"
#include "megacpp/machine/xla/pjrt/named_value.h"
#include "megacpp/machine/xla/pjrt/status.h"

namespace megacpp::runtime::pjrt {

static_assert(PJRT_API_MAJOR == 0 && PJRT_API_MINOR >= 81,
              "pjrt_c_api.h is too old: take the one of xla-cpu-pjrt 0.0.1");

/// A struct of the C API, zeroed, its size as in our header. A plugin built with a newer header may write fields that
/// ours does not have: the room behind the struct is theirs.
template <typename T>
struct Args : T {
  explicit Args(size_t size) : T{} { this->struct_size = size; }
  std::array<std::byte, 512> room_behind = {};
};
#define MEGACPP_PJRT_STRUCT(name) ::megacpp::runtime::pjrt::Args<name>(name##_STRUCT_SIZE)
#define MEGACPP_PJRT_ARGS(function) MEGACPP_PJRT_STRUCT(function##_Args)

class Api {
 public:
  /// `plugin` names the plugin in errors.
  Api(const PJRT_Api* table, std::string plugin) : table_(table), plugin_(std::move(plugin)) {}
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  const PJRT_Api& table() const { return *table_; }
  const std::string& plugin() const { return plugin_; }

  /// Whether the plugin has this function: its table reaches so far, and the entry is filled.
  template <typename Function>
  bool has(Function PJRT_Api::*function) const {
    const auto* entry = reinterpret_cast<const std::byte*>(&(table_->*function));
    const auto offset = static_cast<size_t>(entry - reinterpret_cast<const std::byte*>(table_));
    return offset + sizeof(Function) <= table_->struct_size && table_->*function != nullptr;
  }

  /// Nothing when the call went well. A function the plugin lacks is UNIMPLEMENTED. Plugins should not throw, but some
  /// do (the CPU plugin at an option of the wrong type).
  template <typename A>
  std::optional<Failure> try_call(PJRT_Error* (*PJRT_Api::*function)(A*), Args<A>& args) const {
    if (!has(function)) return Failure{StatusCode::unimplemented, "the plugin does not have this function"};
    try {
      return take((table_->*function)(&args));
    } catch (const std::exception& error) {
      return Failure{StatusCode::internal, std::string("the plugin threw an exception: ") + error.what()};
    }
  }

  /// Throws as raise_failure() when the call fails.
  template <typename A>
  void call(PJRT_Error* (*PJRT_Api::*function)(A*), Args<A>& args, Phase phase) const {
    if (auto failure = try_call(function, args)) raise(std::move(*failure), phase);
  }

  /// Frees an object; a failure to do so has no cure and is passed over.
  template <typename A>
  void destroy(PJRT_Error* (*PJRT_Api::*function)(A*), Args<A>& args) const noexcept {
    if (has(function)) (void)take((table_->*function)(&args));
  }

  /// Waits for an event, frees it, and throws when what it stands for failed. Null is no event.
  void await(PJRT_Event* event, Phase phase) const;

  [[noreturn]] void raise(Failure failure, Phase phase) const { raise_failure(std::move(failure), phase, plugin_); }

 private:
  /// The content of an error, which is freed.
  std::optional<Failure> take(PJRT_Error* error) const;

  const PJRT_Api* table_;  // lives as long as the process: plugins are never unloaded
  std::string plugin_;
};

/// The object of a handle, in its type.
template <typename T>
T* as(const Handle& handle) {
  return static_cast<T*>(handle.get());
}

Handle own_event(const Api& api, PJRT_Event* event, std::shared_ptr<ClientState> client = nullptr);
Handle own_buffer(const Api& api, PJRT_Buffer* buffer, std::shared_ptr<ClientState> client);
Handle own_executable(const Api& api, PJRT_Executable* executable, std::shared_ptr<ClientState> client = nullptr);

std::vector<NamedValue> named_values(const PJRT_NamedValue* values, size_t count);

/// Named values as the plugin reads them; they point into `values`, which must stay.
std::vector<PJRT_NamedValue> named_arguments(const std::vector<NamedValue>& values);

/// A program to compile; it points to the text, which must stay.
Args<PJRT_Program> stablehlo_program(std::string_view text);

DeviceDescription describe(const Api& api, PJRT_DeviceDescription* device);

PJRT_Buffer_Type buffer_type(ir::DType dtype);
/// E1505 for an element type that no tensor of ours has.
ir::DType dtype_of(PJRT_Buffer_Type type);

}  // namespace megacpp::runtime::pjrt
