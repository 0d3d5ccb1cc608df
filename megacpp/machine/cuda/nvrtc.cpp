// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/nvrtc.h"

#include <array>
#include <optional>
#include <system_error>
#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::runtime::cuda {
namespace {

using NvrtcProgram = void*;
constexpr int kNvrtcSuccess = 0;
constexpr size_t kMostLogBytes = 4000;  // of an error message: the first complaints are the ones that count

// A version has many builds; size and time of the file tell them apart. The loader may have found it by its name alone.
std::string library_stamp(const std::filesystem::path& file) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(file, error);
  if (error) return file.string();
  const auto time = std::filesystem::last_write_time(file, error);
  return std::to_string(bytes) + " " + std::to_string(time.time_since_epoch().count());
}

}  // namespace

struct Nvrtc::Functions {
  explicit Functions(const Library& library)
      : get_version(library.function<int(int*, int*)>("nvrtcVersion")),
        error_text(library.function<const char*(int)>("nvrtcGetErrorString")),
        create(
            library.function<int(NvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*)>(
                "nvrtcCreateProgram")),
        destroy(library.function<int(NvrtcProgram*)>("nvrtcDestroyProgram")),
        compile(library.function<int(NvrtcProgram, int, const char* const*)>("nvrtcCompileProgram")),
        cubin_size(library.function<int(NvrtcProgram, size_t*)>("nvrtcGetCUBINSize")),
        get_cubin(library.function<int(NvrtcProgram, char*)>("nvrtcGetCUBIN")),
        log_size(library.function<int(NvrtcProgram, size_t*)>("nvrtcGetProgramLogSize")),
        get_log(library.function<int(NvrtcProgram, char*)>("nvrtcGetProgramLog")) {}

  int (*get_version)(int*, int*);
  const char* (*error_text)(int);
  int (*create)(NvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*);
  int (*destroy)(NvrtcProgram*);
  int (*compile)(NvrtcProgram, int, const char* const*);
  int (*cubin_size)(NvrtcProgram, size_t*);
  int (*get_cubin)(NvrtcProgram, char*);
  int (*log_size)(NvrtcProgram, size_t*);
  int (*get_log)(NvrtcProgram, char*);
};

struct Nvrtc::Program {
  explicit Program(const Functions& of) : functions(of) {}
  ~Program() { functions.destroy(&handle); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const Functions& functions;
  NvrtcProgram handle = nullptr;
};

Nvrtc::Nvrtc(const Library& library, std::string architecture, const std::filesystem::path& folder)
    : functions_(std::make_unique<const Functions>(library)), architecture_(std::move(architecture)) {
  int major = 0, minor = 0;
  check("nvrtcVersion", functions_->get_version(&major, &minor));
  version_ = std::to_string(major) + "." + std::to_string(minor);
  cache_ = std::make_unique<CubinCache>(folder, version_ + " " + architecture_ + " " + library_stamp(library.file()));
}

Nvrtc::~Nvrtc() = default;

void Nvrtc::check(const char* call, int result) const {
  MEGACPP_REQUIRE(result == kNvrtcSuccess, E3204,
                  {.where = call,
                   .got = functions_->error_text(result),
                   .wanted = "a call of NVRTC " + version_ + " that succeeds"});
}

std::string Nvrtc::log_of(const Program& program) const {
  size_t bytes = 0;
  check("nvrtcGetProgramLogSize", functions_->log_size(program.handle, &bytes));
  std::string log(bytes, '\0');
  check("nvrtcGetProgramLog", functions_->get_log(program.handle, log.data()));
  while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
  return log.size() <= kMostLogBytes ? log : log.substr(0, kMostLogBytes) + " ..";
}

std::vector<char> Nvrtc::cubin(const std::string& source) {
  if (std::optional<std::vector<char>> kept = cache_->find(source)) {
    ++cache_hits_;
    return std::move(*kept);
  }
  std::vector<char> made = compiled(source);
  ++compiles_;
  cache_->keep(source, made);
  return made;
}

std::vector<char> Nvrtc::compiled(const std::string& source) const {
  Program program(*functions_);
  check("nvrtcCreateProgram", functions_->create(&program.handle, source.c_str(), "generated.cu", 0, nullptr, nullptr));
  const std::string target = "--gpu-architecture=" + architecture_;
  const std::array<const char*, 2> options = {target.c_str(), "--std=c++17"};
  const int result = functions_->compile(program.handle, static_cast<int>(options.size()), options.data());
  if (result != kNvrtcSuccess)
    base::raise(base::Code::E3204, {.where = "NVRTC " + version_ + " for " + architecture_,
                                    .got = std::string(functions_->error_text(result)) + ": " + log_of(program),
                                    .wanted = "generated device code that compiles"});
  size_t bytes = 0;
  check("nvrtcGetCUBINSize", functions_->cubin_size(program.handle, &bytes));
  std::vector<char> cubin(bytes);
  check("nvrtcGetCUBIN", functions_->get_cubin(program.handle, cubin.data()));
  return cubin;
}

}  // namespace megacpp::runtime::cuda
