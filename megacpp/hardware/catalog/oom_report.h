// SPDX-License-Identifier: Apache-2.0
// Memory that ran out, as the catalog keeps it: what was launched, where it failed and with which numbers, what the
// bytes were for, and every reduction that was tried with its outcome. All of it is plain values, so that a later
// version can print what an earlier one wrote.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/base/json.h"

namespace megacpp::catalog {

/// What was launched when memory ran out.
struct OomSubject {
  std::string model = {};    // name: "nam56r-tiny"
  std::string pattern = {};  // "AEME"
  int64_t depth = 0;         // blocks
  int64_t hidden = 0;
  int64_t batch = 0;  // sequences of a micro-step, all chips together
  int64_t sequence = 0;
  int64_t micro_steps = 0;
  std::string precision = {};
  std::string layout = {};  // "policy=spmd data_parallel=2 zero=1"
  std::string mesh = {};    // "data=2"
  std::string hardware = {};
  std::string backend = {};
};

/// Bytes and what they are for: a role, or one allocation and the block it belongs to.
struct OomBytes {
  std::string what = {};
  std::string scope = {};
  int64_t bytes = 0;
};

/// A rung of the ladder, or one of its offers.
struct Reduction {
  int64_t rung = 0;
  std::string name = {};      // "batch"
  std::string settings = {};  // "train.batch=4 train.micro_steps=2"; empty: the rung was skipped whole
  std::string outcome = {};   // "fits", "close", "not enough", "skipped", "refused"
  std::string reason = {};
  std::optional<int64_t> needed_bytes = {};  // of the worst chip
  std::optional<int64_t> limit_bytes = {};
};

struct OomReport {
  std::string code = {};       // "E2004"
  std::string oom_class = {};  // "runtime allocation"
  std::string phase = {};      // "planning", "loading"
  int64_t step = -1;           // from 0, the last it may come from; -1: before step 0
  int64_t first_step = -1;     // it may come from, where devices ran ahead of the host; -1: `step` alone
  std::string chip = {};       // "chip 3: data 1 on host tpu-7"
  std::optional<int64_t> wanted_bytes = {};
  std::optional<int64_t> limit_bytes = {};
  bool is_injected = false;
  OomSubject subject = {};
  std::vector<OomBytes> roles = {};    // most first
  std::vector<OomBytes> largest = {};  // largest first
  std::vector<Reduction> reductions = {};
  std::string ending = {};   // how the ladder ended: "continued at rung 1: ..."
  std::string message = {};  // a plugin's own words, whole
};

base::Json to_json(const OomReport& report);
/// Members that are missing or of another kind keep their defaults; others are ignored.
OomReport oom_report_of(const base::Json& json);

}  // namespace megacpp::catalog
