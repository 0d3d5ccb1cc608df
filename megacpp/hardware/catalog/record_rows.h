// SPDX-License-Identifier: Apache-2.0
// Records (base/record.h) as rows of the catalog's tables: a column a member, of its name. Flags, integers, numbers and
// texts are values of SQLite, absent ones NULL; records and lists are text, as JSON, and empty where they are absent. A
// row that megacpp cannot have written is E1701 and names the file. For .cpp files.
#pragma once

#include "megacpp/core/base/record_from_json.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/hardware/catalog/database.h"
#include "megacpp/hardware/catalog/signature.h"

namespace megacpp::catalog {

[[noreturn]] inline void refuse_row(const Statement& row, const std::string& why) {
  refuse_file(row.file(), "a damaged row: " + why);
}

template <typename T>
constexpr std::string_view type_of_column() {
  if constexpr (base::IsOptional<T>::value) {
    using Value = typename T::value_type;
    return std::is_arithmetic_v<Value> ? (std::is_integral_v<Value> ? "INTEGER" : "REAL") : "TEXT NOT NULL";
  } else if constexpr (std::is_arithmetic_v<T>) {
    return std::is_integral_v<T> ? "INTEGER NOT NULL" : "REAL NOT NULL";
  } else {
    return "TEXT NOT NULL";
  }
}

/// Calls `column(name, member)` for every column. The signature that a record is about is a row of another table.
template <typename Column, typename T>
void visit_columns(const Column& column, T& record) {
  const auto visit = [&column](const char* name, auto& member, const auto&... /*about*/) {
    if constexpr (!base::Is<std::remove_reference_t<decltype(member)>, Signature>) column(name, member);
  };
  visit_fields(visit, record);
}

/// "at, rung, settings"; `before` stands ahead of each: "start.".
template <base::Record T>
std::string columns_of(const std::string& before = "") {
  std::string columns;
  const auto add = [&](const char* name, const auto& /*member*/) {
    columns += (columns.empty() ? "" : ", ") + before + name;
  };
  const T record{};
  visit_columns(add, record);
  return columns;
}

/// The same with their types, as CREATE TABLE wants them.
template <base::Record T>
std::string typed_columns_of() {
  std::string columns;
  const auto add = [&]<typename Member>(const char* name, const Member& /*member*/) {
    columns += std::string(columns.empty() ? "" : ",\n  ") + name + " " + std::string(type_of_column<Member>());
  };
  const T record{};
  visit_columns(add, record);
  return columns;
}

template <base::Record T>
int width_of() {
  int width = 0;
  const T record{};
  visit_columns([&](const char*, const auto&) { ++width; }, record);
  return width;
}

template <typename T>
void bind_member(Statement& statement, int index, const T& value) {
  if constexpr (type_of_column<T>() != "TEXT NOT NULL" || std::is_same_v<T, std::string>) {
    statement.bind_at(index, value);
  } else if constexpr (base::IsOptional<T>::value) {
    statement.bind_at(index, value ? base::record_text(*value) : "");
  } else {
    statement.bind_at(index, base::record_text(value));
  }
}

template <typename T>
void read_json_member(const Statement& row, int column, const std::string& name, T& value) {
  const auto refuse = [&](const std::string& path, std::string_view wanted) {
    refuse_row(row, path + " that is not " + std::string(wanted));
  };
  base::Json json;
  try {
    json = base::parse_json(row.text(column), base::Code::E1701, name);
  } catch (const base::Error& error) {
    refuse_row(row, error.problem().where + ": " + error.problem().got);
  }
  base::read_record(json, value, name, {.on_mismatch = refuse});
}

template <typename T>
void read_member(const Statement& row, int column, const std::string& name, T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    value = row.text(column);
  } else if constexpr (std::is_same_v<T, double>) {
    value = row.real(column);
  } else if constexpr (std::is_integral_v<T>) {
    value = static_cast<T>(row.integer(column));
  } else if constexpr (std::is_same_v<T, std::optional<int64_t>>) {
    value = row.maybe_integer(column);
  } else if constexpr (std::is_same_v<T, std::optional<double>>) {
    value = row.maybe_real(column);
  } else if constexpr (base::IsOptional<T>::value) {
    value.reset();
    if (!row.text(column).empty()) read_json_member(row, column, name, value.emplace());
  } else {
    read_json_member(row, column, name, value);
  }
}

/// The record that a row holds, in columns from `first` on.
template <base::Record T>
T read_row(const Statement& row, int first) {
  T record{};
  const auto read = [&](const char* name, auto& member) { read_member(row, first++, name, member); };
  visit_columns(read, record);
  return record;
}

/// Adds a row: `keys` are the first columns, `values` theirs, and the record's follow.
template <base::Record T, typename... Values>
void insert_row(const Database& database, const std::string& table, const std::string& keys, const T& record,
                const Values&... values) {
  int index = 0;
  std::string places = "?";
  for (int i = 1; i < static_cast<int>(sizeof...(values)) + width_of<T>(); ++i) places += ", ?";
  Statement statement =
      database.prepare("INSERT INTO " + table + " (" + keys + ", " + columns_of<T>() + ") VALUES (" + places + ")");
  (statement.bind_at(++index, values), ...);
  visit_columns([&](const char*, const auto& member) { bind_member(statement, ++index, member); }, record);
  statement.run();
}

}  // namespace megacpp::catalog
