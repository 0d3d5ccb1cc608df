// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/catalog/database.h"

#include <sqlite3.h>

#include <cctype>
#include <cmath>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/path.h"

namespace megacpp::catalog {
namespace {

base::Code code_of(int result) {
  switch (result & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return base::Code::E1701;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return base::Code::E3301;
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_FULL:
    case SQLITE_IOERR:
      return base::Code::E3001;
    case SQLITE_NOMEM:
      return base::Code::E3002;
    default:
      return base::Code::E9001;
  }
}

std::string next_step(base::Code code) {
  constexpr const char* kOther = "or name another file with --catalog or MEGACPP_CATALOG";
  switch (code) {
    case base::Code::E1701:
      return std::string("move the file away and let a new one be made, ") + kOther;
    case base::Code::E3301:
      return std::string("see who has the file open (fuser), ") + kOther;
    case base::Code::E3001:
      return std::string("check the permissions of the file and its folder and the free space, ") + kOther;
    case base::Code::E3002:
      return "free memory and try again";
    default:
      return "this is a defect of megacpp: please report it with the command";
  }
}

std::string wanted(base::Code code) {
  switch (code) {
    case base::Code::E1701:
      return "a catalog that megacpp made";
    case base::Code::E3301:
      return "a catalog that others leave free for a moment";
    case base::Code::E3001:
      return "a file and a folder that this user may read and write";
    case base::Code::E3002:
      return "memory for reading and writing it";
    default:
      return "a call of SQLite that succeeds";
  }
}

/// One in memory has no name.
std::string place_of(const std::string& file) { return file.empty() ? "the catalog's copy in memory" : file; }

[[noreturn]] void fail(sqlite3* database, int result, const std::string& where) {
  const base::Code code = code_of(result);
  const std::string words = database == nullptr ? sqlite3_errstr(result) : sqlite3_errmsg(database);
  base::raise(code, {.where = place_of(where), .got = words, .wanted = wanted(code), .next = next_step(code)});
}

std::string file_of(sqlite3* database) {
  const char* name = sqlite3_db_filename(database, "main");
  return name == nullptr ? "" : name;
}

/// The path as SQLite's file: address; what means something there is written as %hex.
std::string address(const std::filesystem::path& path, bool immutable) {
  constexpr std::string_view kPlain = "/-_.~";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text = "file:";
  for (const char c : base::absolute(path).string()) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || kPlain.find(c) != std::string_view::npos) {
      text += c;
    } else {
      text += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return text + (immutable ? "?immutable=1" : "");
}

/// SQLite's own handle of the file: a second one of ours would drop this process's locks when it is closed.
sqlite3_file* file_handle(sqlite3* database) {
  sqlite3_file* file = nullptr;
  sqlite3_file_control(database, "main", SQLITE_FCNTL_FILE_POINTER, &file);
  MEGACPP_CHECK(file != nullptr && file->pMethods != nullptr);
  return file;
}

}  // namespace

void refuse_file(const std::string& path, const std::string& got) {
  constexpr base::Code kCode = base::Code::E1701;
  base::raise(kCode, {.where = place_of(path), .got = got, .wanted = wanted(kCode), .next = next_step(kCode)});
}

// ---- Statement

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

void Statement::check(int result) const {
  if (result == SQLITE_OK || result == SQLITE_ROW || result == SQLITE_DONE) return;
  fail(sqlite3_db_handle(statement_.get()), result, file());
}

void Statement::bind_at(int index, int64_t value) { check(sqlite3_bind_int64(statement_.get(), index, value)); }

void Statement::bind_at(int index, double value) {
  if (!std::isfinite(value)) return bind_at(index, std::nullopt);
  check(sqlite3_bind_double(statement_.get(), index, value));
}

void Statement::bind_at(int index, std::string_view value) {
  check(sqlite3_bind_text64(statement_.get(), index, value.data() == nullptr ? "" : value.data(), value.size(),
                            SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Statement::bind_at(int index, std::nullopt_t) { check(sqlite3_bind_null(statement_.get(), index)); }

bool Statement::step() {
  const int result = sqlite3_step(statement_.get());
  check(result);
  return result == SQLITE_ROW;
}

void Statement::run() {
  while (step()) {
  }
}

int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
double Statement::real(int column) const { return sqlite3_column_double(statement_.get(), column); }

std::string Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  return bytes == nullptr ? ""
                          : std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column)));
}

std::optional<int64_t> Statement::maybe_integer(int column) const {
  if (sqlite3_column_type(statement_.get(), column) == SQLITE_NULL) return std::nullopt;
  return integer(column);
}

std::optional<double> Statement::maybe_real(int column) const {
  if (sqlite3_column_type(statement_.get(), column) == SQLITE_NULL) return std::nullopt;
  return real(column);
}

std::string Statement::file() const { return file_of(sqlite3_db_handle(statement_.get())); }

// ---- Database

void Database::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

Database::Database(const std::filesystem::path& path, const Options& options) {
  const int how = options.immutable                 ? SQLITE_OPEN_READONLY
                  : options.access == Access::write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                                                    : SQLITE_OPEN_READWRITE;
  sqlite3* opened = nullptr;
  const int result = sqlite3_open_v2(address(path, options.immutable).c_str(), &opened,
                                     how | SQLITE_OPEN_URI | SQLITE_OPEN_EXRESCODE, nullptr);
  database_.reset(opened);
  if (result != SQLITE_OK) fail(opened, result, path.string());
  sqlite3_busy_timeout(opened, static_cast<int>(options.wait.count()));
}

Database Database::in_memory() {
  Database database;
  sqlite3* opened = nullptr;
  const int result = sqlite3_open(":memory:", &opened);
  database.database_.reset(opened);
  if (result != SQLITE_OK) fail(opened, result, "");
  return database;
}

std::array<unsigned char, Database::kHeaderSize> Database::header() const {
  std::array<unsigned char, kHeaderSize> bytes = {};
  sqlite3_file* file = file_handle(database_.get());
  const int result = file->pMethods->xRead(file, bytes.data(), static_cast<int>(bytes.size()), 0);
  if (result != SQLITE_OK && result != SQLITE_IOERR_SHORT_READ) fail(nullptr, result, file_of(database_.get()));
  return bytes;
}

int64_t Database::size() const {
  sqlite3_int64 size = 0;
  sqlite3_file* file = file_handle(database_.get());
  const int result = file->pMethods->xFileSize(file, &size);
  if (result != SQLITE_OK) fail(nullptr, result, file_of(database_.get()));
  return size;
}

bool Database::is_read_only() const { return sqlite3_db_readonly(database_.get(), "main") == 1; }

Statement Database::prepare(std::string_view sql) const {
  sqlite3_stmt* statement = nullptr;
  const int result = sqlite3_prepare_v2(database_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (result != SQLITE_OK) fail(database_.get(), result, file_of(database_.get()));
  return Statement(statement);
}

void Database::execute(const std::string& sql) const {
  const int result = sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (result != SQLITE_OK) fail(database_.get(), result, file_of(database_.get()));
}

int64_t Database::integer(std::string_view sql) const {
  Statement statement = prepare(sql);
  MEGACPP_CHECK(statement.step()) << sql;
  return statement.integer(0);
}

std::string Database::text(std::string_view sql) const {
  Statement statement = prepare(sql);
  MEGACPP_CHECK(statement.step()) << sql;
  return statement.text(0);
}

int64_t Database::last_id() const { return sqlite3_last_insert_rowid(database_.get()); }

// ---- Transaction

Transaction::Transaction(const Database& database) : database_(database) { database_.execute("BEGIN IMMEDIATE"); }

Transaction::~Transaction() {
  if (!open_) return;
  try {
    database_.execute("ROLLBACK");
  } catch (const base::Error&) {
    // SQLite has undone it already, as after a full disk.
  }
}

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

}  // namespace megacpp::catalog
