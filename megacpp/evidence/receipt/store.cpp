// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/store.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/hash.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/record_from_json.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/evidence/receipt/answers.h"
#include "megacpp/evidence/receipt/fields.h"
#include "megacpp/evidence/receipt/recipe_header.h"
#include "megacpp/evidence/receipt/steps.h"
#include "megacpp/evidence/receipt/verdict.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/print.h"
#include "megacpp/run/launch/run_directory.h"
#include "megacpp/run/launch/runs_folder.h"
#include "megacpp/run/train/step_log.h"

namespace megacpp::receipt {
namespace {

using base::Json;

/// What a chip may use is known when the run is loaded: chips that share their machine had another limit while it was
/// planned.
void take_limits_at_load(Memory& memory) {
  for (ChipGroup& group : memory.planned) {
    const auto loaded = std::ranges::find(memory.measured, group.chip, &ChipPeak::chip);
    if (loaded != memory.measured.end() && loaded->limit_bytes) group.limit_bytes = loaded->limit_bytes;
  }
}

Receipt concluded(Receipt receipt) {
  take_limits_at_load(receipt.memory);
  receipt.answers = answers_of(receipt);
  receipt.verdict = verdict_of(receipt);
  return receipt;
}

/// Of the compact text: spaces and lines between members count for nothing.
std::string checksum_of(const Json& content) { return base::hash_text(base::to_text(content)); }

[[noreturn]] void refuse_receipt(const std::string& where, std::string got) {
  base::raise(base::Code::E1801, {.where = where,
                                  .got = std::move(got),
                                  .wanted = "a receipt as megacpp wrote it, whole and unchanged",
                                  .next = "take it from a copy, or delete it: what its run directory still has is "
                                          "made into a new one"});
}

int64_t schema_of(const Json& json, const std::string& where) {
  const Json* const member = base::find_member(json, "schema");
  const std::optional<int64_t> schema = member == nullptr ? std::nullopt : base::as_integer(*member);
  if (!schema || *schema < 1) refuse_receipt(where, "no version of the schema");
  MEGACPP_REQUIRE(*schema <= kSchemaVersion, E1802,
                  {.where = where,
                   .got = fmt::format("schema {}", *schema),
                   .wanted = fmt::format("at most {}", kSchemaVersion),
                   .next = "read it with the version of megacpp that wrote it, or a later one"});
  return *schema;
}

Receipt read_receipt(const std::filesystem::path& file) { return receipt_from(base::read_file(file), file.string()); }

/// A file that was named may be anything; what is no receipt is not called a damaged one.
Receipt read_named_file(const std::filesystem::path& file) {
  const std::string text = base::read_file(file);
  const bool is_receipt = file.filename() == kReceiptFile || text.find("\"checksum\"") != std::string::npos;
  MEGACPP_REQUIRE(is_receipt, E1803,
                  {.where = file.string(),
                   .got = "a file that is no receipt: it has no checksum",
                   .wanted = "a run directory, or its receipt.json",
                   .next = "see: megacpp runs list"});
  return receipt_from(text, file.string());
}

/// What the log of a run says of its steps.
void add_logged_steps(Receipt& receipt, const std::filesystem::path& run) {
  add_steps(receipt, train::read_log(run / "log.jsonl").reports);
}

/// From what a run of an earlier version left: its recipe and its log.
Receipt receipt_without_plan(const std::filesystem::path& run) {
  const recipe::Recipe recipe = recipe::load(run / "recipe.yaml");
  Receipt receipt;
  receipt.run = base::canonical(run).filename().string();
  receipt.header = recipe_header(recipe);
  receipt.recipe = recipe::print(recipe);
  receipt.ending.requested_steps = recipe.train.steps;
  add_logged_steps(receipt, run);
  if (!launch::is_in_use(run))
    receipt.ending.kind =
        receipt.ending.steps >= receipt.ending.requested_steps ? EndingKind::finished : EndingKind::killed;
  return concluded(std::move(receipt));
}

/// Of a process that is gone, from the receipt that it began with.
Receipt killed_receipt(const std::filesystem::path& run, Receipt receipt) {
  receipt.ending.kind = EndingKind::killed;
  add_logged_steps(receipt, run);
  return concluded(std::move(receipt));
}

/// Who holds the run's lock may store it. It is made under the lock: somebody may have gone on with the run and been
/// killed too since it was read.
void store_killed(const std::filesystem::path& run) {
  try {
    const launch::RunDirectory owned = launch::RunDirectory::open(run);
    Receipt begun = read_receipt(run / kReceiptFile);
    if (begun.ending.kind == EndingKind::running) write_receipt(killed_receipt(run, std::move(begun)), run);
  } catch (const base::Error&) {
    // Read-only, full, or somebody goes on with the run at this moment: the next reader makes it again.
  }
}

Receipt receipt_of_folder(const std::filesystem::path& run, Completion completion) {
  const std::filesystem::path file = run / kReceiptFile;
  if (!base::exists(file)) {
    MEGACPP_REQUIRE(launch::is_run(run), E1803,
                    {.where = run.string(),
                     .got = launch::is_sweep(run) ? "a sweep, which has no receipt of its own"
                                                  : "neither receipt.json nor recipe.yaml",
                     .wanted = "a run directory, or a receipt",
                     .next = "see: megacpp runs list"});
    return receipt_without_plan(run);
  }
  Receipt receipt = read_receipt(file);
  if (receipt.ending.kind != EndingKind::running) return receipt;
  if (!launch::is_in_use(run)) {
    receipt = killed_receipt(run, std::move(receipt));
    if (completion == Completion::stored) store_killed(run);
    return receipt;
  }
  add_logged_steps(receipt, run);
  return concluded(std::move(receipt));
}

}  // namespace

std::string to_text(const Receipt& receipt) {
  const Json content = base::record_json(concluded(receipt));
  std::string text = fmt::format("{{\n\"schema\": {},\n\"checksum\": {}", content.at("schema").get<int64_t>(),
                                 base::json_quoted(checksum_of(content)));
  for (const auto& [name, value] : content.items())
    if (name != "schema") text += fmt::format(",\n{}: {}", base::json_quoted(name), base::to_text(value));
  return text + "\n}\n";
}

Receipt receipt_from(const std::string& text, const std::string& where) {
  Json json = base::parse_json(text, base::Code::E1801, where);
  const int64_t schema = schema_of(json, where);
  const Json* const stored = base::find_member(json, "checksum");
  const std::string* const checksum = stored == nullptr ? nullptr : base::as_text(*stored);
  if (checksum == nullptr) refuse_receipt(where, "no checksum");
  const std::string written = *checksum;
  json.erase("checksum");
  if (written != checksum_of(json)) refuse_receipt(where, "a content that was changed after it was written");
  Receipt receipt;
  const auto refuse = [&](const std::string& path, std::string_view wanted) {
    refuse_receipt(where, fmt::format("{} that is not {}", path.empty() ? "a value" : path, wanted));
  };
  base::read_record(json, receipt, "", {.on_mismatch = refuse});
  receipt.schema = schema;
  forget_unknown_times(receipt.times);
  return concluded(std::move(receipt));
}

void write_receipt(const Receipt& receipt, const std::filesystem::path& run) {
  base::write_file_atomically(run / kReceiptFile, to_text(receipt));
}

Receipt receipt_of(const std::filesystem::path& run, Completion completion) {
  const std::filesystem::path path = launch::path_named(run.string());
  MEGACPP_REQUIRE(base::exists(path), E1803,
                  {.where = path.string(),
                   .got = "no such file or folder",
                   .wanted = "a run directory, or a receipt",
                   .next = "see: megacpp runs list"});
  return base::is_folder(path) ? receipt_of_folder(path, completion) : read_named_file(path);
}

}  // namespace megacpp::receipt
