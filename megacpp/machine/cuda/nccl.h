// SPDX-License-Identifier: Apache-2.0
// NVIDIA's library of messages between GPUs, found and loaded at run time: the few of its functions that are called,
// with declarations of our own. The context of the GPU is current wherever one is called.
// Communicators do not block: what asks something of one returns before its other members have come, so that a wait for
// them has a limit and can be ended. is_ready() says when it is done; until then nothing else may be asked of it but
// abort(). Questions to one communicator are put by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cuda/driver.h"
#include "megacpp/machine/cuda/library.h"

namespace megacpp::runtime::cuda {

struct NcclComm;  // opaque: ncclComm_t is NcclComm*
using NcclResult = int;
inline constexpr NcclResult kNcclSuccess = 0, kNcclInProgress = 7;
inline constexpr int kNcclUint8 = 1;
inline constexpr int kOldestNccl = 2'18'00;  // 2.18

/// The part of ncclConfig_t that its version 2.14 has: newer libraries take their own defaults for the rest.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 2'14'00;
  int blocking = 0;
};

/// ncclUniqueId: made by one member, and handed to all the others.
struct NcclUniqueId {
  char bytes[128];
};

class Nccl {
 public:
  /// E1509 where the library lacks a function or is too old.
  explicit Nccl(const Library& library);

  const std::string& version() const { return version_; }  // "2.28.9"

  NcclUniqueId unique_id() const;
  struct Joining {
    NcclUniqueId id;
    int rank;
    int ranks;
  };
  /// Begins to join the others: it is joined once it is ready.
  NcclComm* join(const Joining& joining) const;
  /// Whether what it was last asked for is done. E3104 where that has failed: `what` it was.
  bool is_ready(NcclComm* comm, const char* what) const;
  /// Waits for what it has under way.
  void destroy(NcclComm* comm) const { comm_destroy_(comm); }
  /// Ends what it has under way.
  void abort(NcclComm* comm) const { comm_abort_(comm); }
  /// What has gone wrong since; empty: nothing.
  std::string failure(NcclComm* comm) const;

  /// Messages between these two pass each other. They are enqueued once the communicator is ready.
  void begin() const { check(group_start_(), "ncclGroupStart"); }
  void end() const { check(group_end_(), "ncclGroupEnd"); }
  struct Message {
    NcclComm* comm;
    int peer;  // rank in the communicator
    Address address;
    size_t bytes;
    Stream* stream;
  };
  void send(const Message& message) const;
  void receive(const Message& message) const;

 private:
  /// E3104 with what the library says.
  void check(NcclResult result, const char* what) const;

  std::string version_;
  NcclResult (*get_unique_id_)(NcclUniqueId*);
  NcclResult (*comm_init_rank_config_)(NcclComm**, int, NcclUniqueId, int, NcclConfig*);
  NcclResult (*comm_destroy_)(NcclComm*);
  NcclResult (*comm_abort_)(NcclComm*);
  NcclResult (*comm_get_async_error_)(NcclComm*, NcclResult*);
  NcclResult (*group_start_)();
  NcclResult (*group_end_)();
  NcclResult (*send_)(const void*, size_t, int, int, NcclComm*, Stream*);
  NcclResult (*recv_)(void*, size_t, int, int, NcclComm*, Stream*);
  const char* (*get_error_string_)(NcclResult);
  const char* (*get_last_error_)(NcclComm*);
};

/// Whether an error of these calls says that the GPU has no memory left for what the library keeps there.
bool is_out_of_memory(const base::Error& error);

/// "2.28.9" of 22809.
std::string nccl_version_text(int version);

}  // namespace megacpp::runtime::cuda
