// SPDX-License-Identifier: Apache-2.0
// NCCL where there is none: see stand_in_nccl.h.
#include "tests/support/stand_in_nccl.h"

#include <cstddef>

namespace {

megacpp::stand_in_nccl::State state;

struct UniqueId {
  char bytes[128];
};

struct Config {
  size_t size;
  unsigned magic, version;
  int blocking;
};

}  // namespace

extern "C" {

megacpp::stand_in_nccl::State* megacpp_stand_in_nccl() { return &state; }

int ncclGetVersion(int* version) {
  *version = state.version;
  return 0;
}
int ncclGetUniqueId(UniqueId* id) {
  *id = {};
  return state.result;
}
int ncclCommInitRankConfig(void** comm, int, UniqueId, int, const Config* config) {
  ++state.joins;
  state.blocking = config->blocking;
  if (state.on_join) state.on_join();
  *comm = &state;
  return state.result;
}
int ncclCommDestroy(void*) { return 0; }
int ncclCommAbort(void*) {
  ++state.aborts;
  return 0;
}
int ncclCommGetAsyncError(void*, int* result) {
  *result = state.async != 0 ? state.async.load() : state.result;
  return 0;
}
int ncclGroupStart() { return 0; }
int ncclGroupEnd() {
  ++state.ends;
  return state.result;
}
int ncclSend(const void*, size_t, int, int, void*, void*) { return state.result; }
int ncclRecv(void*, size_t, int, int, void*, void*) { return state.result; }
const char* ncclGetErrorString(int) { return "unhandled system error"; }
const char* ncclGetLastError(void*) { return state.last_error.c_str(); }

}  // extern "C"
