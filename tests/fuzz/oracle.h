// SPDX-License-Identifier: Apache-2.0
// What may come of a case: the input is accepted, or refused with an error that keeps the contract of docs/errors.md
// (tests/support/error_contract.h judges it).
// All else is a finding: another exception, an internal error, an error that does not say what a user needs, a property
// that does not hold. That a case ends in time and without a signal is for the driver to see, from another process.
#pragma once

#include <stdexcept>
#include <string>

#include "megacpp/core/base/error.h"
#include "tests/fuzz/target.h"

namespace megacpp::fuzz {

/// A result that is wrong though nothing was refused: a recipe that reads back as another one.
struct BrokenProperty : std::logic_error {
  using std::logic_error::logic_error;
};
/// For targets: what must hold of an accepted input.
void require(bool holds, const std::string& property);

struct Judgement {
  bool is_accepted = false;
  std::string finding = {};  // empty: none; the first line tells kinds of findings apart
};
Judgement judge(const Target& target, Bytes input);

}  // namespace megacpp::fuzz
