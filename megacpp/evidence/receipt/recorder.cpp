// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/recorder.h"

#include <new>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/stopwatch.h"
#include "megacpp/core/base/utc_time.h"
#include "megacpp/evidence/receipt/steps.h"
#include "megacpp/evidence/receipt/store.h"
#include "megacpp/evidence/receipt/text.h"
#include "megacpp/evidence/receipt/throttling.h"
#include "megacpp/evidence/receipt/verdict.h"
#include "megacpp/run/launch/runs_folder.h"
#include "megacpp/run/train/step_log.h"

namespace megacpp::receipt {

Recorder::Recorder(const launch::Launch& launch, std::filesystem::path run, RunFacts facts, int64_t first_step)
    : launch_(launch),
      run_(std::move(run)),
      facts_(std::move(facts)),
      first_step_(first_step),
      started_at_(base::utc_now()),
      load_start_(std::chrono::steady_clock::now()) {}

Receipt Recorder::receipt_now() {
  Receipt receipt = planned_receipt(launch_, facts_);
  if (!along_step_ || along_step_->changes != receipt.ladder.changes) {
    std::vector<FamilyMemory> memory = memory_along_step(launch_);
    along_step_ = AlongStep{receipt.ladder.changes, std::move(memory)};
  }
  receipt.memory.along_step = along_step_->memory;
  receipt.run = base::absolute(run_).lexically_normal().filename().string();
  receipt.ending.started_at = started_at_;
  receipt.ending.first_step = receipt.ending.steps = first_step_;
  receipt.times.load_seconds = load_seconds_;
  for (const base::TimedPart& part : start_)
    receipt.times.start.push_back({.name = part.name, .seconds = part.seconds, .note = part.note});
  return receipt;
}

void Recorder::begin(const std::vector<base::TimedPart>& start) {
  if (first_step_ >= launch_.recipe().train.steps) return;
  start_ = start;
  load_seconds_ = base::seconds_since(load_start_);
  store([this] {
    // Of other devices than this machine's cores nothing is known.
    if (!launch_.estimate().signature.build.processor.empty()) throttled_before_ = count_throttling();
    return receipt_now();
  });
}

void Recorder::finish(const launch::Trained& trained) {
  if (!load_seconds_) return;
  store([&] {
    Receipt receipt = receipt_now();
    add_trained(receipt, launch_, trained);
    receipt.counters.throttled = throttled();
    receipt.ending.ended_at = base::utc_now();
    launch_.log({.topic = "receipt", .text = to_text(verdict_of(receipt))});
    return receipt;
  });
}

void Recorder::fail(const std::exception& error) {
  if (!load_seconds_ && launch::is_run(run_)) return;
  store([&] {
    Receipt receipt = receipt_now();
    if (load_seconds_) add_steps(receipt, train::read_log(run_ / "log.jsonl").reports);
    add_failure(receipt, error);
    receipt.counters.throttled = throttled();
    receipt.ending.ended_at = base::utc_now();
    return receipt;
  });
}

std::optional<int64_t> Recorder::throttled() const {
  if (!throttled_before_) return std::nullopt;
  const std::optional<int64_t> now = count_throttling();
  return now ? std::optional(*now - *throttled_before_) : std::nullopt;
}

void Recorder::store(const std::function<Receipt()>& make) {
  const auto start = std::chrono::steady_clock::now();
  try {
    write_receipt(make(), run_);
  } catch (const base::Error& error) {
    launch_.log({.topic = "receipt", .text = "not written: " + error.problem().where + ": " + error.problem().got});
  } catch (const std::bad_alloc&) {
    launch_.log({.topic = "receipt", .text = "not written: no memory for it"});
  }
  seconds_ += base::seconds_since(start);
}

}  // namespace megacpp::receipt
