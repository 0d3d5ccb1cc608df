// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/failure.h"

#include <algorithm>
#include <new>
#include <sstream>

namespace megacpp::collectives {
namespace {

std::string limit_text(std::chrono::milliseconds limit) {
  std::ostringstream text;
  text << std::chrono::duration<double>(limit).count() << " s";
  return text.str();
}

}  // namespace

std::string chip_text(int64_t chip) { return "chip " + std::to_string(chip); }

std::string chips_text(const std::vector<int64_t>& chips) {
  std::string text = chips.size() == 1 ? "chip" : "chips";
  for (size_t i = 0; i < chips.size(); ++i) text += (i == 0 ? " " : ", ") + std::to_string(chips[i]);
  return text;
}

base::Problem other_chip_failed(int64_t chip, const std::string& where, const Failure& failure,
                                const std::string& host) {
  return {.where = chip_text(chip) + ", " + where,
          .got = chip_text(failure.chip) + " failed: " + failure.reason,
          .wanted = "every chip to run until the end",
          .next = "mend what " + chip_text(failure.chip) + host + " reports; the other chips stopped because of it",
          .cause = cause_in(failure.reason)};
}

std::optional<base::Code> cause_in(std::string_view reason) {
  constexpr std::string_view kFailed = " failed: ";  // as other_chip_failed() has it
  constexpr size_t kNameSize = 5;                    // "E1001"
  for (;;) {
    const std::optional<base::Code> code = base::code_named(reason.substr(0, kNameSize));
    if (code != base::Code::E3101) return code;
    const size_t at = reason.find(kFailed);
    if (at == std::string_view::npos) return code;
    reason.remove_prefix(at + kFailed.size());
  }
}

base::Problem not_the_same_movement(int64_t chip, const Call& own, const std::string& other) {
  return {.where = chip_text(chip) + ", " + own.where,
          .got = chip_text(chip) + ": " + to_string(own),
          .wanted = "the same movement as " + other,
          .next = "this is a defect of megacpp: please report it with the command and the recipe"};
}

base::Problem waited_too_long(int64_t chip, const Call& call, const Waited& waited) {
  std::vector<int64_t> chips = waited.chips;
  std::ranges::sort(chips);
  const std::string whom = chips.empty() ? "bytes on their way" : chips_text(chips);
  return {.where = chip_text(chip) + ", " + call.where,
          .got = "waited " + limit_text(waited.limit) + " for " + whom + waited.states,
          .wanted = to_string(call),
          .next = "a chip that waits for nobody computes or hangs; raise train.wait_limit if it is only slow"};
}

base::Problem device_took_too_long(int64_t chip, const Call& call, const Waited& waited) {
  base::Problem problem = waited_too_long(chip, call, waited);
  problem.got = "its device has not ended its work for " + limit_text(waited.limit) + ": it computes" +
                (waited.chips.empty() ? "" : ", or waits for " + chips_text(waited.chips));
  problem.next =
      "a step must take less than train.wait_limit: raise it if the device is only slow; NCCL_DEBUG=INFO says where it "
      "waits";
  return problem;
}

base::Code code_of(const std::exception& error) {
  if (const auto* const own = dynamic_cast<const base::Error*>(&error)) return own->code();
  const bool is_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  return is_memory ? base::Code::E2005 : base::Code::E9001;
}

std::string reason_of(const std::exception& error) {
  const auto* const own = dynamic_cast<const base::Error*>(&error);
  if (own == nullptr) return std::string(base::code_name(code_of(error))) + " " + error.what();
  const std::optional<base::Code> cause = own->problem().cause;
  if (!cause || cause_in(own->what()) == cause) return own->what();
  return std::string(base::code_name(*cause)) + " behind " + own->what();
}

std::string reason_of(base::Code code, const base::Problem& problem) {
  return problem.got + (code == base::Code::E3102 ? ": " : "; wanted ") + problem.wanted;
}

std::string state_text(int64_t chip, const Call* oldest) {
  return chip_text(chip) + (oldest == nullptr ? " waits for nobody" : " has in flight " + to_string(*oldest));
}

void check_group(const std::vector<int64_t>& members, int64_t rank, int64_t chips) {
  std::vector<int64_t> sorted = members;
  std::ranges::sort(sorted);
  MEGACPP_CHECK(std::ranges::find(members, rank) != members.end())
      << chip_text(rank) << " is not in its group of " << chips_text(members);
  MEGACPP_CHECK(sorted.front() >= 0 && sorted.back() < chips && std::ranges::adjacent_find(sorted) == sorted.end())
      << "not a group of " << chips << " chips: " << chips_text(members);
}

}  // namespace megacpp::collectives
