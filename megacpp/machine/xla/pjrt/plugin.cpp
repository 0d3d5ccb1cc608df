// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/machine/xla/pjrt/api.h"
#include "megacpp/machine/xla/pjrt/elf_file.h"

namespace megacpp::runtime::pjrt {
namespace {

[[noreturn]] void not_a_plugin(const std::filesystem::path& file, const std::string& reason) {
  base::raise(base::Code::E1502, {.where = file.string(),
                                  .got = reason,
                                  .wanted = "a shared library that exports GetPjrtApi",
                                  .next = "fetch the plugin again, for this machine's architecture"});
}

std::string loader_words() {
  const char* words = ::dlerror();
  return words == nullptr ? "the loader gave no reason" : words;
}

const PJRT_Api* function_table(const std::filesystem::path& file) {
  const base::MappedFile mapped(file);
  const base::Decision whole = mapped.read_unchanged([&] { return is_whole_elf_file(mapped.bytes()); });
  if (!whole) not_a_plugin(file, whole.reason());
  // XLA logs every small thing at level 0 unless it is told; a level the user has set stays.
  ::setenv("TF_CPP_MIN_LOG_LEVEL", "1", /*overwrite=*/0);
  // Local, because plugins carry their own copies of the same libraries; now, so that a missing symbol is found here.
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) not_a_plugin(file, loader_words());
  void* symbol = ::dlsym(library, "GetPjrtApi");
  if (symbol == nullptr) not_a_plugin(file, loader_words());
  const PJRT_Api* table = reinterpret_cast<const PJRT_Api* (*)()>(symbol)();
  if (table == nullptr) not_a_plugin(file, "GetPjrtApi gave no function table");
  return table;
}

std::filesystem::path existing(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(file, error);
  MEGACPP_REQUIRE(!error, E1501,
                  ({.where = file.string(),
                    .got = error.message(),
                    .wanted = "the library of a PJRT plugin",
                    .next = "megacpp plugins fetch, or name the file in xla.plugin"}));
  return real;
}

}  // namespace

void require_version(ApiVersion version, const std::string& plugin) {
  MEGACPP_REQUIRE(version.major == PJRT_API_MAJOR && version.minor >= kOldestApiMinor, E1503,
                  ({.where = plugin,
                    .got = "PJRT API " + std::to_string(version.major) + "." + std::to_string(version.minor),
                    .wanted = "0." + std::to_string(kOldestApiMinor) + " or a newer 0.x",
                    .next = "take a newer plugin: megacpp plugins fetch"}));
}

const Plugin& Plugin::load(const std::filesystem::path& file) {
  static std::mutex mutex;
  // Never destroyed: a plugin's threads may still run while the process ends.
  static auto& loaded = *new std::map<std::filesystem::path, std::unique_ptr<Plugin>>;
  const std::filesystem::path real = existing(file);
  const std::lock_guard lock(mutex);
  std::unique_ptr<Plugin>& plugin = loaded[real];
  if (plugin == nullptr) plugin.reset(new Plugin(real));
  return *plugin;
}

Plugin::Plugin(std::filesystem::path file) : file_(std::move(file)) {
  const PJRT_Api* table = function_table(file_);
  const std::string name = file_.filename().string();
  require_version({table->pjrt_api_version.major_version, table->pjrt_api_version.minor_version}, name);
  api_ = std::make_unique<Api>(table, name);

  auto initialize = MEGACPP_PJRT_ARGS(PJRT_Plugin_Initialize);
  api_->call(&PJRT_Api::PJRT_Plugin_Initialize, initialize, Phase::set_up);
  auto attributes = MEGACPP_PJRT_ARGS(PJRT_Plugin_Attributes);
  api_->call(&PJRT_Api::PJRT_Plugin_Attributes, attributes, Phase::set_up);
  attributes_ = named_values(attributes.attributes, attributes.num_attributes);
}

Plugin::~Plugin() = default;

std::string Plugin::api_version() const {
  const PJRT_Api_Version& version = api_->table().pjrt_api_version;
  return std::to_string(version.major_version) + "." + std::to_string(version.minor_version);
}

std::string Plugin::identity() const {
  std::string text = "pjrt_api=" + api_version();
  for (const NamedValue& attribute : attributes_) text += " " + to_string(attribute);
  return text;
}

}  // namespace megacpp::runtime::pjrt
