// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/toolbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/thread_pool.h"
#include "megacpp/machine/cuda/cublaslt.h"
#include "megacpp/machine/cuda/nvrtc.h"
#include "megacpp/machine/runtime/processor.h"

namespace megacpp::runtime::cuda {
namespace {

// As the driver has them.
constexpr unsigned kNonBlocking = 1;
constexpr int kStaticShared = 1, kLocal = 3, kRegisters = 4, kMaxDynamicShared = 8;

// Keys of generated modules cannot be names of files.
std::string key_of_source(const std::string& source) { return "generated\n" + source; }

}  // namespace

Borrowed::~Borrowed() { driver_->mem_free.attempt(address_); }

Toolbox::Toolbox(const Driver& driver, Options options) : driver_(driver), options_(std::move(options)) {
  driver_.stream_create(&stream_, kNonBlocking);
}

Toolbox::~Toolbox() {
  products_.reset();
  for (const auto& [key, module] : modules_) driver_.module_unload.attempt(module);
  driver_.stream_destroy.attempt(stream_);
}

Function Toolbox::function(std::string_view cubin, std::string_view name) {
  const auto at = modules_.find(std::string(cubin));
  if (at != modules_.end()) return function_of(at->second, name);
  const std::span<const std::byte> code = options_.find_cubin(cubin);
  MEGACPP_REQUIRE(!code.empty(), E1505,
                  {.where = fmt::format("kernel {}", cubin),
                   .got = "a build without nvcc, which has no device code",
                   .wanted = "a build with the CUDA kernels",
                   .next = "install the CUDA toolkit (nvcc 12 or later) and build again"});
  return function_of(modules_.emplace(cubin, load_module(code.data())).first->second, name);
}

Function Toolbox::generated(const std::string& source, std::string_view name) {
  generate({&source, 1});
  return function_of(modules_.at(key_of_source(source)), name);
}

// A set: no two threads compile the same. Modules belong to the context, which is current on this thread alone.
void Toolbox::generate(std::span<const std::string> sources) {
  std::set<std::string> missing;
  for (const std::string& source : sources)
    if (!modules_.contains(key_of_source(source))) missing.insert(source);
  if (missing.empty()) return;
  const std::vector<std::string> texts(missing.begin(), missing.end());
  std::vector<std::vector<char>> code(texts.size());
  std::vector<std::exception_ptr> errors(texts.size());
  Nvrtc& shared = compiler();
  base::ThreadPool threads(std::min(available_threads(), static_cast<int>(texts.size())));
  threads.for_each(std::ssize(texts), [&](int64_t item, int) {
    const auto at = static_cast<size_t>(item);
    try {
      code[at] = shared.cubin(texts[at]);
    } catch (...) {
      errors[at] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  for (size_t i = 0; i < texts.size(); ++i) modules_.emplace(key_of_source(texts[i]), load_module(code[i].data()));
}

Nvrtc& Toolbox::compiler() {
  if (!compiler_) compiler_ = std::make_unique<Nvrtc>(library(LibraryKind::nvrtc), options_.properties.architecture());
  return *compiler_;
}

CublasLt& Toolbox::products() {
  if (!products_) products_ = std::make_unique<CublasLt>(library(LibraryKind::cublaslt));
  return *products_;
}

Module* Toolbox::load_module(const void* image) {
  Module* module = nullptr;
  driver_.module_load_data(&module, image);
  return module;
}

// Asking for attributes loads the function, where the driver would wait with that for its first launch.
Function Toolbox::function_of(Module* module, std::string_view name) const {
  Function function{.driver = &driver_, .name = std::string(name)};
  driver_.module_get_function(&function.handle, module, function.name.c_str());
  driver_.func_get_attribute(&function.registers, kRegisters, function.handle);
  driver_.func_get_attribute(&function.static_shared_bytes, kStaticShared, function.handle);
  driver_.func_get_attribute(&function.local_bytes, kLocal, function.handle);
  driver_.func_set_attribute(
      function.handle, kMaxDynamicShared,
      static_cast<int>(options_.properties.shared_bytes_per_block) - function.static_shared_bytes);
  return function;
}

std::unique_ptr<Borrowed> Toolbox::borrow(int64_t bytes) const {
  Address address = 0;
  const Result result = driver_.mem_alloc.attempt(&address, static_cast<size_t>(bytes));
  if (result == kOutOfMemory) return nullptr;
  if (result != kSuccess) raise_failed_call("cuMemAlloc_v2", result);
  return std::make_unique<Borrowed>(driver_, address);
}

double Toolbox::seconds_of(const std::function<void(Stream*)>& work) const {
  Event *begin = nullptr, *end = nullptr;
  driver_.event_create(&begin, 0);
  driver_.event_create(&end, 0);
  driver_.event_record(begin, stream_);
  work(stream_);
  driver_.event_record(end, stream_);
  driver_.event_synchronize(end);
  float milliseconds = 0;
  driver_.event_elapsed_time(&milliseconds, begin, end);
  driver_.event_destroy.attempt(begin);
  driver_.event_destroy.attempt(end);
  return static_cast<double>(milliseconds) / 1e3;
}

}  // namespace megacpp::runtime::cuda
