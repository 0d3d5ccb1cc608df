// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/step_graph.h"

#include <chrono>
#include <string>
#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int kRelaxedCapture = 2;  // as the driver has it: threads of other chips take part
constexpr std::chrono::milliseconds kLookForFailures(10);

}  // namespace

size_t StepGraph::join(Stream* stream) {
  chips_.emplace_back(stream, options_.driver);
  return chips_.size() - 1;
}

void StepGraph::release() {
  if (step_ != nullptr) options_.driver.graph_exec_destroy.attempt(std::exchange(step_, nullptr));
  chips_.clear();
}

void StepGraph::run(size_t chip, const std::function<void()>& enqueue) {
  if (!std::exchange(chips_[chip].has_run, true)) return enqueue();
  if (step_ == nullptr) record(chip, enqueue);
  launch(chip);
}

// A stream that takes part is in the capture until that has ended.
void StepGraph::record(size_t chip, const std::function<void()>& enqueue) {
  if (chip == 0)
    capture(enqueue);
  else
    enqueue_captured(chip, enqueue);
  arrive_and_wait();  // the capture has ended
}

// What a failed capture leaves behind is dropped: the failure itself is what counts.
void StepGraph::capture(const std::function<void()>& enqueue) {
  Stream* const first = chips_[0].stream;
  options_.driver.stream_begin_capture(first, kRelaxedCapture);
  try {
    mark(0);
    enqueue_captured(0, enqueue);
    join_others();
  } catch (...) {
    Graph* graph = nullptr;
    options_.driver.stream_end_capture.attempt(first, &graph);
    if (graph != nullptr) options_.driver.graph_destroy.attempt(graph);
    throw;
  }
  keep_captured();
}

void StepGraph::enqueue_captured(size_t chip, const std::function<void()>& enqueue) {
  arrive_and_wait();  // the capture has begun
  wait_for_first(chip);
  enqueue();
  if (chip > 0) mark(chip);
  arrive_and_wait();  // all is captured
}

void StepGraph::keep_captured() {
  const Driver& driver = options_.driver;
  Graph* graph = nullptr;
  driver.stream_end_capture(chips_[0].stream, &graph);
  const Result made = driver.graph_instantiate.attempt(&step_, graph, 0);
  driver.graph_destroy.attempt(graph);
  if (made != kSuccess) raise_failed_call("cuGraphInstantiateWithFlags", made);
  driver.graph_upload(step_, chips_[0].stream);
}

// Behind what every chip has on its stream, and before what each puts there next.
void StepGraph::launch(size_t chip) {
  if (chip > 0) mark(chip);
  arrive_and_wait();
  if (chip == 0) {
    join_others();
    options_.driver.graph_launch(step_, chips_[0].stream);
    mark(0);
  }
  arrive_and_wait();
  wait_for_first(chip);
}

void StepGraph::mark(size_t chip) { options_.driver.event_record(chips_[chip].mark.get(), chips_[chip].stream); }

void StepGraph::join_others() {
  for (size_t other = 1; other < chips_.size(); ++other)
    options_.driver.stream_wait_event(chips_[0].stream, chips_[other].mark.get(), 0);
}

void StepGraph::wait_for_first(size_t chip) {
  if (chip > 0) options_.driver.stream_wait_event(chips_[chip].stream, chips_[0].mark.get(), 0);
}

// Returns when the threads of all chips are here.
void StepGraph::arrive_and_wait() {
  if (options_.chips == 1) return;
  std::unique_lock lock(mutex_);
  const int64_t mine = generation_;
  if (++arrived_ == options_.chips) {
    arrived_ = 0;
    ++generation_;
    all_arrived_.notify_all();
    return;
  }
  while (generation_ == mine) {
    all_arrived_.wait_for(lock, kLookForFailures);
    MEGACPP_REQUIRE(generation_ != mine || !options_.has_failed(), E3101,
                    ({.where = "the step of " + std::to_string(options_.chips) + " chips of one process",
                      .got = "another chip of this process failed",
                      .wanted = "all of them to enqueue the step",
                      .next = "mend what that chip reports"}));
  }
}

}  // namespace megacpp::runtime::cuda
