// SPDX-License-Identifier: Apache-2.0
// A parameter before any storage exists: name, shape, how it starts, how the optimizer treats it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/tensor_type.h"
#include "megacpp/program/blocks/parallel.h"

namespace megacpp::blocks {

/// The distribution a parameter is drawn from. A number depends on (seed, parameter name, element index) only, so every
/// layout starts from the same weights.
struct Init {
  enum class Kind : uint8_t {
    constant,         // a
    normal,           // mean 0, standard deviation a
    log_uniform_int,  // log(1 + i) of element i: A_log of Mamba-2, heads 1..H
    dt_bias,          // inverse softplus of a time step, log-uniform in [a, b], at least c
    rg_lru,           // p with exp(-softplus(p)) = rho, rho^2 uniform in [a^2, b^2]
  };
  Kind kind = Kind::constant;
  double a = 0.0;
  double b = 0.0;
  double c = 0.0;

  static Init zeros() { return {}; }
  static Init ones() { return {.kind = Kind::constant, .a = 1.0}; }
  static Init normal(double deviation) { return {.kind = Kind::normal, .a = deviation}; }
};

/// What a parameter is in the model. Optimizers choose by it how they treat a parameter, and recipes name it.
enum class ParameterKind : uint8_t {
  matrix,       // [.., in, out] of a product inside a block; leading dimensions count matrices: experts, heads
  embedding,    // [tokens, hidden]
  head,         // [hidden, tokens]
  convolution,  // [channels, width]
  norm,         // gains
  bias,         // of products, convolutions and time steps
  recurrence,   // constants of a channel or head: A_log and D of M, p of R
};

struct Parameter {
  std::string name;  // full: "block03.M.out_proj"
  ir::Shape shape;
  std::vector<Dim> dims;  // what a layout may split, one per dimension
  Init init;
  ParameterKind kind = ParameterKind::matrix;
  bool trainable = true;  // false: kept by the run but not by gradients (expert bias)
  char letter = 0;        // of the block it belongs to; 0: none
  bool frozen = false;  // not trainable, and nothing else changes it either: the base of adapters, a bias that is kept
};

/// Names of the kinds, in their order.
inline constexpr std::array kParameterKinds = {std::string_view("matrix"),    std::string_view("embedding"),
                                               std::string_view("head"),      std::string_view("convolution"),
                                               std::string_view("norm"),      std::string_view("bias"),
                                               std::string_view("recurrence")};
constexpr std::string_view kind_name(ParameterKind kind) { return kParameterKinds[static_cast<size_t>(kind)]; }

/// Whether the pattern, in which '*' stands for any text, is the whole name: "block*.A.wq". Takes no more
/// than the product of their lengths in comparisons, however many stars there are.
bool name_matches(std::string_view pattern, std::string_view name);

/// Elements [first, first + values.size()) of the parameter, drawn for `seed`.
void initialise(const Parameter& parameter, uint64_t seed, int64_t first, std::span<float> values);

}  // namespace megacpp::blocks
