// SPDX-License-Identifier: Apache-2.0
// From a launch and what became of it to a receipt. All of it is read once, before the first step and after the last:
// steps themselves pay nothing.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "megacpp/evidence/receipt/receipt.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/run/launch/launch.h"
#include "megacpp/run/launch/training.h"
#include "megacpp/run/lineage/lineage.h"

namespace megacpp::receipt {

/// What a launch does not know of its run.
struct RunFacts {
  std::string data = {};                  // what is trained on, in words
  std::vector<std::string> without = {};  // passes that are left out
  std::vector<std::string> watched = {};  // what looks into its steps: "profile"
};

/// All that is known before step 0, of the rung that runs: header, plan, ladder, but for memory_along_step(). Of a
/// launch that is planned.
Receipt planned_receipt(const launch::Launch& launch, const RunFacts& facts);

/// Of the chip that needs most, as planned. Plans its programs anew: as long as planning their memory took.
std::vector<FamilyMemory> memory_along_step(const launch::Launch& launch);

/// The documented against the live environment, as a launch has compared them. What it does not ask for is left out.
Lineage lineage_record(const lineage::Lineage& found);

/// What a run measured while it lived: steps, counters, memory, parts of a step, regime.
void add_trained(Receipt& receipt, const launch::Launch& launch, const launch::Trained& trained);

/// Composites that run as their parts, by op and reason.
std::vector<Fallback> fallbacks_of(const compile::Compiled& compiled);

/// How a run ends by this error.
void add_failure(Receipt& receipt, const std::exception& error);

}  // namespace megacpp::receipt
