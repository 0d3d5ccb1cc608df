// SPDX-License-Identifier: Apache-2.0
// Receipts that a user names, read and put on two sides. What cannot be read is named and left out; the rest counts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/evidence/receipt/receipt.h"

namespace megacpp::compare {

struct Skipped {
  std::filesystem::path path;
  base::Error why;
};

struct ReadReceipts {
  std::vector<receipt::Receipt> receipts = {};
  std::vector<Skipped> skipped = {};
};

/// The runs that a path stands for: those in a folder that is no run itself, else the path alone.
std::vector<std::filesystem::path> runs_at(const std::filesystem::path& path);

/// Each path is a run directory, a receipt file or a folder of run directories, of which all are taken. A path that was
/// named and has no receipt at all is the caller's to judge: it stands among the skipped. Where there are more than
/// two, each run counts once; two may be the same run.
ReadReceipts read_receipts(const std::vector<std::string>& paths);

/// Receipts that differ in nothing are repeats of one launch; groups in the order of their first ones.
std::vector<std::vector<receipt::Receipt>> group_repeats(std::vector<receipt::Receipt> receipts);

struct Sides {
  std::vector<receipt::Receipt> baseline;
  std::vector<receipt::Receipt> other;
};

/// Two receipts are the two sides, whatever they differ in. More are grouped: those that differ in nothing are repeats,
/// and the side of the first is the baseline. E4001 where that gives more than two sides, and E1007 for less.
Sides sides_of(std::vector<receipt::Receipt> receipts);

}  // namespace megacpp::compare
