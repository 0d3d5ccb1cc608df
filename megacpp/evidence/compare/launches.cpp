// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/launches.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "megacpp/core/base/path.h"
#include "megacpp/evidence/compare/repeats.h"
#include "megacpp/evidence/receipt/store.h"
#include "megacpp/run/launch/runs_folder.h"

namespace megacpp::compare {
namespace {

bool is_launch(const std::filesystem::path& folder) {
  return launch::is_run(folder) || base::exists(folder / receipt::kReceiptFile);
}

// Of a folder that is no launch itself, and the link `latest` left out.
std::vector<std::string> launches_in(const std::filesystem::path& folder) {
  std::vector<std::string> launches;
  std::error_code ignored;
  for (const std::filesystem::path& each : launch::folders_of_runs(folder))
    for (const std::filesystem::path& entry : base::list_folder(each))
      if (!std::filesystem::is_symlink(entry, ignored) && is_launch(entry)) launches.push_back(entry.string());
  return launches;
}

}  // namespace

ReadReceipts read_launches(const std::vector<std::string>& paths) {
  std::vector<std::string> launches;
  for (const std::string& path : paths) {
    const bool is_folder_of_launches = base::is_folder(path) && !is_launch(path);
    const std::vector<std::string> in_it = is_folder_of_launches ? launches_in(path) : std::vector<std::string>();
    if (in_it.empty()) launches.push_back(path);  // itself, or why there is nothing
    launches.insert(launches.end(), in_it.begin(), in_it.end());
  }
  ReadReceipts read = read_receipts(launches);
  read.receipts = each_once(std::move(read.receipts));
  return read;
}

}  // namespace megacpp::compare
