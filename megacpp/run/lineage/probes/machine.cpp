// SPDX-License-Identifier: Apache-2.0
// The program, the system and what the machine has of processors and memory.
#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "megacpp/core/base/machine_memory.h"
#include "megacpp/machine/plugins/plugin_fetch.h"
#include "megacpp/machine/runtime/processor.h"
#include "megacpp/run/lineage/probe.h"

namespace megacpp::lineage {
namespace {

/// Debian GNU/Linux 12 (bookworm)
std::string system_name(const Subject& subject) {
  constexpr std::string_view kKey = "PRETTY_NAME=";
  std::ifstream file(subject.surroundings.root / "etc/os-release");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kKey)) continue;
    std::string name = line.substr(kKey.size());
    std::erase(name, '"');
    return name;
  }
  return kNone;
}

std::string kernel_release(const Subject&) {
  struct utsname name = {};
  return ::uname(&name) == 0 ? name.release : kNone;
}

/// "gcc 12.2.0, optimised": sources of one version are fast or slow by how they were compiled.
std::string build_text(const Subject&) {
#ifdef __clang__
  std::string text = __VERSION__;  // it has the compiler's name
#else
  std::string text = "gcc " __VERSION__;
#endif
#ifdef __OPTIMIZE__
  text += ", optimised";
#else
  text += ", not optimised";
#endif
#ifdef __SANITIZE_ADDRESS__
  text += ", address sanitizer";
#endif
#ifdef __SANITIZE_THREAD__
  text += ", thread sanitizer";
#endif
  return text;
}

std::string processor_name(const Subject&) {
  const std::string name = runtime::this_processor().name();
  return name.empty() ? kNone : name;
}

/// All of it, or the limit of the container around us if that is less: what is free is of the moment.
std::string memory_size(const Subject& subject) {
  int64_t bytes = std::numeric_limits<int64_t>::max();
  std::ifstream meminfo(subject.surroundings.root / "proc/meminfo");
  for (std::string name; meminfo >> name;) {
    int64_t kibibytes = 0;
    if (name == "MemTotal:" && meminfo >> kibibytes) bytes = kibibytes * 1024;
  }
  bytes = std::min(bytes, base::container_memory_limit(subject.surroundings.root).value_or(bytes));
  if (bytes == std::numeric_limits<int64_t>::max()) return kNone;
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(int64_t{1} << 30));
}

std::function<std::string(const std::string&)> same_machine(const std::string& what) {
  return [what](const std::string& documented) { return fmt::format("run on a machine with {} {}", what, documented); };
}

}  // namespace

std::vector<Probe> machine_probes() {
  const auto made = [](const char* name, std::function<std::string(const Subject&)> ask,
                       std::function<std::string(const std::string&)> fix) {
    return Probe{
        .name = name, .group = "machine", .pins = Pins::at_launch, .ask = std::move(ask), .fix = std::move(fix)};
  };
  return {made(
              "megacpp", [](const Subject& subject) { return subject.code_version; },
              [](const std::string& documented) { return "build the sources of " + documented; }),
          made("build", build_text,
               [](const std::string& documented) { return fmt::format("build it again with {}", documented); }),
          {.name = "architecture",  // of a lock file as a whole
           .group = "machine",
           .ask = [](const Subject&) { return runtime::plugins::this_machine(); }},
          made("system", system_name, same_machine("system")),
          made("kernel", kernel_release, same_machine("kernel")),
          made("processor", processor_name, same_machine("processor")),
          made(
              "cores", [](const Subject&) { return std::to_string(runtime::available_threads()); },
              [](const std::string& documented) {
                return fmt::format("give the process {} cores (taskset, the container's limits)", documented);
              }),
          made("memory", memory_size, same_machine("memory"))};
}

}  // namespace megacpp::lineage
