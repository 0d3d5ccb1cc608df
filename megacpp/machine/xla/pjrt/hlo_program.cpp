// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/hlo_program.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/xla/pjrt/hlo_product.h"
#include "megacpp/machine/xla/pjrt/protobuf_reader.h"
#include "megacpp/machine/xla/pjrt/replica_groups.h"

namespace megacpp::runtime::pjrt {
namespace {

constexpr int kDeepestTuple = 64;
constexpr double kMostBytes = 1e12;  // of a tensor; more is damage
constexpr double kMostFlops = 1e30;  // of a product

/// Of xla.PrimitiveType; 0 for those that hold no elements.
int64_t bits_of(int64_t primitive_type) {
  switch (primitive_type) {
    case 30:  // S1
    case 31:  // U1
      return 1;
    case 26:  // S2
    case 27:  // U2
      return 2;
    case 21:  // S4
    case 22:  // U4
    case 32:  // F4E2M1FN
      return 4;
    case 1:   // PRED
    case 2:   // S8
    case 6:   // U8
    case 19:  // F8E5M2
    case 20:  // F8E4M3FN
    case 23:  // F8E4M3B11FNUZ
    case 24:  // F8E5M2FNUZ
    case 25:  // F8E4M3FNUZ
    case 28:  // F8E4M3
    case 29:  // F8E3M4
    case 33:  // F8E8M0FNU
      return 8;
    case 3:   // S16
    case 7:   // U16
    case 10:  // F16
    case 16:  // BF16
      return 16;
    case 4:   // S32
    case 8:   // U32
    case 11:  // F32
      return 32;
    case 5:   // S64
    case 9:   // U64
    case 12:  // F64
    case 15:  // C64
      return 64;
    case 18:  // C128
      return 128;
    default:
      return 0;
  }
}

HloShape read_shape(std::string_view bytes, int depth = 0) {
  ProtobufReader reader(bytes, "ShapeProto");
  if (depth > kDeepestTuple) reader.fail("tuples nested too deeply");
  HloShape shape;
  while (reader.next()) {
    if (reader.field() == 2) shape.element_bits = bits_of(reader.integer());
    if (reader.field() == 3) reader.append_integers(shape.dims);
    if (reader.field() == 4) shape.parts.push_back(read_shape(reader.bytes(), depth + 1));
  }
  double size =
      static_cast<double>(std::max<int64_t>(shape.element_bits, 1)) / 8;  // types without a size are bounded too
  for (const int64_t dim : shape.dims) {
    if (dim < 0) reader.fail("a dimension of " + std::to_string(dim));
    size *= static_cast<double>(std::max<int64_t>(dim, 1));  // an empty tensor's other dimensions are no larger
  }
  for (const HloShape& part : shape.parts) size += static_cast<double>(part.bytes());
  if (size > kMostBytes) reader.fail("a tensor larger than any memory");
  return shape;
}

std::string read_op_name(std::string_view bytes) {
  ProtobufReader reader(bytes, "OpMetadata");
  std::string name;
  while (reader.next())
    if (reader.field() == 2) name = reader.text();
  return name;
}

std::pair<int64_t, int64_t> read_pair(std::string_view bytes) {
  ProtobufReader reader(bytes, "SourceTarget");
  std::pair<int64_t, int64_t> pair = {0, 0};
  while (reader.next()) {
    if (reader.field() == 1) pair.first = reader.integer();
    if (reader.field() == 2) pair.second = reader.integer();
  }
  return pair;
}

// The configuration is JSON whose form differs from backend to backend; this entry is {"n":"5"} in all of them.
std::optional<int64_t> read_trip_count(std::string_view config) {
  constexpr std::string_view kKey = "\"known_trip_count\"";
  const size_t key = config.find(kKey);
  if (key == std::string_view::npos) return std::nullopt;
  const size_t digit = config.find_first_of("0123456789}", key + kKey.size());
  if (digit == std::string_view::npos) return std::nullopt;
  int64_t count = 0;
  const auto [end, error] = std::from_chars(config.data() + digit, config.data() + config.size(), count);
  return error == std::errc() ? std::optional(count) : std::nullopt;
}

// Of a LiteralProto that holds one integer of 32 or 64 bits; only scalars are needed.
std::optional<int64_t> read_integer_literal(std::string_view bytes) {
  ProtobufReader reader(bytes, "LiteralProto");
  std::vector<int64_t> values;
  while (reader.next())
    if (reader.field() >= 4 && reader.field() <= 7) reader.append_integers(values);  // s32s, s64s, u32s, u64s
  return values.size() == 1 ? std::optional(values[0]) : std::nullopt;
}

/// How instructions of a computation name each other. Later versions put the computation's number into the upper half.
constexpr int64_t kLowHalf = 0xffffffff;

struct Links {
  int64_t id = 0;
  std::vector<int64_t> operands;
};

HloInstruction read_instruction(std::string_view bytes, Links& links) {
  ProtobufReader reader(bytes, "HloInstructionProto");
  HloInstruction instruction;
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        instruction.name = reader.text();
        break;
      case 2:
        instruction.opcode = reader.text();
        break;
      case 3:
        instruction.shape = read_shape(reader.bytes());
        break;
      case 7:
        instruction.op_name = read_op_name(reader.bytes());
        break;
      case 8:
        if (instruction.shape.dims.empty()) instruction.constant = read_integer_literal(reader.bytes());
        break;
      case 35:
        links.id = reader.integer() & kLowHalf;
        break;
      case 36:
        reader.append_integers(links.operands);
        break;
      case 38:
        reader.append_integers(instruction.called);
        break;
      case 43:
        instruction.trip_count = read_trip_count(reader.bytes());
        break;
      case 49:
        instruction.groups.push_back(read_replica_group(reader.bytes()));
        break;
      case 52:
        instruction.pairs.push_back(read_pair(reader.bytes()));
        break;
      case 63:
        instruction.is_less_than = reader.bytes() == "LT";
        break;
      case 87:
        instruction.groups = read_collective_device_list(reader.bytes());
        break;
      case 92:
        instruction.groups = read_iota_groups(reader.bytes());
        break;
      case 93:
        instruction.groups = read_mesh_axes_groups(reader.bytes());
        break;
      default:
        break;
    }
  }
  return instruction;
}

double flops_of(std::string_view bytes, const HloInstruction& instruction, const std::vector<int64_t>& lhs) {
  const bool is_dot = instruction.opcode == "dot";
  return (is_dot ? dot_flops : convolution_flops)(bytes, lhs, instruction.shape.dims);
}

HloComputation read_computation(std::string_view bytes) {
  ProtobufReader reader(bytes, "HloComputationProto");
  HloComputation computation;
  std::map<int64_t, size_t> by_id;
  while (reader.next()) {
    if (reader.field() == 1) computation.name = reader.text();
    if (reader.field() == 5) computation.id = reader.integer();
    if (reader.field() != 2) continue;
    Links links;
    HloInstruction instruction = read_instruction(reader.bytes(), links);
    if (instruction.opcode == "dot" || instruction.opcode == "convolution") {
      const auto lhs = links.operands.empty() ? by_id.end() : by_id.find(links.operands[0] & kLowHalf);
      if (lhs == by_id.end()) reader.fail(instruction.name + " has no operand before it");
      instruction.flops = flops_of(reader.bytes(), instruction, computation.instructions[lhs->second].shape.dims);
      if (instruction.flops > kMostFlops) reader.fail(instruction.name + " multiplies more than any machine could");
    }
    by_id[links.id] = computation.instructions.size();
    computation.instructions.push_back(std::move(instruction));
  }
  return computation;
}

HloProgram read_module(std::string_view bytes) {
  ProtobufReader reader(bytes, "HloModuleProto");
  HloProgram program;
  while (reader.next()) {
    if (reader.field() == 1) program.name = reader.text();
    if (reader.field() == 3) program.computations.push_back(read_computation(reader.bytes()));
    if (reader.field() == 6) program.entry = reader.integer();
  }
  const bool has_entry = std::any_of(program.computations.begin(), program.computations.end(),
                                     [&](const HloComputation& each) { return each.id == program.entry; });
  if (!has_entry) reader.fail("its entry, computation " + std::to_string(program.entry) + ", is not in it");
  return program;
}

}  // namespace

int64_t HloShape::bytes() const {
  int64_t bits = element_bits;
  for (const int64_t dim : dims) bits *= dim;
  int64_t total = (bits + 7) / 8;
  for (const HloShape& part : parts) total += part.bytes();
  return total;
}

HloProgram read_hlo_program(const OptimizedProgram& optimized) {
  if (optimized.format == "hlo") return read_module(optimized.code);
  MEGACPP_REQUIRE(optimized.format == "hlo_with_config", E1505,
                  ({.where = "the compiled program",
                    .got = "format '" + optimized.format + "'",
                    .wanted = "hlo or hlo_with_config",
                    .next = "take another plugin or another version of it"}));
  ProtobufReader reader(optimized.code, "HloModuleProtoWithConfig");
  std::string_view module;
  while (reader.next())
    if (reader.field() == 1) module = reader.bytes();
  return read_module(module);
}

}  // namespace megacpp::runtime::pjrt
