// SPDX-License-Identifier: Apache-2.0
// How parameters are updated, as a recipe says it: which optimizer, its hyper-parameters, parameter groups, clipping,
// and the learning-rate schedule. What each optimizer is stands in its record (optimizer_def.h), each schedule in its
// own (schedule.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/core/base/words.h"
#include "megacpp/core/ir/dtype.h"

namespace megacpp::optim {

/// Size of the update of a matrix of in x out.
enum class MuonScale : uint8_t { match_rms_adamw, original };
constexpr auto words_of(MuonScale) {
  return std::to_array<base::Word<MuonScale>>(
      {{MuonScale::match_rms_adamw, "match_rms_adamw",
        "0.2 sqrt(max(in, out)), to share AdamW's learning rate (Liu et al. 2025)"},
       {MuonScale::original, "original", "sqrt(max(1, out / in)) (Jordan et al. 2024)"}});
}

/// The curve of the rate's decay at the end.
enum class WsdShape : uint8_t { sqrt, linear, cosine };
constexpr auto words_of(WsdShape) {
  return std::to_array<base::Word<WsdShape>>({{WsdShape::sqrt, "sqrt", "by 1 - sqrt(progress) (Haegele et al. 2024)"},
                                              {WsdShape::linear, "linear"},
                                              {WsdShape::cosine, "cosine"}});
}

/// Momentum orthogonalised by Newton-Schulz iterations; see muon.cpp.
struct Muon {
  double momentum = 0.95;
  bool nesterov = true;
  int64_t iterations = 5;
  ir::DType precision = ir::DType::f32;  // of the iterations and of what travels for them
  MuonScale scale = MuonScale::match_rms_adamw;

  bool operator==(const Muon&) const = default;
};

/// The decay at the end of a warm-up, stable, decay schedule.
struct Wsd {
  double decay = 0.2;  // part of all steps
  WsdShape shape = WsdShape::sqrt;

  bool operator==(const Wsd&) const = default;
};

struct Optimizer {
  std::string name = "adamw";  // of a record in optimizer_list.inc
  double lr = 3e-4;
  double min_lr_ratio = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double momentum = 0.9;
  Muon muon = {};
  double weight_decay = 0.1;
  /// Parameters without weight decay: kinds (blocks/parameter.h) and patterns of names; see parameter_groups.h.
  std::vector<std::string> no_decay = {"norm", "bias", "recurrence"};
  double clip = 1.0;  // 0 = off
  int64_t warmup_steps = 0;
  std::string schedule = "cosine";  // of a record in schedule.h
  Wsd wsd = {};

  bool operator==(const Optimizer&) const = default;
};

/// The rate of step `step` (from 0) out of `steps`: linear warm-up, which reaches lr with its last step, then the
/// schedule. One that decays reaches min_lr_ratio * lr where step `steps` would be.
double learning_rate(const Optimizer& optimizer, int64_t step, int64_t steps);

}  // namespace megacpp::optim
