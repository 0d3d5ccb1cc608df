// SPDX-License-Identifier: Apache-2.0
// NVRTC where there is none: any source "compiles" to a few bytes. See stand_in_cuda.h.
#include <cstddef>
#include <cstring>

namespace {

constexpr char kCode[] = "code";

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
const char* nvrtcGetErrorString(int) { return "NVRTC_ERROR"; }
int nvrtcCreateProgram(void** program, const char* source, const char*, int, const char* const*, const char* const*) {
  *program = const_cast<char*>(kCode);
  return source == nullptr ? 1 : 0;
}
int nvrtcDestroyProgram(void** program) {
  *program = nullptr;
  return 0;
}
int nvrtcCompileProgram(void*, int, const char* const*) { return 0; }
int nvrtcGetCUBINSize(void*, size_t* bytes) {
  *bytes = sizeof kCode;
  return 0;
}
int nvrtcGetCUBIN(void*, char* code) {
  std::memcpy(code, kCode, sizeof kCode);
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
