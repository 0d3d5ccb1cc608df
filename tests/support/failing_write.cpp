// SPDX-License-Identifier: Apache-2.0
// A library to preload: the functions that change files fail from a call on. MEGACPP_FAILING_WRITE is "28:5", the error
// and the number of calls that succeed before; "short:5" writes one byte of what it is given from then on, and
// succeeds. Calls on stderr are the system's own, so that a program can say what went wrong.
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

namespace {

struct Plan {
  int error = 0;    // 0: short writes
  long calls = -1;  // before the first that fails; -1: none does
};

Plan read_plan() {
  const char* const text = ::getenv("MEGACPP_FAILING_WRITE");
  const char* const colon = text == nullptr ? nullptr : ::strchr(text, ':');
  if (colon == nullptr) return {};
  return {.error = ::strncmp(text, "short", 5) == 0 ? 0 : ::atoi(text), .calls = ::atol(colon + 1)};
}

const Plan& plan() {
  static const Plan one = read_plan();
  return one;
}

bool fails(int file) {
  static std::atomic<long> calls{0};
  if (plan().calls < 0 || file == STDERR_FILENO) return false;
  return calls.fetch_add(1) >= plan().calls;
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// Calls `real` with the bytes to write, unless it has to fail.
template <typename Real>
ssize_t write_or_fail(int file, size_t bytes, Real real) {
  if (!fails(file)) return real(bytes);
  if (plan().error == 0) return real(bytes > 1 ? 1 : bytes);
  errno = plan().error;
  return -1;
}

int sync_or_fail(const char* name, int file) {
  if (fails(file) && plan().error != 0) {
    errno = plan().error;
    return -1;
  }
  return next<int(int)>(name)(file);
}

}  // namespace

#define MEGACPP_INTERPOSED extern "C" __attribute__((visibility("default")))

MEGACPP_INTERPOSED ssize_t write(int file, const void* data, size_t bytes) {
  return write_or_fail(file, bytes,
                       [=](size_t some) { return next<ssize_t(int, const void*, size_t)>("write")(file, data, some); });
}

MEGACPP_INTERPOSED ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t at) {
  return write_or_fail(file, bytes, [=](size_t some) {
    return next<ssize_t(int, const void*, size_t, off64_t)>("pwrite64")(file, data, some, at);
  });
}

MEGACPP_INTERPOSED size_t fwrite(const void* data, size_t size, size_t count, FILE* stream) {
  const bool own_error = fails(::fileno(stream)) && plan().error != 0;
  if (!own_error) return next<size_t(const void*, size_t, size_t, FILE*)>("fwrite")(data, size, count, stream);
  errno = plan().error;
  return 0;
}

MEGACPP_INTERPOSED int fsync(int file) { return sync_or_fail("fsync", file); }
MEGACPP_INTERPOSED int fdatasync(int file) { return sync_or_fail("fdatasync", file); }
