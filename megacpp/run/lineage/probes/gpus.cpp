// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs, their driver and the libraries that kernels on them load: as the driver shows them under /proc, or where
// a container hides that, as libcuda says. It and the libraries are loaded in a child process: a driver that is broken
// may hang.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <map>
#include <sstream>

#include "megacpp/core/base/child_process.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/path.h"
#include "megacpp/machine/cuda/gpu.h"
#include "megacpp/machine/plugins/nvidia_devices.h"
#include "megacpp/machine/plugins/plugin_identity.h"
#include "megacpp/run/lineage/probe.h"

namespace megacpp::lineage {
namespace {

namespace fs = std::filesystem;
namespace cuda = runtime::cuda;

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

/// As libcuda names them.
std::vector<std::string> models_by(const cuda::Driver& driver) {
  std::vector<std::string> models;
  for (int index = 0; index < cuda::device_count(driver); ++index)
    models.push_back(cuda::read_properties(driver, index).name);
  return models;
}

bool has_cuda_device(const Subject& subject) {
  const fs::path& root = subject.surroundings.root;
  return base::exists(root / "dev/nvidiactl") || base::exists(root / "dev/dxg");
}

/// As libcuda says in a child; none where no device of a driver is here.
std::string by_libcuda(const Subject& subject, const std::function<std::string(const cuda::Driver&)>& ask) {
  if (!has_cuda_device(subject)) return kNone;
  return base::run_in_child([&] { return ask(cuda::open_driver(cuda::driver_place({}))); }, kDriverLimit);
}

std::string gpus_here(const Subject& subject) {
  const std::vector<std::string> models = models_in(subject.surroundings.root / kDriverFolder);
  if (!models.empty()) return counted(models);
  return by_libcuda(subject, [](const cuda::Driver& driver) { return counted(models_by(driver)); });
}

std::string driver_here(const Subject& subject) {
  const std::string version =
      runtime::plugins::driver_version(text_of(subject.surroundings.root / kDriverFolder / "version"));
  if (!version.empty()) return version;
  return by_libcuda(subject, [](const cuda::Driver& driver) { return "CUDA " + cuda::version_text(driver.version); });
}

/// "13.1.0, /usr/local/cuda/lib64/libcublasLt.so.13", of one that kernels on the devices here would load.
std::string library_here(const Subject& subject, cuda::LibraryKind kind) {
  if (!has_cuda_device(subject)) return kNone;
  try {
    const cuda::Library library = cuda::open_library(kind, {});
    return fmt::format("{}, {}", cuda::version_of(library), library.file().string());
  } catch (const base::Error& error) {
    if (error.code() != base::Code::E1509) throw;
    return kNone;  // other backends need none of ours
  }
}

Probe library_probe(const cuda::LibraryInfo& info) {
  return {.name = "gpu." + info.name,
          .group = "gpus",
          .pins = Pins::by_doctor,
          .time_limit = kDriverLimit,
          .ask = [kind = info.kind](const Subject& subject) { return library_here(subject, kind); },
          .fix =
              [package = info.package](const std::string& documented) {
                return fmt::format("pip install {} of the version of {}", package, documented);
              }};
}

}  // namespace

std::vector<Probe> gpus_probes() {
  std::vector<Probe> probes = {
      {.name = "gpus",
       .group = "gpus",
       .pins = Pins::at_launch,
       .ask = gpus_here,
       .fix = [](const std::string& documented) { return "run on a machine with " + documented; }},
      {.name = "gpu.driver",
       .group = "gpus",
       .pins = Pins::at_launch,
       .ask = driver_here,
       .fix = [](const std::string& documented) { return "bring the driver back to " + documented; }}};
  for (const cuda::LibraryInfo& info : cuda::all_libraries()) probes.push_back(library_probe(info));
  return probes;
}

}  // namespace megacpp::lineage
