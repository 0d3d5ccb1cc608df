// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/step_timer.h"

#include "megacpp/core/base/error.h"

namespace megacpp::runtime {
namespace {

double seconds_of(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

size_t StepTimer::op_number(std::string_view program, std::string_view op) {
  for (size_t i = 0; i < ops_.size(); ++i)
    if (ops_[i].program == program && ops_[i].op == op) return i;
  ops_.push_back({.program = std::string(program), .op = std::string(op)});
  return ops_.size() - 1;
}

void StepTimer::reserve(size_t pieces, size_t calls) {
  trace_.reserve(calls * static_cast<size_t>(options_.trace_steps));
  if (!uses_marks()) return;
  most_marked_ = pieces;
  marked_.reserve(pieces);
  queue_->reserve_marks(pieces + 1);
}

// With an idle queue the host's clock tells when the step begins on the device.
void StepTimer::begin_step() {
  if (!uses_marks()) return;
  queue_->wait();
  marked_.clear();
  begin_ = seconds_of(std::chrono::steady_clock::now() - options_.trace_from);
  queue_->mark(0);
}

void StepTimer::end_step() {
  if (!uses_marks()) return;
  queue_->wait();
  double start = begin_;
  for (size_t i = 0; i < marked_.size(); ++i) {
    const double end = start + queue_->seconds_between(i, i + 1);
    add(marked_[i], start, end);
    start = end;
  }
}

void StepTimer::count(const Piece& piece, Moment start, Moment end) {
  add(piece, seconds_of(start - options_.trace_from), seconds_of(end - options_.trace_from));
}

void StepTimer::add(const Piece& piece, double start, double end) {
  parts_.*piece.part += end - start;
  if (piece.program == nullptr) return;
  if (options_.per_op) ops_[piece.op].seconds += end - start;
  if (trace_.size() < trace_.capacity()) trace_.push_back({piece.program, piece.node, start, end});
}

void StepTimer::end_marked(const Piece& piece) {
  MEGACPP_CHECK(marked_.size() < most_marked_) << "a step has more than " << most_marked_ << " pieces";
  marked_.push_back(piece);
  queue_->mark(marked_.size());
}

}  // namespace megacpp::runtime
