// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/catalog_check.h"

#include "megacpp/core/base/file.h"
#include "megacpp/hardware/catalog/catalog.h"
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

catalog::Signature signature_of(int i) {
  catalog::Signature signature = kSignature;
  signature.hardware = "host:" + std::to_string(1 + i % 4);
  if (i % 2 == 1) signature.build = {.code_version = "0.1.0+5be1", .threads = 4, .processor = "AMD EPYC 9654"};
  return signature;
}

void add_rows(catalog::Catalog& catalog, const catalog::Signature& signature) {
  catalog.record(
      {.signature = signature, .at = "2026-11-16T15:00:00Z", .predicted_bytes = 1000, .measured_seconds = 0.5});
  catalog.record({.signature = signature,
                  .at = "2026-11-16T15:00:03Z",
                  .fits = false,
                  .oom_class = "host",
                  .phase = "planning",
                  .report = catalog::OomReport{.code = "E2001", .reductions = {{.rung = 1, .name = "batch"}}}});
  catalog.remember_start(signature, {.at = "2026-11-16T15:00:01Z", .rung = 1, .settings = {{"train.batch", "4"}}});
  catalog.record_calibration({.signature = signature,
                              .at = "2026-11-16T15:00:02Z",
                              .lane = "cpu",
                              .quantity = catalog::kPeakBytes,
                              .parts = {{"weights", 1.5e9}},
                              .measured = 2e9});
}

void read_all(const catalog::Catalog& catalog) {
  for (const catalog::Entry& entry : catalog.entries())
    require(catalog.entry(entry.id).has_value(), "entries are found by id");
  catalog.remembered(kSignature);
  for (const auto& [lane, quantity] : catalog.measured_lanes()) catalog.correction(lane, quantity, {});
}

}  // namespace

const std::string& sound_catalog() {
  static const std::string content = [] {
    const ScratchFile scratch("sound.sqlite");
    std::filesystem::remove(scratch.path());
    {
      catalog::Catalog catalog = catalog::Catalog::open(scratch.path());
      for (int i = 0; i < 10; ++i) add_rows(catalog, signature_of(i));
    }
    return base::read_file(scratch.path());
  }();
  return content;
}

void use_catalog(const std::filesystem::path& path) {
  const catalog::Database::Options reading{.access = catalog::Access::read, .wait = std::chrono::milliseconds(100)};
  read_all(catalog::Catalog::open(path, reading));
  catalog::Catalog catalog = catalog::Catalog::open(path, {.wait = std::chrono::milliseconds(100)});
  add_rows(catalog, kSignature);
  read_all(catalog);
  require(catalog.remembered(kSignature).has_value(), "what was recorded is remembered");
  catalog.forget_all();
  require(catalog.entries().empty(), "nothing is left of what was forgotten");
}

}  // namespace megacpp::fuzz
