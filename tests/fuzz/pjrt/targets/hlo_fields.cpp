// SPDX-License-Identifier: Apache-2.0
// Programs written field by field, with opcodes that are analysed and numbers that are not XLA's.
#include <array>

#include <protozero/pbf_writer.hpp>

#include "tests/fuzz/choices.h"
#include "tests/fuzz/pjrt/hlo_check.h"

namespace megacpp::fuzz {
namespace {

using protozero::pbf_writer;

int64_t any_number(Choices& choices) {
  constexpr std::array<int64_t, 20> kNumbers = {
      0,         1,         2,         3,         4,  7, 8, 16, 64, 1000, 1 << 20, 1 << 30, INT32_MAX, int64_t{1} << 31,
      1LL << 40, 1LL << 62, INT64_MAX, INT64_MIN, -1, -2};
  return choices.any_of(kNumbers);
}

std::vector<int64_t> numbers(Choices& choices, size_t most) {
  std::vector<int64_t> list(choices.below(most + 1));
  for (int64_t& number : list)
    number = choices.one_in(4) ? any_number(choices) : choices.any_of<int64_t>({0, 1, 2, 3, 4, 8});
  return list;
}

void add_numbers(pbf_writer& writer, uint32_t field, const std::vector<int64_t>& list) {
  writer.add_packed_int64(field, list.begin(), list.end());
}

void add_shape(pbf_writer& parent, uint32_t field, Choices& choices, int depth = 0) {
  pbf_writer shape(parent, field);
  shape.add_int64(2, choices.any_of<int64_t>({11, 16, 4, 5, 1, 31, 18, 13, 99}));
  add_numbers(shape, 3, numbers(choices, 4));
  while (depth < 3 && choices.one_in(6)) add_shape(shape, 4, choices, depth + 1);
}

void add_window(pbf_writer& instruction, Choices& choices) {
  pbf_writer window(instruction, 15);
  for (size_t dims = choices.below(4); dims > 0; --dims) {
    pbf_writer dim(window, 1);
    for (const uint32_t field : {1u, 2u, 3u, 5u, 6u})
      if (choices.one_in(2))
        dim.add_int64(field, choices.one_in(3) ? any_number(choices) : choices.any_of<int64_t>({1, 2, 3}));
  }
}

void add_convolution(pbf_writer& instruction, Choices& choices) {
  add_window(instruction, choices);
  pbf_writer dims(instruction, 16);
  for (const uint32_t field : {7u, 8u, 10u}) dims.add_int64(field, choices.any_of<int64_t>({0, 1, 2, 3, -1, 99}));
  for (const uint32_t field : {11u, 12u}) add_numbers(dims, field, numbers(choices, 3));
}

void add_groups(pbf_writer& instruction, Choices& choices) {
  switch (choices.below(4)) {
    case 0: {
      pbf_writer group(instruction, 49);
      add_numbers(group, 1, numbers(choices, 8));
      break;
    }
    case 1: {
      pbf_writer list(instruction, 87);
      pbf_writer iota(list, 2);
      for (const uint32_t field : {1u, 2u}) iota.add_int64(field, any_number(choices));
      for (const uint32_t field : {3u, 4u}) add_numbers(iota, field, numbers(choices, 3));
      break;
    }
    case 2: {
      pbf_writer iota(instruction, 92);
      for (const uint32_t field : {1u, 2u}) iota.add_int64(field, any_number(choices));
      for (const uint32_t field : {3u, 4u}) add_numbers(iota, field, numbers(choices, 3));
      break;
    }
    default: {
      pbf_writer pair(instruction, 52);
      for (const uint32_t field : {1u, 2u}) pair.add_int64(field, any_number(choices));
    }
  }
}

void add_instruction(pbf_writer& computation, int64_t id, Choices& choices) {
  const std::string opcode = choices.any_of({"dot", "convolution", "while", "call", "fusion", "all-reduce",
                                             "all-gather-start", "reduce-scatter", "all-to-all", "collective-permute",
                                             "constant", "compare", "parameter", "dynamic-slice"});
  pbf_writer instruction(computation, 2);
  instruction.add_string(1, opcode + "." + std::to_string(id));
  instruction.add_string(2, opcode);
  add_shape(instruction, 3, choices);
  instruction.add_int64(35, id);
  add_numbers(instruction, 36, {choices.one_in(8) ? any_number(choices) : id - 1});
  if (choices.one_in(3)) add_numbers(instruction, 38, numbers(choices, 2));
  if (opcode == "convolution") add_convolution(instruction, choices);
  if (opcode == "dot") {
    pbf_writer dims(instruction, 30);
    add_numbers(dims, 1, numbers(choices, 2));
  }
  if (opcode == "constant") {
    pbf_writer literal(instruction, 8);
    add_numbers(literal, 5, {any_number(choices)});
  }
  if (opcode == "compare") instruction.add_string(63, choices.any_of({"LT", "GE"}));
  if (opcode == "while" && choices.one_in(2))
    instruction.add_string(43, "{\"known_trip_count\":{\"n\":\"" + std::to_string(any_number(choices)) + "\"}}");
  if (opcode.find("all") == 0 || opcode.find("re") == 0 || opcode.find("coll") == 0) add_groups(instruction, choices);
}

void read_written_program(Bytes input) {
  Choices choices(input);
  std::string code;
  pbf_writer module(code);
  module.add_string(1, "fuzz");
  const auto computations = static_cast<int64_t>(1 + choices.below(5));
  for (int64_t c = 0; c < computations; ++c) {
    pbf_writer computation(module, 3);
    computation.add_string(1, choices.any_of({"main", "body", "all-reduce-scatter"}));
    computation.add_int64(5, choices.one_in(16) ? any_number(choices) : c);
    for (size_t i = choices.below(6); i > 0; --i) add_instruction(computation, static_cast<int64_t>(i), choices);
  }
  module.add_int64(6, choices.one_in(16) ? any_number(choices) : computations - 1);
  read_hlo(code, "hlo");
}

}  // namespace

Target hlo_fields_target() {
  return {.name = "hlo_fields", .subject = "fields of HLO programs", .weight = 100, .run = read_written_program};
}

}  // namespace megacpp::fuzz
