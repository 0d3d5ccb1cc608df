// SPDX-License-Identifier: Apache-2.0
// A sound SQLite file whose rows hold what megacpp never wrote.
#include <array>

#include "megacpp/hardware/catalog/database.h"
#include "tests/fuzz/catalog_check.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/scratch_file.h"

namespace megacpp::fuzz {
namespace {

struct Column {
  const char* table;
  const char* name;
};
constexpr std::array<Column, 31> kColumns = {{
    {"signature", "key"},
    {"signature", "subject"},
    {"signature", "code_version"},
    {"signature", "platform"},
    {"signature", "hardware"},
    {"signature", "model"},
    {"signature", "layout"},
    {"signature", "shape"},
    {"outcome", "signature"},
    {"outcome", "at"},
    {"outcome", "fits"},
    {"outcome", "oom_class"},
    {"outcome", "phase"},
    {"outcome", "rung"},
    {"outcome", "chip"},
    {"outcome", "predicted_bytes"},
    {"outcome", "measured_bytes"},
    {"outcome", "limit_bytes"},
    {"outcome", "measured_seconds"},
    {"outcome", "note"},
    {"outcome", "report"},
    {"start", "at"},
    {"start", "rung"},
    {"start", "settings"},
    {"start", "reasons"},
    {"sample", "lane"},
    {"sample", "quantity"},
    {"sample", "parts"},
    {"sample", "measured"},
    {"sample", "at"},
    {"sample", "signature"},
}};

constexpr std::array kJson = {"{}",
                              "[]",
                              "[1]",
                              "[\"a\"]",
                              "{\"train.batch\": 2}",
                              "{\"train.batch\": \"2\"}",
                              "{\"weights\": 1e308, \"temporaries\": 1e308}",
                              "{\"weights\": -1}",
                              "{\"weights\": null}",
                              "[{\"name\": \"weights\", \"value\": 1e300}]",
                              "{\"code\": 3, \"reductions\": [1, {}, {\"rung\": \"x\"}], \"subject\": []}",
                              "{\"a\":",
                              "[[[[[[[["};

catalog::Statement& bind_value(catalog::Statement& statement, Choices& choices) {
  switch (choices.below(5)) {
    case 0:
      return statement.bind(std::string_view(choices.any_of(kJson)));
    case 1:
      return statement.bind(choices.any_of<int64_t>({0, -1, 1, 2, 1000, INT64_MAX, INT64_MIN}));
    case 2:
      return statement.bind(choices.any_of<double>({0.0, -1.0, 1e308, -1e308, 5e-324, 0.5}));
    case 3:
      return statement.bind(std::nullopt);
    default:
      return statement.bind(std::string_view(hostile_scalar(choices)));
  }
}

void change_row(const catalog::Database& database, Choices& choices) {
  const Column& column = choices.any_of(kColumns);
  // A value that the table itself refuses stays as it was.
  catalog::Statement statement =
      database.prepare("UPDATE OR IGNORE " + std::string(column.table) + " SET " + column.name +
                       " = ? WHERE id % 3 = " + std::to_string(choices.below(3)));
  bind_value(statement, choices).run();
}

void use_changed_rows(Bytes input) {
  static const ScratchFile scratch("rows.sqlite");
  for (const char* suffix : {"-wal", "-shm", "-journal"}) std::filesystem::remove(scratch.path().string() + suffix);
  scratch.write(sound_catalog());
  Choices choices(input);
  {
    const catalog::Database database(scratch.path(), {});
    database.execute("PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF;");
    for (size_t changes = 1 + choices.below(6); changes > 0; --changes) change_row(database, choices);
  }
  use_catalog(scratch.path());
}

}  // namespace

Target catalog_rows_target() {
  return {.name = "catalog_rows", .subject = "rows of a catalog", .weight = 2, .run = use_changed_rows};
}

}  // namespace megacpp::fuzz
