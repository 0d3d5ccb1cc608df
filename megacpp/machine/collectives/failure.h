// SPDX-License-Identifier: Apache-2.0
// How transports say what went wrong between chips: the same words on all of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/call.h"

namespace megacpp::collectives {

struct Failure {
  int64_t chip = 0;
  std::string reason;
  bool operator==(const Failure&) const = default;
};

std::string chip_text(int64_t chip);                        // "chip 3"
std::string chips_text(const std::vector<int64_t>& chips);  // "chips 1, 3"

/// E3101 on `chip`, which was at `where`. `host`: of the failed chip, " on host b"; empty: not known.
base::Problem other_chip_failed(int64_t chip, const std::string& where, const Failure& failure,
                                const std::string& host);

/// E9001 on `chip`: `other` is another movement, with its chip.
base::Problem not_the_same_movement(int64_t chip, const Call& own, const std::string& other);

/// E3102 on `chip`.
struct Waited {
  std::chrono::milliseconds limit{};
  std::vector<int64_t> chips = {};  // that have not come
  std::string states = {};          // "; chip 1 waits for nobody" for each of them
};
base::Problem waited_too_long(int64_t chip, const Call& call, const Waited& waited);
/// The same where a host sees its device alone, which computes or waits inside NCCL: nobody can tell which.
base::Problem device_took_too_long(int64_t chip, const Call& call, const Waited& waited);

/// The code of the error that a reason tells of, as its text begins with it; of one that tells of another chip's, that
/// one's. Nothing: the reason has none.
std::optional<base::Code> cause_in(std::string_view reason);

/// One that is none of ours is a defect, or memory of the host: as commands report it.
base::Code code_of(const std::exception& error);
/// What the other chips are told of an error of this one. Its text begins with the code of what caused it.
std::string reason_of(const std::exception& error);
/// The same of one that is raised by the transport itself.
std::string reason_of(base::Code code, const base::Problem& problem);

/// "chip 3 has in flight all_reduce ..."; null: nothing.
std::string state_text(int64_t chip, const Call* oldest);

/// The group's members in order: an internal error where they are none, or not of so many chips, or without `rank`.
void check_group(const std::vector<int64_t>& members, int64_t rank, int64_t chips);

}  // namespace megacpp::collectives
