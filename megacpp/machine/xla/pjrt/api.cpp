// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/api.h"

#include <type_traits>

#include "megacpp/core/base/word_list.h"

namespace megacpp::runtime::pjrt {
namespace {

void destroy_event(const Api& api, void* object) noexcept {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Event_Destroy);
  args.event = static_cast<PJRT_Event*>(object);
  api.destroy(&PJRT_Api::PJRT_Event_Destroy, args);
}

void destroy_buffer(const Api& api, void* object) noexcept {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Buffer_Destroy);
  args.buffer = static_cast<PJRT_Buffer*>(object);
  api.destroy(&PJRT_Api::PJRT_Buffer_Destroy, args);
}

void destroy_executable(const Api& api, void* object) noexcept {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Executable_Destroy);
  args.executable = static_cast<PJRT_Executable*>(object);
  api.destroy(&PJRT_Api::PJRT_Executable_Destroy, args);
}

Value value_of(const PJRT_NamedValue& entry) {
  switch (entry.type) {
    case PJRT_NamedValue_kString:
      return std::string(entry.string_value, entry.value_size);
    case PJRT_NamedValue_kInt64:
      return entry.int64_value;
    case PJRT_NamedValue_kInt64List:
      return std::vector<int64_t>(entry.int64_array_value, entry.int64_array_value + entry.value_size);
    case PJRT_NamedValue_kFloat:
      return entry.float_value;
    case PJRT_NamedValue_kBool:
      return entry.bool_value;
  }
  return std::string("?");
}

void set_value(PJRT_NamedValue& entry, const Value& value) {
  entry.value_size = 1;
  std::visit(
      [&entry](const auto& given) {
        using T = std::decay_t<decltype(given)>;
        if constexpr (std::is_same_v<T, int64_t>) {
          entry.type = PJRT_NamedValue_kInt64;
          entry.int64_value = given;
        } else if constexpr (std::is_same_v<T, bool>) {
          entry.type = PJRT_NamedValue_kBool;
          entry.bool_value = given;
        } else if constexpr (std::is_same_v<T, float>) {
          entry.type = PJRT_NamedValue_kFloat;
          entry.float_value = given;
        } else if constexpr (std::is_same_v<T, std::string>) {
          entry.type = PJRT_NamedValue_kString;
          entry.string_value = given.data();
          entry.value_size = given.size();
        } else {
          entry.type = PJRT_NamedValue_kInt64List;
          entry.int64_array_value = given.data();
          entry.value_size = given.size();
        }
      },
      value);
}

}  // namespace

void Api::await(PJRT_Event* event, Phase phase) const {
  if (event == nullptr) return;
  const Handle owner = own_event(*this, event);
  auto args = MEGACPP_PJRT_ARGS(PJRT_Event_Await);
  args.event = event;
  call(&PJRT_Api::PJRT_Event_Await, args, phase);
}

std::optional<Failure> Api::take(PJRT_Error* error) const {
  if (error == nullptr) return std::nullopt;
  auto message = MEGACPP_PJRT_ARGS(PJRT_Error_Message);
  message.error = error;
  table_->PJRT_Error_Message(&message);
  auto code = MEGACPP_PJRT_ARGS(PJRT_Error_GetCode);
  code.error = error;
  code.code = PJRT_Error_Code_UNKNOWN;
  table_->PJRT_Error_GetCode(&code);
  Failure failure{static_cast<StatusCode>(code.code), std::string(message.message, message.message_size)};
  auto destroy = MEGACPP_PJRT_ARGS(PJRT_Error_Destroy);
  destroy.error = error;
  table_->PJRT_Error_Destroy(&destroy);
  return failure;
}

Handle own_event(const Api& api, PJRT_Event* event, std::shared_ptr<ClientState> client) {
  return {api, event, destroy_event, std::move(client)};
}

Handle own_buffer(const Api& api, PJRT_Buffer* buffer, std::shared_ptr<ClientState> client) {
  return {api, buffer, destroy_buffer, std::move(client)};
}

Handle own_executable(const Api& api, PJRT_Executable* executable, std::shared_ptr<ClientState> client) {
  return {api, executable, destroy_executable, std::move(client)};
}

std::vector<NamedValue> named_values(const PJRT_NamedValue* values, size_t count) {
  std::vector<NamedValue> result;
  result.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    result.push_back({std::string(values[i].name, values[i].name_size), value_of(values[i])});
  }
  return result;
}

std::vector<PJRT_NamedValue> named_arguments(const std::vector<NamedValue>& values) {
  std::vector<PJRT_NamedValue> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    result[i].struct_size = PJRT_NamedValue_STRUCT_SIZE;
    result[i].name = values[i].name.data();
    result[i].name_size = values[i].name.size();
    set_value(result[i], values[i].value);
  }
  return result;
}

Args<PJRT_Program> stablehlo_program(std::string_view text) {
  static constexpr std::string_view kFormat = "mlir";
  auto program = MEGACPP_PJRT_STRUCT(PJRT_Program);
  program.code = const_cast<char*>(text.data());  // compilers only read it
  program.code_size = text.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  return program;
}

PJRT_Buffer_Type buffer_type(ir::DType dtype) {
  const ir::DTypeRecord& type = ir::record(dtype);
  MEGACPP_CHECK(type.pjrt) << "no element type of the plugin for " << type.name;
  return static_cast<PJRT_Buffer_Type>(*type.pjrt);
}

ir::DType dtype_of(PJRT_Buffer_Type type) {
  std::vector<std::string> known;
  for (const ir::DTypeRecord& ours : ir::all_dtypes()) {
    if (!ours.pjrt) continue;
    if (*ours.pjrt == static_cast<int>(type)) return ir::dtype_named(ours.name);
    known.emplace_back(ours.name);
  }
  base::raise(base::Code::E1505, {.where = "a value of a compiled program",
                                  .got = "element type " + std::to_string(type) + " of the PJRT C API",
                                  .wanted = base::any_of_words(known),
                                  .next = "convert it inside the program"});
}

}  // namespace megacpp::runtime::pjrt
