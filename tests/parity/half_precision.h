// SPDX-License-Identifier: Apache-2.0
// Gradients of a recipe computed in bf16 against those in f32, with the error that the format allows.
//
// A number rounded to bf16 is off by at most u = 2^-8 of itself (eight bits, the leading one among them). Products add
// up in f32, so a contraction does not grow the error of its operands: their roundings are independent, and so their
// sum keeps the relative error of one. Each rounding on the way from the batch through the loss back to a gradient adds
// one such error, and independent errors add as squares: after d roundings in a row the relative error of a tensor is
// sqrt(d) u, and a small multiple of it where terms cancel. d is counted in the compiled program: the largest number of
// results stored in bf16 on any way to the gradient, so that it grows with the model's depth.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::testing_support {

inline constexpr double kHalfRoundoff = 0x1p-8;
/// For terms that cancel in sums over tokens.
inline constexpr double kCancellation = 4;

struct GradientRun {
  std::map<std::string, std::vector<float>> gradients;     // by parameter
  std::map<std::string, int64_t> roundings;                // by parameter: in a row on the way to its gradient
  std::map<std::string, std::vector<float>> expert_loads;  // by block: requests that each expert got
};

/// One micro-batch of random tokens on one chip, with weights by the recipe's seed, in its precision.
GradientRun run_gradients(recipe::Recipe recipe, const runtime::Backend& backend);

/// One line for each gradient of the bf16 run that is missing, equal to the f32 one to the bit, or off by more than
/// kCancellation * sqrt(roundings) * kHalfRoundoff, by Euclidean norm.
std::string half_precision_problems(const GradientRun& half, const GradientRun& single);

using RunOfSeed = std::function<GradientRun(int64_t seed)>;
/// The same at seed 1. A router whose scores are nearly equal may choose another expert in bf16, and gradients of
/// another choice are no rounding error: then, and only then, the next seed is taken, up to `seeds`, and the test says
/// so.
std::string half_precision_problems(const RunOfSeed& half, const RunOfSeed& single, int64_t seeds);

}  // namespace megacpp::testing_support
