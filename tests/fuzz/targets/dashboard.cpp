// SPDX-License-Identifier: Apache-2.0
// Targets of requests: any bytes get an answer that is a whole page.
#include "megacpp/evidence/serve/answer.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "tests/fuzz/oracle.h"
#include "tests/fuzz/scratch_file.h"
#include "tests/support/served_runs.h"
#include "tests/support/well_formed.h"

namespace megacpp::fuzz {
namespace {

constexpr const char* kServedHost = "127.0.0.1:80";

/// A folder with two runs, one of which is damaged.
std::filesystem::path served_folder() {
  static const ScratchFile scratch("secret");
  scratch.write("outside");
  const std::filesystem::path folder = scratch.folder() / "runs";
  receipt::Receipt receipt = testing_support::clean_receipt();
  for (const char* name : {"a", "b"}) {
    receipt.run = name;
    testing_support::write_run(folder, receipt);
  }
  base::write_file_atomically(folder / "b" / receipt::kReceiptFile, "{");
  return folder;
}

void ask_dashboard(Bytes input) {
  static serve::RunIndex runs(served_folder());
  serve::Site site{.runs = runs};
  site.catalog.none = true;
  site.access = http::access_for("127.0.0.1", 80, "");
  const std::optional<http::Request> request =
      http::parse_head(fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", as_text(input), kServedHost));
  if (!request) return;
  serve::Answer answer = serve::answer(*request, site);
  constexpr std::array kStatuses = {200, 400, 404};
  require(std::ranges::find(kStatuses, answer.status) != kStatuses.end(), "a status that no target should give");
  if (answer.type.starts_with("text/html"))
    require(testing_support::unbalanced_tag(answer.body).empty(), "a page whose tags do not match");
  if (answer.feed) serve::next_event(*answer.feed, runs);
}

}  // namespace

Target dashboard_target() {
  return {.name = "dashboard", .subject = "targets of requests to the dashboard", .weight = 20, .run = ask_dashboard};
}

}  // namespace megacpp::fuzz
