// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs and their driver: as the driver shows them under /proc, or where a container hides that, as libcuda says,
// which is loaded at run time and in a child process: a driver that is broken may hang.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <fstream>
#include <map>
#include <sstream>

#include "megacpp/base/child_process.h"
#include "megacpp/base/error.h"
#include "megacpp/base/path.h"
#include "megacpp/lineage/probe.h"
#include "megacpp/runtime/plugins/nvidia_devices.h"
#include "megacpp/runtime/plugins/plugin_identity.h"

namespace megacpp::lineage {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kDriverLimit(10);
constexpr const char* kDriverFolder = "proc/driver/nvidia";

/// "2 x NVIDIA H200"; several kinds by name.
std::string counted(const std::vector<std::string>& models) {
  std::map<std::string, int> counts;
  for (const std::string& model : models) ++counts[model];
  std::vector<std::string> texts;
  for (const auto& [model, count] : counts) texts.push_back(fmt::format("{} x {}", count, model));
  return texts.empty() ? kNone : fmt::format("{}", fmt::join(texts, ", "));
}

/// Of a file of the driver; empty where it cannot be read.
std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string model_of(const fs::path& information) {
  const std::string model = runtime::plugins::model_of_device(text_of(information));
  return model.empty() ? "unnamed" : model;
}

std::vector<std::string> models_in(const fs::path& driver) {
  std::vector<std::string> models;
  for (const fs::path& gpu : base::list_folder(driver / "gpus")) models.push_back(model_of(gpu / "information"));
  return models;
}

/// libcuda's own functions, by the C interface that all its versions have.
class Libcuda {
 public:
  Libcuda() : library_(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
    MEGACPP_REQUIRE(library_ != nullptr, E3201,
                    {.where = "libcuda.so.1",
                     .got = std::string("cannot be loaded: ") + ::dlerror(),
                     .wanted = "the library of the driver whose devices are here",
                     .next = "mount the driver's libraries into the container, or install them"});
    call<int(unsigned)>("cuInit", 0U);
  }

  /// "CUDA 12.8", the newest that the driver runs.
  std::string version() const {
    int number = 0;
    call<int(int*)>("cuDriverGetVersion", &number);
    return fmt::format("CUDA {}.{}", number / 1000, number % 1000 / 10);
  }

  std::vector<std::string> models() const {
    int count = 0;
    call<int(int*)>("cuDeviceGetCount", &count);
    std::vector<std::string> models;
    for (int index = 0; index < count; ++index) {
      std::array<char, 256> name = {};
      int device = 0;
      call<int(int*, int)>("cuDeviceGet", &device, index);
      call<int(char*, int, int)>("cuDeviceGetName", name.data(), static_cast<int>(name.size()) - 1, device);
      models.emplace_back(name.data());
    }
    return models;
  }

 private:
  template <typename Function, typename... Args>
  void call(const char* name, Args... args) const {
    auto* const function = reinterpret_cast<Function*>(::dlsym(library_, name));
    const int status = function == nullptr ? -1 : function(args...);
    MEGACPP_REQUIRE(status == 0, E3201,
                    {.where = name,
                     .got = function == nullptr ? "libcuda has no such function" : fmt::format("CUDA error {}", status),
                     .wanted = "a driver that works",
                     .next = "see what nvidia-smi says; load the driver again"});
  }

  void* library_;  // stays loaded: what it started is not undone
};

bool has_cuda_device(const Subject& subject) {
  const fs::path& root = subject.surroundings.root;
  return base::exists(root / "dev/nvidiactl") || base::exists(root / "dev/dxg");
}

/// As libcuda says in a child; none where no device of a driver is here.
std::string by_libcuda(const Subject& subject, const std::function<std::string(const Libcuda&)>& ask) {
  if (!has_cuda_device(subject)) return kNone;
  return base::run_in_child([&] { return ask(Libcuda()); }, kDriverLimit);
}

std::string gpus_here(const Subject& subject) {
  const std::vector<std::string> models = models_in(subject.surroundings.root / kDriverFolder);
  if (!models.empty()) return counted(models);
  return by_libcuda(subject, [](const Libcuda& cuda) { return counted(cuda.models()); });
}

std::string driver_here(const Subject& subject) {
  const std::string version =
      runtime::plugins::driver_version(text_of(subject.surroundings.root / kDriverFolder / "version"));
  if (!version.empty()) return version;
  return by_libcuda(subject, [](const Libcuda& cuda) { return cuda.version(); });
}

}  // namespace

std::vector<Probe> gpus_probes() {
  return {{.name = "gpus",
           .group = "gpus",
           .pins = Pins::at_launch,
           .ask = gpus_here,
           .fix = [](const std::string& documented) { return "run on a machine with " + documented; }},
          {.name = "gpu.driver",
           .group = "gpus",
           .pins = Pins::at_launch,
           .ask = driver_here,
           .fix = [](const std::string& documented) { return "bring the driver back to " + documented; }}};
}

}  // namespace megacpp::lineage
