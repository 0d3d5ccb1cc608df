// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/unread_keys.h"

#include <iterator>

namespace megacpp::train {
namespace {

using Lines = std::vector<recipe::IgnoredKey>;

constexpr const char* kNoTraining = "nothing is trained";
constexpr const char* kNoRun = "nothing is computed";
constexpr const char* kOneChip = "one chip of this machine generates";
constexpr const char* kGiven = "the weights are given";

Lines always() {
  return {{.key = "name", .decides = "nothing here is called by it"},
          {.key = "lora.", .decides = "adapters come with the weights they adapt"},
          {.key = "train.micro_steps", .decides = kNoTraining},
          {.key = "train.global_batch", .decides = kNoTraining},
          {.key = "train.steps", .decides = kNoTraining},
          {.key = "train.recompute", .decides = kNoTraining},
          {.key = "train.recompute.", .decides = kNoTraining},
          {.key = "train.log_every", .decides = kNoTraining},
          {.key = "ladder.", .decides = "only training takes less where memory runs out"},
          {.key = "optimizer.", .decides = kNoTraining},
          {.key = "checkpoint.", .decides = "nothing is saved"}};
}

Lines of_generation() {
  return {{.key = "data.", .decides = "prompts are the text"},
          {.key = "train.batch", .decides = "prompts are the batch"},
          {.key = "train.sequence", .decides = "prompts and --max-tokens say how long sequences are"},
          {.key = "train.wait_limit", .decides = kOneChip},
          {.key = "layout.", .decides = kOneChip},
          {.key = "hardware.", .decides = kOneChip},
          {.key = "backend", .decides = "generation runs on backend cpu"},
          {.key = "xla.", .decides = "generation runs on backend cpu"}};
}

Lines of_evaluation() { return {{.key = "data.", .decides = "--text names what is read"}}; }

Lines of_conversion() {
  return {{.key = "data.", .decides = kNoRun},
          {.key = "train.batch", .decides = kNoRun},
          {.key = "train.sequence", .decides = kNoRun},
          {.key = "train.precision", .decides = "--dtype says how tensors are written"},
          {.key = "train.threads", .decides = kNoRun},
          {.key = "train.wait_limit", .decides = kNoRun},
          {.key = "layout.", .decides = kNoRun},
          {.key = "hardware.", .decides = kNoRun},
          {.key = "backend", .decides = kNoRun},
          {.key = "xla.", .decides = kNoRun}};
}

Lines of_given_weights() {
  return {{.key = "train.seed", .decides = kGiven},
          {.key = "model.init_std", .decides = kGiven},
          {.key = "model.mamba.dt_min", .decides = kGiven},
          {.key = "model.mamba.dt_max", .decides = kGiven},
          {.key = "model.mamba.dt_floor", .decides = kGiven}};
}

Lines of_use(ModelUse use) {
  switch (use) {
    case ModelUse::generation:
      return of_generation();
    case ModelUse::evaluation:
      return of_evaluation();
    case ModelUse::conversion:
      return of_conversion();
  }
  return {};
}

}  // namespace

Lines unread_keys(const ModelReading& reading) {
  Lines lines = always();
  const auto add = [&lines](Lines more) {
    lines.insert(lines.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  add(of_use(reading.use));
  if (reading.weights == WeightOrigin::given) add(of_given_weights());
  return lines;
}

}  // namespace megacpp::train
