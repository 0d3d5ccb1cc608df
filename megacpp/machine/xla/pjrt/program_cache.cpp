// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/program_cache.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/machine/plugins/plugin_places.h"
#include "megacpp/machine/runtime/processor.h"
#include "megacpp/machine/xla/pjrt/client_state.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace megacpp::runtime::pjrt {
namespace {

constexpr std::string_view kMagic = "megacpp program 1\n";

std::string hex(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string hash_of(std::string_view bytes) { return hex(XXH3_128bits(bytes.data(), bytes.size())); }

/// Programs for a CPU depend on its instructions, which the plugin's version does not tell.
std::string instructions() {
  const Processor processor = this_processor();
  std::string text;
  for (const char* name : {"flags", "Features", "model name", "CPU part"}) text += processor.field(name) + "\n";
  return text;
}

/// Versions that a plugin states may stay the same from build to build; size and time of its file do not.
std::string file_stamp(const std::filesystem::path& file) {
  std::error_code ignored;  // what has a size has a time
  return std::to_string(base::file_bytes(file)) + " " +
         std::to_string(std::filesystem::last_write_time(file, ignored).time_since_epoch().count());
}

std::string key_of(const Client& client, std::string_view stablehlo, const CompileOptions& options) {
  const std::string platform = client.platform_name();
  std::string devices;
  for (const DeviceDescription& device : client.devices()) devices += device.kind + "\n";
  const plugins::Surroundings around = plugins::Surroundings::current();
  const std::array<std::string, 9> about = {encode(options),
                                            platform,
                                            client.platform_version(),
                                            client.plugin().identity(),
                                            file_stamp(client.plugin().file()),
                                            devices,
                                            platform == "cpu" ? instructions() : "",
                                            around.variable("XLA_FLAGS"),
                                            around.variable("LIBTPU_INIT_ARGS")};
  // Hashes one after another have fixed lengths, so that no text can pass for another by where it is cut.
  std::string parts = hash_of(stablehlo);
  for (const std::string& part : about) parts += hash_of(part);
  return hash_of(parts);
}

/// What stands in an entry: magic, key, checksum of the rest, the rest.
struct Entry {
  std::string payload;
  std::string cause;  // why there is no payload
};

Entry read_entry(const std::filesystem::path& path, std::string_view key) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {{}, "not in the cache"};
  std::string bytes;
  try {
    bytes = base::read_file(path);
  } catch (const base::Error&) {
    return {{}, "cache entry not readable"};
  }
  const size_t header = kMagic.size() + 2 * key.size();
  if (bytes.size() < header || !bytes.starts_with(kMagic)) return {{}, "cache entry damaged"};
  const std::string_view rest = std::string_view(bytes).substr(kMagic.size());
  if (rest.substr(0, key.size()) != key) return {{}, "cache entry of another program"};
  if (rest.substr(key.size(), key.size()) != hash_of(std::string_view(bytes).substr(header))) {
    return {{}, "cache entry damaged"};
  }
  return {bytes.substr(header), {}};
}

void write_entry(const std::filesystem::path& path, std::string_view key, std::string_view payload) {
  static std::mutex mutex;  // the temporary file is named by process
  const std::lock_guard lock(mutex);
  const std::string header = std::string(kMagic) + std::string(key) + hash_of(payload);
  const std::array parts = {std::as_bytes(std::span(header)), std::as_bytes(std::span(payload))};
  base::write_file_atomically(path, parts);
}

void require_writable(const std::filesystem::path& folder) {
  std::string probe = (folder / "probe.XXXXXX").string();
  const int file = ::mkstemp(probe.data());
  MEGACPP_REQUIRE(file >= 0, E3001,
                  ({.where = folder.string(),
                    .got = std::string("cannot create a file: ") + std::strerror(errno),
                    .wanted = "a folder to keep compiled programs in",
                    .next = "check its permissions, or name another folder"}));
  ::close(file);
  ::unlink(probe.c_str());
}

}  // namespace

ProgramCache::ProgramCache(std::filesystem::path folder) : folder_(std::move(folder)) {
  base::make_folder(folder_);
  require_writable(folder_);
}

std::filesystem::path ProgramCache::entry(const Client& client, std::string_view stablehlo,
                                          const CompileOptions& options) const {
  return folder_ / (key_of(client, stablehlo, options) + ".program");
}

LoadedProgram ProgramCache::compile(const Client& client, std::string_view stablehlo, const CompileOptions& options) {
  const std::string key = key_of(client, stablehlo, options);
  const std::filesystem::path path = folder_ / (key + ".program");
  Entry found = read_entry(path, key);
  if (found.cause.empty()) {
    try {
      LoadedProgram program = load_serialized(client, found.payload);
      client.state()->count([](Counters& counters) { counters.cache_hits += 1; });
      return program;
    } catch (const PluginError&) {  // running out of memory is none: the entry is sound, the device is full
      found.cause = "cache entry refused by the plugin";
    }
  }
  LoadedProgram program = pjrt::compile(client, stablehlo, options, found.cause);
  store(path, key, program.compiled());
  return program;
}

void ProgramCache::store(const std::filesystem::path& entry, std::string_view key, const CompiledProgram& program) {
  if (!stores_) return;
  try {
    write_entry(entry, key, program.serialize());
  } catch (const base::Error& error) {
    stores_ = base::Decision::no(error.problem().got);
  }
}

}  // namespace megacpp::runtime::pjrt
