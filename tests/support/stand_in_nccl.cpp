// SPDX-License-Identifier: Apache-2.0
// NCCL where there is none: see stand_in_nccl.h.
#include "tests/support/stand_in_nccl.h"

#include <cstddef>

namespace {

megacpp::stand_in_nccl::State state;

struct UniqueId {
  char bytes[128];
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
int ncclCommInitRank(void** comm, int, UniqueId, int) {
  *comm = &state;
  return state.result;
}
int ncclCommDestroy(void*) { return 0; }
int ncclCommAbort(void*) { return 0; }
int ncclCommGetAsyncError(void*, int* result) {
  *result = state.result;
  return 0;
}
int ncclGroupStart() { return 0; }
int ncclGroupEnd() { return state.result; }
int ncclSend(const void*, size_t, int, int, void*, void*) { return state.result; }
int ncclRecv(void*, size_t, int, int, void*, void*) { return state.result; }
const char* ncclGetErrorString(int) { return "unhandled system error"; }
const char* ncclGetLastError(void*) { return "socket closed"; }

}  // extern "C"
