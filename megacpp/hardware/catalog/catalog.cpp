// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/catalog/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "megacpp/hardware/catalog/fields.h"
#include "megacpp/hardware/catalog/record_rows.h"
#include "megacpp/hardware/catalog/schema.h"

namespace megacpp::catalog {
namespace {

// Fitting with each sample left out once grows with the square of their number; old ones teach little about new code.
constexpr int kMostSamples = 100;

/// Every row of a statement, as what `read` makes of it.
template <typename Read>
auto all_rows(Statement statement, const Read& read) {
  std::vector<decltype(read(statement))> rows;
  while (statement.step()) rows.push_back(read(statement));
  return rows;
}

std::optional<int64_t> find_id(const Database& database, const Signature& signature) {
  Statement row = database.prepare("SELECT id FROM signature WHERE key = ?");
  return row.bind(key_text(signature)).step() ? std::optional(row.integer(0)) : std::nullopt;
}

template <typename T>
void check_row(const Statement& /*row*/, const T& /*record*/) {}

void check_row(const Statement& row, const Sample& sample) {
  const auto is_sound = [](double value) { return std::isfinite(value) && value > 0; };
  if (!is_sound(total(sample.parts))) refuse_row(row, "parts: no prediction");
  if (!is_sound(sample.measured)) refuse_row(row, fmt::format("measured: {}", sample.measured));
}

template <typename T>
T read_sound_row(const Statement& row, int first) {
  T record = read_row<T>(row, first);
  check_row(row, record);
  return record;
}

/// All that is known of a signature in that table, oldest first.
template <typename T>
std::vector<T> rows_of(const Database& database, const char* table, int64_t signature) {
  Statement rows =
      database.prepare(fmt::format("SELECT {} FROM {} WHERE signature = ? ORDER BY id", columns_of<T>(), table));
  rows.bind(signature);
  return all_rows(std::move(rows), [](const Statement& row) { return read_sound_row<T>(row, 0); });
}

Entry read_entry(const Database& database, int64_t id, const Signature& signature) {
  Entry entry = {.id = id, .signature = signature};
  entry.outcomes = rows_of<Outcome>(database, "outcome", id);
  entry.starts = rows_of<Start>(database, "start", id);
  entry.samples = rows_of<Sample>(database, "sample", id);
  for (Outcome& outcome : entry.outcomes) outcome.signature = signature;
  for (Sample& sample : entry.samples) sample.signature = signature;
  return entry;
}

/// What another build was the last to learn of the same launch, without its rows.
std::optional<Entry> newest_of_subject(const Database& database, const Signature& signature) {
  Statement row = database.prepare(fmt::format(
      "SELECT signature.id, {} FROM signature JOIN outcome ON outcome.signature = signature.id WHERE subject = ? "
      "ORDER BY outcome.id DESC LIMIT 1",
      columns_of<Signature>("signature.")));
  if (!row.bind(subject_text(signature)).step()) return std::nullopt;
  return Entry{.id = row.integer(0), .signature = read_row<Signature>(row, 1)};
}

/// The newest start, unless the signature has run as requested since it was written.
std::optional<Start> start_of(const Database& database, int64_t signature) {
  Statement row = database.prepare(
      fmt::format("SELECT {} FROM start WHERE signature = ?1 AND after_outcome >= "
                  "(SELECT coalesce(max(id), 0) FROM outcome WHERE signature = ?1 AND fits) ORDER BY id DESC LIMIT 1",
                  columns_of<Start>()));
  return row.bind(signature).step() ? std::optional(read_row<Start>(row, 0)) : std::nullopt;
}

}  // namespace

std::string last_written(const Entry& entry) {
  std::string last;
  if (!entry.outcomes.empty()) last = std::max(last, entry.outcomes.back().at);
  if (!entry.starts.empty()) last = std::max(last, entry.starts.back().at);
  if (!entry.samples.empty()) last = std::max(last, entry.samples.back().at);
  return last;
}

Catalog Catalog::open(const std::filesystem::path& path, const Database::Options& options) {
  return Catalog(path, open_catalog_file(path, options));
}

MaybeCatalog Catalog::open_or_none(const std::filesystem::path& path, const Database::Options& options) {
  try {
    return {.catalog = open(path, options)};
  } catch (const base::Error& error) {
    if (base::class_of(error.code()) == base::ErrorClass::internal) throw;
    return {.why_not = error};
  }
}

int64_t Catalog::id_of(const Signature& signature) {
  if (const auto known = find_id(database_, signature)) return *known;
  insert_row(database_, "signature", "key, subject", signature, key_text(signature), subject_text(signature));
  return database_.last_id();
}

void Catalog::record(const Outcome& outcome) {
  Transaction transaction(database_);
  insert_row(database_, "outcome", "signature", outcome, id_of(outcome.signature));
  transaction.commit();
}

void Catalog::remember_start(const Signature& requested, const Start& start) {
  Transaction transaction(database_);
  const int64_t after = database_.integer("SELECT coalesce(max(id), 0) FROM outcome");
  insert_row(database_, "start", "signature, after_outcome", start, id_of(requested), after);
  transaction.commit();
}

std::optional<Remembered> Catalog::remembered(const Signature& signature) const {
  std::optional<int64_t> id = find_id(database_, signature);
  Remembered remembered;
  if (!id) {
    const std::optional<Entry> other = newest_of_subject(database_, signature);
    if (!other) return std::nullopt;
    id = other->id;
    remembered.other_build = other->signature.build;
  }
  for (Outcome& outcome : read_entry(database_, *id, signature).outcomes) {
    (outcome.fits ? remembered.fits : remembered.fails) += 1;
    if (outcome.measured_seconds) remembered.step_seconds = outcome.measured_seconds;
    remembered.last = std::move(outcome);
  }
  remembered.start = start_of(database_, *id);
  return remembered;
}

void Catalog::record_calibration(const Sample& sample) {
  MEGACPP_CHECK(std::isfinite(sample.measured) && sample.measured > 0) << sample.quantity << " " << sample.measured;
  MEGACPP_CHECK(std::isfinite(total(sample.parts)) && total(sample.parts) > 0) << sample.quantity << ": no prediction";
  Transaction transaction(database_);
  insert_row(database_, "sample", "signature", sample, id_of(sample.signature));
  transaction.commit();
}

std::vector<Sample> Catalog::samples(const std::string& lane, const std::string& quantity, const Build& own) const {
  // Of each subject one row, `own` before others and then the newest; of all subjects so many, in the same order.
  Statement rows = database_.prepare(fmt::format(
      "WITH candidate AS (SELECT sample.id AS id, subject, (code_version, platform, processor) = (?, ?, ?) "
      "AS is_own FROM sample JOIN signature ON signature.id = sample.signature WHERE lane = ? AND quantity = ?), "
      "ordered AS (SELECT id, is_own, row_number() OVER (PARTITION BY subject ORDER BY is_own DESC, id DESC) AS place "
      "FROM candidate) "
      "SELECT {}, {} FROM sample JOIN signature ON signature.id = sample.signature WHERE sample.id IN "
      "(SELECT id FROM ordered WHERE place = 1 ORDER BY is_own DESC, id DESC LIMIT {}) ORDER BY sample.id",
      columns_of<Signature>("signature."), columns_of<Sample>("sample."), kMostSamples));
  rows.bind(own.code_version, own.platform, own.processor, lane, quantity);
  return all_rows(std::move(rows), [](const Statement& row) {
    Sample sample = read_sound_row<Sample>(row, width_of<Signature>());
    sample.signature = read_row<Signature>(row, 0);
    return sample;
  });
}

Correction Catalog::correction(const std::string& lane, const std::string& quantity, const Build& own) const {
  return fit_correction(samples(lane, quantity, own), own);
}

std::vector<std::pair<std::string, std::string>> Catalog::measured_lanes() const {
  return all_rows(database_.prepare("SELECT DISTINCT lane, quantity FROM sample ORDER BY lane, quantity"),
                  [](const Statement& row) { return std::pair(row.text(0), row.text(1)); });
}

std::vector<Entry> Catalog::entries() const {
  std::vector<Entry> found = all_rows(
      database_.prepare(
          fmt::format("SELECT id, {} FROM signature ORDER BY id DESC", columns_of<Signature>("signature."))),
      [&](const Statement& row) { return read_entry(database_, row.integer(0), read_row<Signature>(row, 1)); });
  std::stable_sort(found.begin(), found.end(),
                   [](const Entry& a, const Entry& b) { return last_written(a) > last_written(b); });
  return found;
}

std::optional<Entry> Catalog::entry(int64_t id) const {
  Statement row =
      database_.prepare(fmt::format("SELECT {} FROM signature WHERE id = ?", columns_of<Signature>("signature.")));
  if (!row.bind(id).step()) return std::nullopt;
  return read_entry(database_, id, read_row<Signature>(row, 0));
}

Forgotten Catalog::forget_where(const std::string& condition) {
  Transaction transaction(database_);
  const auto count = [&](const char* table, const char* column) {
    return database_.integer(fmt::format("SELECT count(*) FROM {} WHERE {} {}", table, column, condition));
  };
  const Forgotten forgotten = {.signatures = count("signature", "id"),
                               .outcomes = count("outcome", "signature"),
                               .starts = count("start", "signature"),
                               .samples = count("sample", "signature")};
  database_.execute("DELETE FROM signature WHERE id " + condition);  // takes the rows of the others with it
  transaction.commit();
  return forgotten;
}

Forgotten Catalog::forget(int64_t id) { return forget_where(fmt::format("= {}", id)); }
Forgotten Catalog::forget_all() { return forget_where("IS NOT NULL"); }

}  // namespace megacpp::catalog
