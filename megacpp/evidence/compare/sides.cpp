// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/sides.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/path.h"
#include "megacpp/evidence/compare/differences.h"
#include "megacpp/evidence/compare/repeats.h"
#include "megacpp/evidence/receipt/store.h"
#include "megacpp/run/launch/runs_folder.h"

namespace megacpp::compare {
namespace {

void read_into(const std::filesystem::path& path, ReadReceipts& read) {
  try {
    for (const std::filesystem::path& run : runs_at(path)) {
      try {
        read.receipts.push_back(receipt::receipt_of(run));
      } catch (const base::Error& error) {
        if (base::class_of(error.code()) == base::ErrorClass::internal) throw;
        read.skipped.push_back({run, error});
      }
    }
  } catch (const base::Error& error) {
    if (base::class_of(error.code()) == base::ErrorClass::internal) throw;
    read.skipped.push_back({path, error});
  }
}

bool are_alike(const receipt::Receipt& a, const receipt::Receipt& b) { return differences_of(a, b).axes.empty(); }

}  // namespace

std::vector<std::filesystem::path> runs_at(const std::filesystem::path& path) {
  if (!base::is_folder(path) || launch::is_run(path)) return {path};
  std::vector<std::filesystem::path> runs = launch::runs_in(path);
  if (runs.empty()) runs.push_back(path);
  return runs;
}

ReadReceipts read_receipts(const std::vector<std::string>& paths) {
  ReadReceipts read;
  for (const std::string& path : paths) read_into(path, read);
  if (read.receipts.size() > 2) read.receipts = each_once(std::move(read.receipts));
  return read;
}

std::vector<std::vector<receipt::Receipt>> group_repeats(std::vector<receipt::Receipt> receipts) {
  std::vector<std::vector<receipt::Receipt>> groups;
  for (receipt::Receipt& receipt : receipts) {
    const auto alike = std::ranges::find_if(
        groups, [&](const std::vector<receipt::Receipt>& group) { return are_alike(group.front(), receipt); });
    if (alike != groups.end())
      alike->push_back(std::move(receipt));
    else
      groups.emplace_back().push_back(std::move(receipt));
  }
  return groups;
}

Sides sides_of(std::vector<receipt::Receipt> receipts) {
  MEGACPP_REQUIRE(receipts.size() >= 2, E1007,
                  {.where = "compare",
                   .got = receipts.empty() ? "no run" : "one run: " + receipts.front().run,
                   .wanted = "two runs at least",
                   .next = "name run directories or receipts; see: megacpp runs list"});
  if (receipts.size() == 2) return {.baseline = {std::move(receipts[0])}, .other = {std::move(receipts[1])}};
  std::vector<std::vector<receipt::Receipt>> groups = group_repeats(std::move(receipts));
  std::string names;
  for (const std::vector<receipt::Receipt>& group : groups)
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", group.front().run, group.size());
  MEGACPP_REQUIRE(groups.size() != 1, E1007,
                  {.where = "compare",
                   .got = "repeats of one launch alone: " + names,
                   .wanted = "runs of two kinds",
                   .next = "name two runs to compare these with each other"});
  MEGACPP_REQUIRE(groups.size() == 2, E4001,
                  {.where = "compare",
                   .got = fmt::format("runs of {} kinds: {}", groups.size(), names),
                   .wanted = "two kinds, each with its repeats",
                   .next = "compare two of them at a time"});
  return {.baseline = std::move(groups[0]), .other = std::move(groups[1])};
}

}  // namespace megacpp::compare
