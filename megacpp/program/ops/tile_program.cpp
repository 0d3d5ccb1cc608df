// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/tile_program.h"

#include <algorithm>
#include <charconv>
#include <type_traits>

#include "megacpp/core/base/error.h"

namespace megacpp::ops {
namespace {

std::string number_text(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, end.ptr);
}

template <typename T>
std::string joined(const std::vector<T>& items, std::string_view prefix) {
  std::string text;
  for (const T& item : items) text += (text.empty() ? "" : ",") + std::string(prefix) + std::to_string(item);
  return text;
}

[[noreturn]] void refuse(std::string_view word) {
  base::raise(base::Code::E1301, {.where = "tile program",
                                  .got = std::string(word),
                                  .wanted = "in(..), const(x), op(%a,..), out(%r), sum(%r;n) or max(%r;n)"});
}

// T: double for constants; int64_t for dimensions and registers, which are never negative.
template <typename T>
T parse_number(std::string_view text) {
  T value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) refuse(text);
  if (std::is_integral_v<T> && value < 0) refuse(text);
  return value;
}

// Programs are parsed whenever a type is inferred or verified: without streams, which took a tenth of a plan's time.

/// An end behind the last comma is no part, and nothing has none.
std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    parts.push_back(text.substr(0, text.find(',')));
    text.remove_prefix(std::min(parts.back().size() + 1, text.size()));
  }
  return parts;
}

/// Takes the next word from the front of `text`; empty where there is none.
std::string_view take_word(std::string_view& text) {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(kSpaces));
  text.remove_prefix(word.size());
  return word;
}

int parse_register(std::string_view text, size_t registers) {
  if (text.empty() || text[0] != '%') refuse(text);
  const int64_t index = parse_number<int64_t>(text.substr(1));
  if (index >= static_cast<int64_t>(registers)) refuse(text);
  return static_cast<int>(index);
}

TileInstruction parse_scalar(std::string_view name, std::string_view inside, size_t registers) {
  TileInstruction instruction{.kind = TileInstruction::Kind::scalar};
  instruction.op = find_scalar_op(name);
  if (instruction.op == nullptr) refuse(name);
  for (const std::string_view arg : split_at_commas(inside)) instruction.args.push_back(parse_register(arg, registers));
  if (static_cast<int>(instruction.args.size()) != instruction.op->arity)
    refuse(std::string(name) + "(" + std::string(inside) + ")");
  return instruction;
}

}  // namespace

int looked_through_converts(const TileProgram& program, int reg) {
  while (true) {
    const TileInstruction& instruction = program.instructions[static_cast<size_t>(reg)];
    if (instruction.kind != TileInstruction::Kind::scalar || instruction.op->name != "convert") return reg;
    reg = instruction.args[0];
  }
}

std::string to_string(const TileProgram& program) {
  std::string text;
  const auto add = [&text](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  for (const TileInstruction& instruction : program.instructions) {
    switch (instruction.kind) {
      case TileInstruction::Kind::input:
        add("in(" + joined(instruction.dims, "") + ")");
        break;
      case TileInstruction::Kind::constant:
        add("const(" + number_text(instruction.value) + ")");
        break;
      case TileInstruction::Kind::scalar:
        add(std::string(instruction.op->name) + "(" + joined(instruction.args, "%") + ")");
        break;
    }
  }
  for (const TileOutput& output : program.outputs) {
    const std::string reg = "%" + std::to_string(output.reg);
    switch (output.kind) {
      case TileOutput::Kind::store:
        add("out(" + reg + ")");
        break;
      case TileOutput::Kind::sum:
        add("sum(" + reg + ";" + std::to_string(output.reduced_dims) + ")");
        break;
      case TileOutput::Kind::max:
        add("max(" + reg + ";" + std::to_string(output.reduced_dims) + ")");
        break;
    }
  }
  return text;
}

TileProgram parse_tile_program(std::string_view text) {
  TileProgram program;
  for (std::string_view word = take_word(text); !word.empty(); word = take_word(text)) {
    const size_t open = word.find('(');
    if (open == std::string_view::npos || word.back() != ')') refuse(word);
    const std::string_view name = word.substr(0, open), inside = word.substr(open + 1, word.size() - open - 2);
    const size_t registers = program.instructions.size();
    const size_t semicolon = inside.find(';');
    if (name == "in") {
      TileInstruction instruction{.kind = TileInstruction::Kind::input};
      for (const std::string_view dim : split_at_commas(inside)) instruction.dims.push_back(parse_number<int64_t>(dim));
      program.instructions.push_back(std::move(instruction));
    } else if (name == "const") {
      program.instructions.push_back({.kind = TileInstruction::Kind::constant, .value = parse_number<double>(inside)});
    } else if (name == "out") {
      program.outputs.push_back({.kind = TileOutput::Kind::store, .reg = parse_register(inside, registers)});
    } else if (semicolon != std::string_view::npos && (name == "sum" || name == "max")) {
      program.outputs.push_back({.kind = name == "sum" ? TileOutput::Kind::sum : TileOutput::Kind::max,
                                 .reg = parse_register(inside.substr(0, semicolon), registers),
                                 .reduced_dims = parse_number<int64_t>(inside.substr(semicolon + 1))});
    } else {
      program.instructions.push_back(parse_scalar(name, inside, registers));
    }
  }
  return program;
}

}  // namespace megacpp::ops
