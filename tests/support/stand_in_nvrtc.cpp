// SPDX-License-Identifier: Apache-2.0
// NVRTC where there is none: any source "compiles" to its own text. See stand_in_cuda.h.
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "tests/support/stand_in_cuda.h"

namespace {

std::mutex mutex;
std::map<std::string, int> compiles;

const std::string& text_of(void* program) { return *static_cast<std::string*>(program); }

}  // namespace

extern "C" {

std::map<std::string, int>* megacpp_stand_in_compiles() { return &compiles; }

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
const char* nvrtcGetErrorString(int) { return "NVRTC_ERROR"; }
int nvrtcCreateProgram(void** program, const char* source, const char*, int, const char* const*, const char* const*) {
  if (source == nullptr) return 1;
  *program = new std::string(source);
  return 0;
}
int nvrtcDestroyProgram(void** program) {
  delete static_cast<std::string*>(*program);
  *program = nullptr;
  return 0;
}
int nvrtcCompileProgram(void* program, int, const char* const*) {
  const std::scoped_lock lock(mutex);
  ++compiles[text_of(program)];
  return text_of(program) == megacpp::stand_in_cuda::kRefusedSource ? 1 : 0;
}
int nvrtcGetCUBINSize(void* program, size_t* bytes) {
  *bytes = text_of(program).size() + 1;
  return 0;
}
int nvrtcGetCUBIN(void* program, char* code) {
  std::memcpy(code, text_of(program).c_str(), text_of(program).size() + 1);
  return 0;
}
int nvrtcGetProgramLogSize(void*, size_t* bytes) {
  *bytes = 1;
  return 0;
}
int nvrtcGetProgramLog(void*, char* log) {
  *log = '\0';
  return 0;
}

}  // extern "C"
