// SPDX-License-Identifier: Apache-2.0
// The one error of every backend when memory does not suffice: in an estimate, while compiling, loading or running, or
// on the host. What answers it needs numbers, not words, so the facts travel with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/graph.h"

namespace megacpp::memory {

/// Where memory ran out.
enum class OomClass {
  compile,  // E2001 by our plan, E2002 by XLA's compiler: the program does not fit a chip
  load,     // E2003: a compiled program cannot be loaded
  runtime,  // E2004: an allocation on a device
  host,     // E2005: an allocation of the host; E2001 where the plans of all chips exceed it
};
base::Code code_of(OomClass cls);                 // E2002 to E2005
std::string_view oom_class_name(OomClass cls);    // "compile-time HBM"
OomClass oom_class_named(std::string_view name);  // one of these names: anything else is a defect

struct OomPiece {
  int64_t bytes = 0;
  std::string what;                   // op and type, state, or a plugin's words
  std::string scope = {};             // "block07.A.core"; empty: not said
  std::optional<ir::Role> role = {};  // nothing: not said
};

struct RoleBytes {
  ir::Role role;
  int64_t bytes = 0;
};

/// What is not said is not there, -1 or empty.
struct OomFacts {
  OomClass cls;
  std::string phase;                   // what was being done: "planning", "loading", "step", "libtpu.so, compiling"
  int64_t chip = -1;                   // of the mesh
  std::string place = {};              // "chip 3: data 1 on host tpu-7", or the device in a plugin's words
  int64_t step = -1;                   // from 0, the last it may come from; -1: before step 0
  int64_t first_step = -1;             // it may come from, where devices run ahead of the host; -1: `step` alone
  std::optional<int64_t> wanted = {};  // bytes
  std::optional<int64_t> limit = {};
  std::vector<RoleBytes> roles = {};   // what the wanted bytes are for, most first
  std::vector<OomPiece> largest = {};  // largest first
  std::string text = {};               // a plugin's whole message
  bool is_injected = false;            // somebody asked for it
};

/// "step 4", or "steps 11 to 20" where a device ran ahead of the host and it may be any of these.
std::string steps_text(int64_t first, int64_t last);

class OutOfMemory : public base::Error {
 public:
  OutOfMemory(base::Code code, base::Problem problem, OomFacts facts)
      : base::Error(code, std::move(problem)), facts_(std::move(facts)) {}
  const OomFacts& facts() const { return facts_; }
  /// The same, once it is known in which steps it may have happened.
  OutOfMemory in_steps(int64_t first, int64_t last) const;
  /// The same, with what was running: model, pattern, shape and layout in words.
  OutOfMemory running(const std::string& subject) const;

 private:
  OomFacts facts_;
};

}  // namespace megacpp::memory
