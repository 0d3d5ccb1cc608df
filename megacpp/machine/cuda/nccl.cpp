// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/nccl.h"

namespace megacpp::runtime::cuda {

static_assert(sizeof(NcclConfig) == 24, "ncclConfig_t of NCCL 2.14");

std::string nccl_version_text(int version) {
  return std::to_string(version / 10'000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Nccl::Nccl(const Library& library)
    : get_unique_id_(library.function<NcclResult(NcclUniqueId*)>("ncclGetUniqueId")),
      comm_init_rank_config_(
          library.function<NcclResult(NcclComm**, int, NcclUniqueId, int, NcclConfig*)>("ncclCommInitRankConfig")),
      comm_destroy_(library.function<NcclResult(NcclComm*)>("ncclCommDestroy")),
      comm_abort_(library.function<NcclResult(NcclComm*)>("ncclCommAbort")),
      comm_get_async_error_(library.function<NcclResult(NcclComm*, NcclResult*)>("ncclCommGetAsyncError")),
      group_start_(library.function<NcclResult()>("ncclGroupStart")),
      group_end_(library.function<NcclResult()>("ncclGroupEnd")),
      send_(library.function<NcclResult(const void*, size_t, int, int, NcclComm*, Stream*)>("ncclSend")),
      recv_(library.function<NcclResult(void*, size_t, int, int, NcclComm*, Stream*)>("ncclRecv")),
      get_error_string_(library.function<const char*(NcclResult)>("ncclGetErrorString")),
      get_last_error_(library.function<const char*(NcclComm*)>("ncclGetLastError")) {
  int version = 0;
  library.function<NcclResult(int*)>("ncclGetVersion")(&version);
  version_ = nccl_version_text(version);
  MEGACPP_REQUIRE(version >= kOldestNccl, E1509,
                  ({.where = library.file().string(),
                    .got = "NCCL " + version_,
                    .wanted = "NCCL " + nccl_version_text(kOldestNccl) + " or later",
                    .next = "install a newer one: pip install nvidia-nccl-cu13"}));
}

void Nccl::check(NcclResult result, const char* what) const {
  MEGACPP_REQUIRE(result == kNcclSuccess || result == kNcclInProgress, E3104,
                  ({.where = "NCCL " + version_ + ", " + what,
                    .got = std::string(get_error_string_(result)) + ": " + get_last_error_(nullptr),
                    .wanted = "GPUs of all processes that reach each other",
                    .next = "NCCL_DEBUG=INFO says more; how processes share GPUs stands in docs/hosts.md"}));
}

NcclUniqueId Nccl::unique_id() const {
  NcclUniqueId id = {};
  check(get_unique_id_(&id), "ncclGetUniqueId");
  return id;
}

NcclComm* Nccl::join(const Joining& joining) const {
  NcclComm* comm = nullptr;
  NcclConfig config;
  check(comm_init_rank_config_(&comm, joining.ranks, joining.id, joining.rank, &config), "ncclCommInitRankConfig");
  return comm;
}

bool Nccl::is_ready(NcclComm* comm, const char* what) const {
  NcclResult state = kNcclSuccess;
  check(comm_get_async_error_(comm, &state), "ncclCommGetAsyncError");
  check(state, what);
  return state == kNcclSuccess;
}

std::string Nccl::failure(NcclComm* comm) const {
  NcclResult state = kNcclSuccess;
  const NcclResult asked = comm_get_async_error_(comm, &state);
  const NcclResult result = asked == kNcclSuccess ? state : asked;
  if (result == kNcclSuccess || result == kNcclInProgress) return "";
  return "NCCL: " + std::string(get_error_string_(result)) + ": " + get_last_error_(comm);
}

void Nccl::send(const Message& message) const {
  check(send_(reinterpret_cast<const void*>(message.address), message.bytes, kNcclUint8, message.peer, message.comm,
              message.stream),
        "ncclSend");
}

void Nccl::receive(const Message& message) const {
  check(recv_(reinterpret_cast<void*>(message.address), message.bytes, kNcclUint8, message.peer, message.comm,
              message.stream),
        "ncclRecv");
}

// In the words of the driver, which the library repeats.
bool is_out_of_memory(const base::Error& error) {
  return error.code() == base::Code::E3104 && error.problem().got.find("out of memory") != std::string::npos;
}

}  // namespace megacpp::runtime::cuda
