// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/catalog_check.h"

#include <map>

#include "megacpp/base/file.h"
#include "megacpp/catalog/catalog.h"
#include "tests/fuzz/oracle.h"
#include "tests/fuzz/scratch_file.h"

namespace megacpp::fuzz {
namespace {

const catalog::Signature kSignature{.build = {.code_version = "0.1.0"},
                                    .hardware = "host:1 limit 8600000",
                                    .model = "nam52-tiny",
                                    .model_hash = "fa1485fb3989229a",
                                    .layout = "policy=spmd zero=1",
                                    .shape = "batch=8 sequence=64 micro_steps=1 precision=f32"};

void read_all(const catalog::Catalog& catalog) {
  for (const catalog::Entry& entry : catalog.entries())
    require(catalog.entry(entry.id).has_value(), "entries are found by id");
  catalog.remembered(kSignature);
  for (const auto& [lane, quantity] : catalog.measured_lanes()) catalog.correction(lane, quantity, {});
}

}  // namespace

const std::string& sound_catalog(int64_t version) {
  static std::map<int64_t, std::string> files;
  std::string& content = files[version];
  if (content.empty()) {
    const ScratchFile scratch("sound.sqlite");
    std::filesystem::remove(scratch.path());
    catalog::Database(scratch.path(), {})
        .execute(base::read_file(MEGACPP_SOURCE_DIR "/megacpp/catalog/testdata/v" + std::to_string(version) + ".sql"));
    content = base::read_file(scratch.path());
  }
  return content;
}

void use_catalog(const std::filesystem::path& path) {
  const catalog::Database::Options reading{.access = catalog::Access::read, .wait = std::chrono::milliseconds(100)};
  read_all(catalog::Catalog::open(path, reading));
  catalog::Catalog catalog = catalog::Catalog::open(path, {.wait = std::chrono::milliseconds(100)});
  catalog.record({.signature = kSignature, .at = "2026-11-16T15:00:00Z"});
  catalog.remember_start(kSignature, {.at = "2026-11-16T15:00:01Z", .rung = 1, .settings = {{"train.batch", "4"}}});
  catalog.record_calibration({.signature = kSignature,
                              .at = "2026-11-16T15:00:02Z",
                              .lane = "cpu",
                              .quantity = catalog::kPeakBytes,
                              .parts = {{"weights", 1.5e9}},
                              .measured = 2e9});
  read_all(catalog);
  require(catalog.remembered(kSignature).has_value(), "what was recorded is remembered");
  catalog.forget_all();
  require(catalog.entries().empty(), "nothing is left of what was forgotten");
}

}  // namespace megacpp::fuzz
