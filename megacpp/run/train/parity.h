// SPDX-License-Identifier: Apache-2.0
// Compares a model of ours with a golden file of a public reference implementation: builds the model from the file's
// configuration alone, runs forward and backward, and measures every output and every gradient.
// A golden file holds tensors param.*, buffer.*, in.*, out.*, grad.*; its metadata key `meta` names the class and the
// configuration.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::train {

struct ParityRow {
  std::string name;  // as in the golden file: "out.logits", "grad.lm_head.weight"
  double max_abs_error = 0;
  double relative_error = 0;  // |ours - theirs| / |theirs|, Euclidean
  double tolerance = 0;
  bool passed = false;
};

struct ParityReport {
  std::string model_class;
  std::string pattern;
  std::vector<ParityRow> rows;
  bool passed() const;
};

inline constexpr double kOutputTolerance = 1e-5;
inline constexpr double kGradientTolerance = 1e-4;

/// `settings` says how it runs: layout, threads, and the backend's own section; the model is the file's. E1201 or E1202
/// when the file cannot be read or its class is unknown; E1203 when a tensor of either side has no counterpart of the
/// same shape; E1102 when a token is outside the vocabulary. An illegal layout is refused as for training.
/// `options` are the compiler's.
ParityReport run_parity(const std::filesystem::path& file, const recipe::Recipe& settings,
                        const runtime::Backend& backend, const compile::Options& options = {});

}  // namespace megacpp::train
