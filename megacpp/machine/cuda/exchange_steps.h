// SPDX-License-Identifier: Apache-2.0
// What one member of a collective does whose other members are on other devices, with nothing but messages between
// pairs: what is not in one piece is packed, every other member gets its bytes and sends ours, and what has come is
// unpacked or added up in the order of the group. So sums have the bits of all other transports, at the bytes on the
// wire of a ring: each member sends (n - 1)/n of an operand that is scattered, and twice that of one that is reduced.
// Arithmetic on shapes and addresses; needs no device and never allocates.
#pragma once

#include <cstdint>
#include <span>

#include "megacpp/machine/collectives/call.h"
#include "megacpp/machine/cuda/driver.h"
#include "megacpp/machine/cuda/kernels/collective_params.h"

namespace megacpp::runtime::cuda {

/// Does the steps in their order, each when all before it are done.
class ExchangeSteps {
 public:
  virtual ~ExchangeSteps() = default;

  /// One launch on this member's device.
  virtual void move(const CollectiveParams& table) = 0;

  /// Messages between begin() and end() pass each other. Between two members they are taken in the order of sending,
  /// and have the same sizes at both ends.
  struct Message {
    int64_t member;  // the other
    Address address;
    int64_t bytes;
  };
  virtual void begin_messages() = 0;
  virtual void send(const Message& message) = 0;
  virtual void receive(const Message& message) = 0;
  virtual void end_messages() = 0;
};

/// Members whose terms one launch adds up.
inline constexpr int64_t kMaxExchangeMembers = kMaxAddresses - 1;

/// Bytes that a collective wants as Call::workspace: terms of sums, and what is packed. Plans ask it of every
/// collective, so this is where a sum of more than kMaxExchangeMembers is refused: E1505.
int64_t exchange_workspace(const collectives::Call& call, int64_t members);

/// The steps of the member that `call` is of; of a send and its receive the sender is member 0. `scratch`: room for
/// an address a member.
void run_exchange(const collectives::Call& call, std::span<Address> scratch, ExchangeSteps& steps);

}  // namespace megacpp::runtime::cuda
