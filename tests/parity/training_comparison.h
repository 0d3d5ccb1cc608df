// SPDX-License-Identifier: Apache-2.0
// "The layout never changes the result", tested by training one recipe on one chip and on many.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/train/parity.h"

namespace megacpp::testing_support {

inline constexpr double kRunTolerance = 1e-4;   // relative: losses, and parameters by Euclidean norm
inline constexpr double kNormTolerance = 1e-3;  // relative: gradient norms
/// Relative, by Euclidean norm: what the optimizer keeps for a parameter. AdamW divides a gradient by its own size, so
/// that a parameter hardly shows whether its gradient was right or twice as large; its moments do.
inline constexpr double kMomentTolerance = 1e-3;

/// Where two experts score almost alike, another order of summing may choose the other one, and no tolerance is wide
/// enough for what follows. A recipe stands on such an edge when its one-chip run moves beyond the tolerances though
/// its weights start off by no more than a rounding error; what stays put on one chip must do so on many.
struct Comparison {
  std::string problems;  // a line each, the largest difference first; empty: the layout changed nothing
  bool on_edge = false;  // the problems say nothing about the layout
};

/// Relative; infinity: not compared.
struct Tolerances {
  double losses = kRunTolerance;
  double norms = kNormTolerance;
  double dropped = 0;  // requests are counted, so they must be equal
  double parameters = kRunTolerance;
  double moments = kMomentTolerance;  // of every trainable parameter
};

/// Trains the recipe in its layout and on one chip, both on the CPU backend: losses, gradient norms, requests that
/// experts dropped, the final parameters and optimizer state, and on every chip measured against planned memory. The
/// text is of this repository, cut into short documents so that sequences of a few tokens cross their borders.
Comparison compare_with_one_chip(const recipe::Recipe& recipe);

/// The same with the layout on another backend, whose memory is not ours to plan; one chip is of the CPU backend.
Comparison compare_with_one_chip(const recipe::Recipe& recipe, const runtime::Backend& backend,
                                 const Tolerances& tolerances = {});

/// The layout on a backend against the same layout on the CPU backend in one process: what differs, and on which chips
/// measured memory is not the planned one; a line each, empty: nothing.
std::string compare_with_one_process(const recipe::Recipe& recipe, const runtime::Backend& backend,
                                     const Tolerances& tolerances);

/// "data_parallel=2 train.batch=4" as --set takes it: a word without a dot is a key of the layout.
std::vector<std::string> overrides_of(std::string_view words);

/// "data_parallel=2 policy=fsdp" as a name of a test: "data2_policy_fsdp".
std::string test_name(std::string_view words);

}  // namespace megacpp::testing_support
