// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/pipeline_schedule.h"

#include <algorithm>
#include <optional>

#include "megacpp/core/base/error.h"

namespace megacpp::plan {
namespace {

using recipe::StageSchedule;

size_t index_of(int64_t i) { return static_cast<size_t>(i); }

// ---- Building ----

// What the schedules differ in. All run `warm_up` forwards, then a forward and a backward in turn, then what is left.
struct Line {
  std::vector<Step> forwards;
  std::vector<Step> backwards;  // in the same order of micro-batches on every stage
  int64_t warm_up = 0;
  std::optional<int64_t> weight_delay = {};  // set: backward in two parts, the weight part so many backwards later
};

std::vector<Step> steps_of(const Line& line) {
  std::vector<Step> steps;
  const size_t count = line.forwards.size();
  const auto part = [](Step step, StepKind kind) {
    step.kind = kind;
    return step;
  };
  size_t next_forward = 0, next_weight = 0;
  while (next_forward < std::min(count, index_of(line.warm_up))) steps.push_back(line.forwards[next_forward++]);
  for (size_t b = 0; b < count; ++b) {
    if (next_forward < count) steps.push_back(line.forwards[next_forward++]);
    if (!line.weight_delay) {
      steps.push_back(line.backwards[b]);
      continue;
    }
    steps.push_back(part(line.backwards[b], StepKind::backward_input));
    if (b >= index_of(*line.weight_delay))
      steps.push_back(part(line.backwards[next_weight++], StepKind::backward_weight));
  }
  while (line.weight_delay && next_weight < count)
    steps.push_back(part(line.backwards[next_weight++], StepKind::backward_weight));
  return steps;
}

std::vector<Step> in_turn(StepKind kind, int64_t micros) {
  std::vector<Step> steps;
  for (int64_t micro = 0; micro < micros; ++micro) steps.push_back({kind, 0, micro});
  return steps;
}

std::vector<Step> gpipe(const PipelineShape& shape, int64_t) {
  return steps_of({.forwards = in_turn(StepKind::forward, shape.micros),
                   .backwards = in_turn(StepKind::backward, shape.micros),
                   .warm_up = shape.micros});
}

std::vector<Step> one_forward_one_backward(const PipelineShape& shape, int64_t stage) {
  return steps_of({.forwards = in_turn(StepKind::forward, shape.micros),
                   .backwards = in_turn(StepKind::backward, shape.micros),
                   .warm_up = shape.stages - stage - 1});
}

// The weight part waits `stage` backwards: the later a stage starts, the more of its weight work is left for the bubble
// at the end. Every stage then holds at most `stages` micro-batches, as many as the first one does under 1f1b.
std::vector<Step> zero_bubble(const PipelineShape& shape, int64_t stage) {
  return steps_of({.forwards = in_turn(StepKind::forward, shape.micros),
                   .backwards = in_turn(StepKind::backward, shape.micros),
                   .warm_up = shape.stages - stage - 1,
                   .weight_delay = stage});
}

// Groups of `stages` micro-batches pass through all chunks before the next group starts. A last group that is not full
// would let a stage run ahead of what it waits for and lock up, so it is scheduled as if it were full and the
// micro-batches that do not exist are left out: no step waits for another micro-batch, so nothing can miss them.
std::vector<Step> interleaved(const PipelineShape& shape, int64_t stage) {
  Line line;
  for (int64_t first = 0; first < shape.micros; first += shape.stages) {
    for (int64_t chunk = 0; chunk < shape.chunks; ++chunk) {
      for (int64_t micro = first; micro < first + shape.stages; ++micro) {
        line.forwards.push_back({StepKind::forward, chunk, micro});
        line.backwards.push_back({StepKind::backward, shape.chunks - 1 - chunk, micro});
      }
    }
  }
  line.warm_up = 2 * (shape.stages - stage - 1) + (shape.chunks - 1) * shape.stages;
  std::vector<Step> steps = steps_of(line);
  std::erase_if(steps, [&](const Step& step) { return step.micro >= shape.micros; });
  return steps;
}

std::vector<Step> steps_of_stage(StageSchedule kind, const PipelineShape& shape, int64_t stage) {
  switch (kind) {
    case StageSchedule::gpipe:
      return gpipe(shape, stage);
    case StageSchedule::one_f_one_b:
      return one_forward_one_backward(shape, stage);
    case StageSchedule::interleaved:
      return interleaved(shape, stage);
    case StageSchedule::zero_bubble:
      return zero_bubble(shape, stage);
  }
  return {};
}

void require_shape(StageSchedule kind, const PipelineShape& shape) {
  const std::string name(base::text_of(kind));
  MEGACPP_REQUIRE(shape.stages >= 1 && shape.micros >= 1 && shape.chunks >= 1, E1003,
                  {.where = "pipeline schedule " + name,
                   .got = std::to_string(shape.stages) + " stages, " + std::to_string(shape.micros) +
                          " micro-batches, " + std::to_string(shape.chunks) + " chunks",
                   .wanted = "at least 1 of each"});
  MEGACPP_REQUIRE(shape.chunks == 1 || kind == StageSchedule::interleaved, E1003,
                  {.where = "pipeline schedule " + name,
                   .got = std::to_string(shape.chunks) + " chunks per stage",
                   .wanted = "1",
                   .next = "use the interleaved schedule, or one chunk"});
}

// ---- Simulating ----

std::string describe(int64_t stage, const Step& step) {
  static const std::vector<std::string> names = {"forward", "backward", "backward_input", "backward_weight"};
  return "stage " + std::to_string(stage) + ": " + names[static_cast<size_t>(step.kind)] + " of chunk " +
         std::to_string(step.chunk) + ", micro " + std::to_string(step.micro);
}

// When one micro-batch was done on one model stage. A whole backward ends the input part too.
struct Progress {
  std::optional<double> forward_end, input_end;
};

class Simulator {
 public:
  Simulator(const PipelineSchedule& schedule, const StepCosts& costs)
      : shape_(schedule.shape),
        schedule_(schedule),
        costs_(costs),
        progress_(index_of(shape_.stages * shape_.chunks * shape_.micros)),
        next_(index_of(shape_.stages), 0),
        now_(index_of(shape_.stages), 0.0),
        busy_(index_of(shape_.stages), 0.0) {}

  Simulation run() {
    MEGACPP_CHECK(schedule_.steps.size() == index_of(shape_.stages)) << "a schedule lists the steps of every stage";
    Simulation result;
    for (int64_t stage = 0; stage < shape_.stages && result.legal; ++stage) result.legal = check_complete(stage);
    if (!result.legal) return result;
    result.legal = execute();
    if (!result.legal) return result;
    result.makespan = *std::max_element(now_.begin(), now_.end());
    for (const double busy : busy_) result.bubble.push_back(1.0 - busy / result.makespan);
    for (int64_t stage = 0; stage < shape_.stages; ++stage) assign_slots(stage, result);
    return result;
  }

 private:
  const std::vector<Step>& steps(int64_t stage) const { return schedule_.steps[index_of(stage)]; }

  Progress& progress(int64_t model_stage, int64_t micro) {
    return progress_[index_of(model_stage * shape_.micros + micro)];
  }

  // Every (chunk, micro) once forward, and once backward: whole or in both parts.
  base::Decision check_complete(int64_t stage) const {
    struct Count {
      int forward = 0, input = 0, weight = 0;
    };
    std::vector<Count> counts(index_of(shape_.chunks * shape_.micros));
    for (const Step& step : steps(stage)) {
      if (step.chunk < 0 || step.chunk >= shape_.chunks || step.micro < 0 || step.micro >= shape_.micros)
        return base::Decision::no(describe(stage, step) + " does not exist");
      Count& count = counts[index_of(step.chunk * shape_.micros + step.micro)];
      const bool is_whole = step.kind == StepKind::backward;
      if (step.kind == StepKind::forward) ++count.forward;
      if (step.kind == StepKind::backward_input || is_whole) ++count.input;
      if (step.kind == StepKind::backward_weight || is_whole) ++count.weight;
      if (count.forward > 1 || count.input > 1 || count.weight > 1)
        return base::Decision::no(describe(stage, step) + " is repeated");
    }
    for (int64_t chunk = 0; chunk < shape_.chunks; ++chunk) {
      for (int64_t micro = 0; micro < shape_.micros; ++micro) {
        const Count& count = counts[index_of(chunk * shape_.micros + micro)];
        const auto missing = [&](StepKind kind) {
          return base::Decision::no(describe(stage, {kind, chunk, micro}) + " is missing");
        };
        if (count.forward == 0) return missing(StepKind::forward);
        if (count.input == 0 && count.weight == 0) return missing(StepKind::backward);
        if (count.input == 0) return missing(StepKind::backward_input);
        if (count.weight == 0) return missing(StepKind::backward_weight);
      }
    }
    return base::Decision::yes();
  }

  // When everything the step waits for has ended; nothing while something has not.
  std::optional<double> ready_at(int64_t stage, const Step& step) {
    const int64_t model_stage = step.chunk * shape_.stages + stage;
    const int64_t last = shape_.stages * shape_.chunks - 1;
    const Progress& own = progress(model_stage, step.micro);
    const auto later = [](const std::optional<double>& a, const std::optional<double>& b) {
      return a && b ? std::optional(std::max(*a, *b)) : std::nullopt;
    };
    switch (step.kind) {
      case StepKind::forward:
        return model_stage == 0 ? 0.0 : progress(model_stage - 1, step.micro).forward_end;
      case StepKind::backward:
      case StepKind::backward_input:
        return model_stage == last ? own.forward_end
                                   : later(own.forward_end, progress(model_stage + 1, step.micro).input_end);
      case StepKind::backward_weight:
        return own.input_end;
    }
    return std::nullopt;
  }

  void finish(int64_t stage, const Step& step, double ready) {
    double& now = now_[index_of(stage)];
    now = std::max(now, ready) + costs_.of(step.kind);
    busy_[index_of(stage)] += costs_.of(step.kind);
    Progress& own = progress(step.chunk * shape_.stages + stage, step.micro);
    if (step.kind == StepKind::forward) own.forward_end = now;
    if (step.kind == StepKind::backward || step.kind == StepKind::backward_input) own.input_end = now;
  }

  // Runs whatever can run until nothing can. End times do not depend on the order in which stages are looked at.
  base::Decision execute() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int64_t stage = 0; stage < shape_.stages; ++stage) {
        size_t& next = next_[index_of(stage)];
        for (; next < steps(stage).size(); ++next) {
          const std::optional<double> ready = ready_at(stage, steps(stage)[next]);
          if (!ready) break;
          finish(stage, steps(stage)[next], *ready);
          moved = true;
        }
      }
    }
    std::string waiting;
    for (int64_t stage = 0; stage < shape_.stages; ++stage) {
      const size_t next = next_[index_of(stage)];
      if (next == steps(stage).size()) continue;
      waiting += (waiting.empty() ? "" : "; ") + describe(stage, steps(stage)[next]) + " waits forever";
    }
    return waiting.empty() ? base::Decision::yes() : base::Decision::no(waiting);
  }

  // A stage runs one step after the other, so the lowest free slot at each forward needs no more slots than are in
  // flight at once.
  void assign_slots(int64_t stage, Simulation& result) const {
    const size_t chunks = index_of(shape_.chunks);
    std::vector<std::vector<int64_t>> slots(chunks, std::vector<int64_t>(index_of(shape_.micros)));
    std::vector<std::vector<bool>> taken(chunks);
    std::vector<std::vector<int>> parts_left(chunks, std::vector<int>(index_of(shape_.micros), 2));
    for (const Step& step : steps(stage)) {
      const size_t chunk = index_of(step.chunk), micro = index_of(step.micro);
      if (step.kind == StepKind::forward) {
        const auto free = std::find(taken[chunk].begin(), taken[chunk].end(), false);
        slots[chunk][micro] = free - taken[chunk].begin();
        if (free == taken[chunk].end()) taken[chunk].push_back(false);
        taken[chunk][index_of(slots[chunk][micro])] = true;
        continue;
      }
      parts_left[chunk][micro] -= step.kind == StepKind::backward ? 2 : 1;
      if (parts_left[chunk][micro] == 0) taken[chunk][index_of(slots[chunk][micro])] = false;
    }
    std::vector<int64_t> in_flight;
    for (const std::vector<bool>& of_chunk : taken) in_flight.push_back(static_cast<int64_t>(of_chunk.size()));
    result.in_flight.push_back(std::move(in_flight));
    result.slots.push_back(std::move(slots));
  }

  const PipelineShape shape_;
  const PipelineSchedule& schedule_;
  const StepCosts& costs_;
  std::vector<Progress> progress_;  // [model stage, micro]
  std::vector<size_t> next_;        // [stage]
  std::vector<double> now_, busy_;  // [stage]
};

}  // namespace

double StepCosts::of(StepKind kind) const {
  switch (kind) {
    case StepKind::forward:
      return forward;
    case StepKind::backward:
      return backward;
    case StepKind::backward_input:
      return backward_input;
    case StepKind::backward_weight:
      return backward_weight;
  }
  return 0;
}

PipelineSchedule build_schedule(StageSchedule kind, const PipelineShape& shape) {
  require_shape(kind, shape);
  PipelineSchedule schedule{.kind = kind, .shape = shape, .steps = {}};
  for (int64_t stage = 0; stage < shape.stages; ++stage) schedule.steps.push_back(steps_of_stage(kind, shape, stage));
  return schedule;
}

std::string to_text(const PipelineSchedule& schedule) {
  constexpr std::string_view kLetters = "FBIW";
  std::string text;
  for (const std::vector<Step>& line : schedule.steps) {
    for (size_t i = 0; i < line.size(); ++i) {
      if (i > 0) text += ' ';
      text += kLetters[static_cast<size_t>(line[i].kind)];
      text += std::to_string(line[i].chunk) + '.' + std::to_string(line[i].micro);
    }
    text += '\n';
  }
  return text;
}

Simulation simulate(const PipelineSchedule& schedule, const StepCosts& costs) {
  return Simulator(schedule, costs).run();
}

int64_t Simulation::slot_of(int64_t stage, int64_t chunk, int64_t micro) const {
  return slots.at(index_of(stage)).at(index_of(chunk)).at(index_of(micro));
}

}  // namespace megacpp::plan
