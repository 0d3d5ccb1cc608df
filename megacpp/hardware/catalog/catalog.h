// SPDX-License-Identifier: Apache-2.0
// The catalog: one SQLite file that launches on a machine share, several at once. A launch asks what is remembered of
// its signature before it compiles, and writes down how it went; rows are only ever added, until someone forgets them.
// Every write is one transaction: a process that dies leaves all of it or nothing. Failures are those of database.h; a
// launch goes on without remembering when it meets one (open_or_none), a command ends with it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/hardware/catalog/calibration.h"
#include "megacpp/hardware/catalog/database.h"
#include "megacpp/hardware/catalog/records.h"

namespace megacpp::catalog {

/// Everything about one signature.
struct Entry {
  int64_t id = 0;
  Signature signature = {};
  std::vector<Outcome> outcomes = {};  // oldest first, as the others
  std::vector<Start> starts = {};
  std::vector<Sample> samples = {};
};

/// When it was last written to, in UTC; times are text that sorts.
std::string last_written(const Entry& entry);

/// How many rows forgetting removed.
struct Forgotten {
  int64_t signatures = 0;
  int64_t outcomes = 0;
  int64_t starts = 0;
  int64_t samples = 0;
};

struct MaybeCatalog;

class Catalog {
 public:
  static Catalog open(const std::filesystem::path& path, const Database::Options& options = {});
  /// Never fails for reasons in the file or the machine: says them instead.
  static MaybeCatalog open_or_none(const std::filesystem::path& path, const Database::Options& options = {});

  const std::filesystem::path& path() const { return path_; }

  void record(const Outcome& outcome);
  /// For the next launch of `requested`: `start` is what worked instead.
  void remember_start(const Signature& requested, const Start& start);
  /// What this very build learnt of the signature; where it never tried it, what the last other build did.
  std::optional<Remembered> remembered(const Signature& signature) const;

  void record_calibration(const Sample& sample);
  /// What was measured on a lane, one sample of each subject (signature without its build), oldest first: what `own`
  /// measured last, with however many threads, else what any other build did.
  std::vector<Sample> samples(const std::string& lane, const std::string& quantity, const Build& own = {}) const;
  /// How to correct predictions that `own` makes for that lane.
  Correction correction(const std::string& lane, const std::string& quantity, const Build& own) const;

  /// Every lane and quantity that was measured, sorted.
  std::vector<std::pair<std::string, std::string>> measured_lanes() const;

  /// All signatures, the one last written to first.
  std::vector<Entry> entries() const;
  std::optional<Entry> entry(int64_t id) const;
  /// Removes a signature with everything about it; nothing removed when there is none of that id.
  Forgotten forget(int64_t id);
  Forgotten forget_all();

 private:
  Catalog(const std::filesystem::path& path, Database database) : path_(path), database_(std::move(database)) {}

  int64_t id_of(const Signature& signature);  // adds it when it is new
  Forgotten forget_where(const std::string& condition);

  std::filesystem::path path_;
  Database database_;
};

struct MaybeCatalog {
  std::optional<Catalog> catalog = {};
  std::optional<base::Error> why_not = {};  // set when there is no catalog
};

}  // namespace megacpp::catalog
