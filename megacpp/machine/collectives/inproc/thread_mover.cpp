// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/inproc/thread_mover.h"

#include "megacpp/core/base/error.h"

namespace megacpp::collectives {

ThreadMover::ThreadMover(CallEngine& engine) : engine_(engine), pointers_(static_cast<size_t>(engine.chips())) {
  for (const int64_t chip : engine.local())
    pointers_[static_cast<size_t>(chip)].resize(static_cast<size_t>(2 * engine.chips()));
}

void ThreadMover::mark(InFlight&, Stream stream) {
  MEGACPP_CHECK(stream.handle == nullptr) << "chips are threads here: this transport knows no other stream";
}

void ThreadMover::begin_remote(EngineLock&, InFlight& message) {
  MEGACPP_CHECK(false) << chip_text(message.call->peer) << " is in no other process";
}

bool ThreadMover::advance(EngineLock& lock, InFlight& call) {
  return call.rendezvous ? make_step(lock, call) : copy_message(lock, call);
}

bool ThreadMover::make_step(EngineLock& lock, InFlight& call) {
  Rendezvous& rendezvous = *call.rendezvous;
  const int64_t index = call.call->group->index, step = rendezvous.gates_passed(index);
  if (!rendezvous.is_step_due(index)) return false;
  Member member = {.calls = rendezvous.calls(), .index = index};
  member.pointers = pointers_[static_cast<size_t>(call.chip)];
  if (!prepare(call, step, member)) return false;
  engine_.without_lock(lock, [&] { move_data(member, step); });
  rendezvous.pass(index);
  if (!rendezvous.all_passed(step + 1)) return true;
  engine_.wake_members(*call.group);
  on_passed(call, step + 1);
  return true;
}

bool ThreadMover::copy_message(EngineLock& lock, InFlight& recv) {
  if (recv.call->kind != Kind::recv || recv.other_end == nullptr || recv.is_moved) return false;
  InFlight& send = *recv.other_end;
  engine_.without_lock(lock, [&] { receive(*send.call, *recv.call); });
  send.is_moved = recv.is_moved = true;
  engine_.wake(send.chip);
  return true;
}

}  // namespace megacpp::collectives
