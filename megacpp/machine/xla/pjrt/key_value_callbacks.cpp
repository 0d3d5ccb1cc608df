// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/key_value_callbacks.h"

#include <chrono>
#include <cstring>
#include <exception>
#include <optional>
#include <string>

#include "megacpp/machine/xla/pjrt/api.h"

namespace megacpp::runtime::pjrt {
namespace {

using collectives::KeyValues;

void free_value(char* value) { delete[] value; }

// The plugin copies the value and frees it with free_value.
template <typename Args>
void give_value(Args& args, const std::string& value) {
  args.value = new char[value.size()];
  std::memcpy(args.value, value.data(), value.size());
  args.value_size = value.size();
  args.value_deleter_callback = free_value;
}

template <typename Args>
PJRT_Error* plugin_error(const Args& args, PJRT_Error_Code code, const std::string& words) {
  return (*args.callback_error)(code, words.data(), words.size());
}

// No exception may enter the plugin. What the store throws, another process has caused.
template <typename Args, typename Body>
PJRT_Error* answered(const Args& args, const Body& body) {
  try {
    return body(*static_cast<KeyValues*>(args.user_arg), std::string(args.key, args.key_size));
  } catch (const std::exception& error) {
    return plugin_error(args, PJRT_Error_Code_ABORTED, error.what());
  }
}

PJRT_Error* put_value(PJRT_KeyValuePutCallback_Args* args) {
  return answered(*args, [args](KeyValues& store, const std::string& key) -> PJRT_Error* {
    store.put(key, std::string(args->value, args->value_size));
    return nullptr;
  });
}

PJRT_Error* get_value(PJRT_KeyValueGetCallback_Args* args) {
  return answered(*args, [args](KeyValues& store, const std::string& key) -> PJRT_Error* {
    const std::optional<std::string> value = store.get(key, std::chrono::milliseconds(args->timeout_in_ms));
    if (!value)
      return plugin_error(*args, PJRT_Error_Code_DEADLINE_EXCEEDED,
                          "waited for '" + key + "', which no process has put within " +
                              std::to_string(args->timeout_in_ms) +
                              " ms, or while all processes wait: " + store.progress());
    give_value(*args, *value);
    return nullptr;
  });
}

PJRT_Error* try_get_value(PJRT_KeyValueTryGetCallback_Args* args) {
  return answered(*args, [args](KeyValues& store, const std::string& key) -> PJRT_Error* {
    const std::optional<std::string> value = store.try_get(key);
    if (!value) return plugin_error(*args, PJRT_Error_Code_NOT_FOUND, "no process has put '" + key + "' yet");
    give_value(*args, *value);
    return nullptr;
  });
}

}  // namespace

void serve_key_values(PJRT_Client_Create_Args& args, KeyValues& store) {
  args.kv_put_callback = put_value;
  args.kv_put_user_arg = &store;
  args.kv_get_callback = get_value;
  args.kv_get_user_arg = &store;
  args.kv_try_get_callback = try_get_value;
  args.kv_try_get_user_arg = &store;
}

}  // namespace megacpp::runtime::pjrt
