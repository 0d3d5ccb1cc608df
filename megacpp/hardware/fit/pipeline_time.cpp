// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/pipeline_time.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "megacpp/core/base/error.h"

namespace megacpp::fit {
namespace {

// Stages run as far as they can; one that lacks a message is taken up again when it is sent, so nothing is looked at
// twice.
class Clockwork {
 public:
  explicit Clockwork(const std::vector<StageWork>& stages)
      : stages_(stages), next_(stages.size(), 0), now_(stages.size(), 0.0) {
    for (const StageWork& stage : stages)
      for (const StageWork::Run& run : stage.runs) micros_ = std::max(micros_, run.micro + 1);
  }

  double run() {
    for (size_t stage = 0; stage < stages_.size(); ++stage) ready_.push_back(stage);
    while (!ready_.empty()) {
      const size_t stage = ready_.back();
      ready_.pop_back();
      go_on(stage);
    }
    for (size_t stage = 0; stage < stages_.size(); ++stage)
      MEGACPP_CHECK(next_[stage] == stages_[stage].runs.size()) << "stage " << stage << " waits forever";
    return now_.empty() ? 0 : *std::ranges::max_element(now_);
  }

 private:
  using Message = int64_t;
  Message message(int64_t tag, int64_t micro) const { return tag * micros_ + micro; }

  void go_on(size_t stage) {
    for (; next_[stage] < stages_[stage].runs.size(); ++next_[stage]) {
      const StageWork::Run& run = stages_[stage].runs[next_[stage]];
      const StageWork::Program& program = stages_[stage].programs[run.program];
      const std::optional<double> start = when_all_are_here(stage, program, run.micro);
      if (!start) return;
      now_[stage] = *start + program.seconds;
      for (const int64_t tag : program.sends) send(message(tag, run.micro), *start + program.sent_after);
    }
  }

  std::optional<double> when_all_are_here(size_t stage, const StageWork::Program& program, int64_t micro) {
    double start = now_[stage];
    for (const int64_t tag : program.receives) {
      const auto at = arrived_.find(message(tag, micro));
      if (at == arrived_.end()) {
        waiting_[message(tag, micro)] = stage;
        return std::nullopt;
      }
      start = std::max(start, at->second);
    }
    return start;
  }

  void send(Message message, double arrives) {
    arrived_[message] = arrives;
    const auto waiting = waiting_.find(message);
    if (waiting == waiting_.end()) return;
    ready_.push_back(waiting->second);
    waiting_.erase(waiting);
  }

  const std::vector<StageWork>& stages_;
  int64_t micros_ = 1;
  std::vector<size_t> next_;                     // run of each stage
  std::vector<double> now_;                      // of each stage
  std::vector<size_t> ready_;                    // stages that may go on
  std::unordered_map<Message, double> arrived_;  // and when
  std::unordered_map<Message, size_t> waiting_;  // the stage that does
};

}  // namespace

double StageWork::busy() const {
  double seconds = 0;
  for (const Run& run : runs) seconds += programs[run.program].seconds;
  return seconds;
}

double pipeline_seconds(const std::vector<StageWork>& stages) { return Clockwork(stages).run(); }

std::vector<StageWork> even_work(const plan::PipelineSchedule& schedule, const plan::StepCosts& costs) {
  const int64_t last = schedule.shape.stages * schedule.shape.chunks - 1;
  std::vector<StageWork> stages;
  for (size_t stage = 0; stage < schedule.steps.size(); ++stage) {
    StageWork work;
    std::map<std::pair<int64_t, plan::StepKind>, size_t> known;
    for (const plan::Step& step : schedule.steps[stage]) {
      const auto [at, is_new] = known.try_emplace({step.chunk, step.kind}, work.programs.size());
      if (is_new) {
        // Boundary b is behind part b of the model: tag 2b goes forward over it, 2b + 1 back.
        const int64_t part = step.chunk * schedule.shape.stages + static_cast<int64_t>(stage);
        const bool is_forward = step.kind == plan::StepKind::forward;
        StageWork::Program program{.seconds = costs.of(step.kind)};
        program.sent_after = program.seconds;
        std::vector<int64_t>& before = is_forward ? program.receives : program.sends;
        std::vector<int64_t>& behind = is_forward ? program.sends : program.receives;
        if (step.kind != plan::StepKind::backward_weight) {
          if (part > 0) before.push_back(2 * (part - 1) + (is_forward ? 0 : 1));
          if (part < last) behind.push_back(2 * part + (is_forward ? 0 : 1));
        }
        work.programs.push_back(std::move(program));
      }
      work.runs.push_back({at->second, step.micro});
    }
    stages.push_back(std::move(work));
  }
  return stages;
}

}  // namespace megacpp::fit
