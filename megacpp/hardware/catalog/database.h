// SPDX-License-Identifier: Apache-2.0
// SQLite with owners: a connection, a statement, a transaction that is undone unless it was committed.
// Every failure is an error of ours: E1701 for a file that is damaged or no database, E3301 for one that others keep
// locked, E3001 where the disk or its permissions refuse, E9001 for statements that are wrong.
// A connection belongs to one thread at a time and must not be carried over a fork.
#pragma once

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace megacpp::catalog {

/// E1701: the file is no sound catalog. `got` says what it is instead.
[[noreturn]] void refuse_file(const std::string& path, const std::string& got);

/// One SQL statement. Values are bound in the order of its question marks; an absent or non-finite one is NULL.
class Statement {
 public:
  template <typename... Values>
  Statement& bind(const Values&... values) {
    int index = 0;
    (bind_at(++index, values), ...);
    return *this;
  }
  // One question mark, from 1.
  void bind_at(int index, int64_t value);
  void bind_at(int index, double value);
  void bind_at(int index, std::string_view value);
  void bind_at(int index, std::nullopt_t);
  void bind_at(int index, std::integral auto value) { bind_at(index, static_cast<int64_t>(value)); }
  template <typename T>
  void bind_at(int index, const std::optional<T>& value) {
    value ? bind_at(index, *value) : bind_at(index, std::nullopt);
  }

  /// Goes to the next row; false when there is none.
  bool step();
  /// Runs a statement that has no rows to read.
  void run();

  // Columns of the row, from 0.
  int64_t integer(int column) const;
  std::string text(int column) const;
  double real(int column) const;
  std::optional<int64_t> maybe_integer(int column) const;
  std::optional<double> maybe_real(int column) const;
  /// Of the database, for messages; empty for one in memory.
  std::string file() const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  void check(int result) const;

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

enum class Access {
  write,  // creates the file where there is none
  read    // never changes it; also reads where nothing may be written
};

class Database {
 public:
  struct Options {
    Access access = Access::write;
    std::chrono::milliseconds wait{10'000};  // how long to wait for others to unlock the file
    bool immutable = false;                  // take no locks: for files that nobody can write
  };
  /// Opens without reading or changing anything; a missing file is made, empty, with write access.
  Database(const std::filesystem::path& path, const Options& options);
  /// An empty one that no file holds.
  static Database in_memory();

  /// The first bytes of the file as they are on disk, with no lock and no recovery; as many zeros as it is shorter.
  static constexpr size_t kHeaderSize = 100;
  std::array<unsigned char, kHeaderSize> header() const;
  int64_t size() const;
  bool is_read_only() const;

  Statement prepare(std::string_view sql) const;
  /// Runs statements without values or rows.
  void execute(const std::string& sql) const;
  /// The first column of the only row, e.g. of a PRAGMA.
  int64_t integer(std::string_view sql) const;
  std::string text(std::string_view sql) const;
  int64_t last_id() const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  Database() = default;

  std::unique_ptr<sqlite3, Close> database_;
};

/// Takes the write lock at once, so that what is read inside stays true until the commit.
class Transaction {
 public:
  explicit Transaction(const Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  const Database& database_;
  bool open_ = true;
};

}  // namespace megacpp::catalog
