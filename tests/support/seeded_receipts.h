// SPDX-License-Identifier: Apache-2.0
// Receipts of runs that nobody made: a recipe with overrides, and step times drawn from a seed.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/core/base/philox.h"
#include "megacpp/evidence/receipt/receipt.h"
#include "megacpp/evidence/receipt/recipe_header.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/print.h"

namespace megacpp::testing_support {

struct SeededRun {
  std::string name;
  std::vector<std::string> overrides = {};  // of recipes/nam56r-tiny.yaml
  double arithmetic = 0.08;                 // seconds of a step
  double links = 0.01;
  double other = 0.01;
  int64_t steps = 200;  // in the steady window, each timed
  uint64_t seed = 1;
};

inline receipt::Times seeded_times(const SeededRun& run, int64_t tokens) {
  const base::Philox random(run.seed, run.name);
  receipt::Times times;
  times.samples = {.first_step = 5, .steps_each = 1, .seconds = {}};
  double seconds = 0, noise = 0;
  for (int64_t i = 0; i < run.steps; ++i) {
    noise = 0.5 * noise + 0.01 * random.normal(static_cast<uint64_t>(i));
    times.samples.seconds.push_back((run.arithmetic + run.links + run.other) * std::exp(noise));
    seconds += times.samples.seconds.back();
  }
  times.steady = receipt::Phase{.first_step = 5, .steps = run.steps, .tokens = run.steps * tokens, .seconds = seconds};
  times.parts =
      receipt::Parts{.arithmetic = run.arithmetic, .memory = 0, .links = run.links, .bubble = 0, .other = run.other};
  return times;
}

/// Finished and comparable. Weights take 100 MB and activations 40 MB of its one kind of chip.
inline receipt::Receipt seeded_receipt(const SeededRun& run) {
  const recipe::Recipe recipe =
      recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml", run.overrides);
  receipt::Receipt receipt;
  receipt.run = run.name;
  receipt.header = receipt::recipe_header(recipe);
  receipt.header.hardware.processor = "a processor";
  receipt.header.versions.code = "0.1.0+1";
  receipt.recipe = recipe::print(recipe);
  receipt.ending.kind = receipt::EndingKind::finished;
  receipt.ending.steps = receipt.ending.requested_steps = run.steps + 5;
  receipt.times = seeded_times(run, receipt.header.batch.tokens);
  receipt::ChipGroup chips;
  chips.chips = 1;
  chips.place = "chip 0";
  chips.planned_bytes = 141'000'000;
  chips.items = {{.role = "weight", .family = "A", .bytes = 100'000'000},
                 {.role = "activation", .family = "M", .bytes = 40'000'000}};
  receipt.memory.planned = {chips};
  receipt.collectives = std::vector<receipt::Collective>{
      {.stage = 0, .axes = "data", .kind = "all_gather", .calls = 4, .bytes = 10'000'000}};
  return receipt;
}

}  // namespace megacpp::testing_support
