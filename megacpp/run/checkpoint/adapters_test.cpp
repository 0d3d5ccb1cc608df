// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/adapters.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "megacpp/run/checkpoint/transform.h"
#include "megacpp/run/checkpoint/writer.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::checkpoint {
namespace {

using base::Code;
using testing_support::problem_of;
using testing_support::TemporaryFolder;

FloatTensor stepped(ir::Shape shape, float first) {
  FloatTensor tensor{std::move(shape), {}};
  for (int64_t i = 0; i < ir::num_elements(tensor.shape); ++i)
    tensor.data.push_back(first + 0.25f * static_cast<float>(i % 7));
  return tensor;
}

/// A plain matrix and one of two experts, each with adapters of rank 2, and a norm.
TensorMap adapted_tensors() {
  return {{"norm", stepped({3}, 1)},          {"w", stepped({3, 4}, 1)},    {"w.lora_A", stepped({3, 2}, -1)},
          {"w.lora_B", stepped({2, 4}, 2)},   {"e", stepped({2, 3, 4}, 0)}, {"e.lora_A", stepped({2, 3, 2}, 1)},
          {"e.lora_B", stepped({2, 2, 4}, 3)}};
}

constexpr double kAlphaOfTest = 6;

/// Element [i, j] of matrix m, by the definition.
double merged_element(const TensorMap& tensors, const std::string& name, const std::array<size_t, 3>& at) {
  const auto [m, i, j] = at;
  const FloatTensor &w = tensors.at(name), &a = tensors.at(name + ".lora_A"), &b = tensors.at(name + ".lora_B");
  double sum = 0;
  for (size_t k = 0; k < 2; ++k)
    sum += static_cast<double>(a.data[(m * 3 + i) * 2 + k]) * static_cast<double>(b.data[(m * 2 + k) * 4 + j]);
  return static_cast<double>(w.data[(m * 3 + i) * 4 + j]) + kAlphaOfTest / 2 * sum;
}

void expect_merged(const FloatTensor& got, const TensorMap& tensors, const std::string& name) {
  for (size_t e = 0; e < got.data.size(); ++e)
    EXPECT_FLOAT_EQ(got.data[e], static_cast<float>(merged_element(tensors, name, {e / 12, e / 4 % 3, e % 4})))
        << name << " " << e;
}

TEST(AdaptersTest, MergedMatricesAreTheSumByDefinition) {
  const TensorMap before = adapted_tensors();
  TensorMap after = before;
  merge_adapters(after, kAlphaOfTest);
  ASSERT_EQ(after.size(), 3u);
  EXPECT_EQ(after.at("norm").data, before.at("norm").data);
  expect_merged(after.at("w"), before, "w");
  expect_merged(after.at("e"), before, "e");
}

TEST(AdaptersTest, AdaptersThatDoNotFitAreRefused) {
  struct Case {
    const char* name;
    std::function<void(TensorMap&)> spoil;
    std::string where;
  };
  for (const Case& each : {Case{"half a pair", [](TensorMap& t) { t.erase("w.lora_B"); }, "w.lora_B"},
                           Case{"the other half", [](TensorMap& t) { t.erase("w.lora_A"); }, "w.lora_A"},
                           Case{"no matrix", [](TensorMap& t) { t.erase("w"); }, "w"},
                           Case{"another width",
                                [](TensorMap& t) {
                                  t["w.lora_A"] = stepped({4, 2}, 0);
                                },
                                "w.lora_A"},
                           Case{"another rank",
                                [](TensorMap& t) {
                                  t["w.lora_B"] = stepped({3, 4}, 0);
                                },
                                "w.lora_B"},
                           Case{"another rank of tensor",
                                [](TensorMap& t) {
                                  t["e.lora_A"] = stepped({3, 2}, 0);
                                },
                                "e.lora_A"},
                           Case{"a scalar", [](TensorMap& t) { t["w.lora_A"] = stepped({}, 0); }, "w.lora_A"}}) {
    SCOPED_TRACE(each.name);
    TensorMap tensors = adapted_tensors();
    each.spoil(tensors);
    EXPECT_EQ(problem_of(Code::E1205, [&] { merge_adapters(tensors, 1); }).where, each.where);
  }
}

void write(const std::filesystem::path& folder, const TensorMap& tensors, std::map<std::string, std::string> model) {
  std::vector<PieceBytes> pieces;
  for (const auto& [name, tensor] : tensors)
    pieces.push_back({.tensor = name,
                      .whole = {ir::DType::f32, tensor.shape},
                      .box = {ir::Shape(tensor.shape.size(), 0), tensor.shape},
                      .bytes = std::as_bytes(std::span(tensor.data))});
  const std::vector<float> moment = {1, 2, 3, 4, 5, 6};
  pieces.push_back({.tensor = "m.w.lora_A",
                    .whole = {ir::DType::f32, {3, 2}},
                    .is_weight = false,
                    .box = {{0, 0}, {3, 2}},
                    .bytes = std::as_bytes(std::span(moment))});
  Manifest header;
  header.model = std::move(model);
  write_checkpoint(folder, header, pieces);
}

TEST(AdaptersTest, ACheckpointIsConvertedToTheModelOrToTheAdaptersAlone) {
  const TemporaryFolder folder;
  const TensorMap tensors = adapted_tensors();
  write(folder / "adapted", tensors, {{"model.hidden", "3"}, {"lora.alpha", "6"}, {"lora.rank", "2"}});
  const Reader adapted(folder / "adapted");
  EXPECT_EQ(alpha_of(adapted), kAlphaOfTest);

  const Manifest merged = convert(adapted, folder / "merged", {.shards = 2, .adapters = Adapters::merged});
  EXPECT_EQ(merged.tensors.size(), 3u);
  EXPECT_EQ(merged.model, (std::map<std::string, std::string>{{"model.hidden", "3"}})) << "a model without adapters";
  const Reader reader(folder / "merged");
  expect_merged(whole_tensor(reader, "w"), tensors, "w");
  expect_merged(whole_tensor(reader, "e"), tensors, "e");
  EXPECT_EQ(whole_tensor(reader, "norm").data, tensors.at("norm").data);

  const Manifest alone = convert(adapted, folder / "alone", {.adapters = Adapters::alone});
  EXPECT_EQ(alone.tensors.size(), 4u);
  EXPECT_FALSE(alone.tensors.contains("m.w.lora_A")) << "no state of the optimizer";
  TensorMap loaded = {{"norm", tensors.at("norm")}, {"w", tensors.at("w")}, {"e", tensors.at("e")}};
  const Reader adapters(folder / "alone");
  loaded.merge(read_adapters(adapters));
  merge_adapters(loaded, alpha_of(adapters));
  expect_merged(loaded.at("w"), tensors, "w");
  expect_merged(loaded.at("e"), tensors, "e");
}

TEST(AdaptersTest, ACheckpointWithoutAdaptersIsRefused) {
  const TemporaryFolder folder;
  write(folder / "plain", {{"w", stepped({3, 4}, 1)}}, {{"model.hidden", "3"}});
  const Reader plain(folder / "plain");
  for (const Adapters adapters : {Adapters::alone, Adapters::merged})
    problem_of(Code::E1205, [&] { convert(plain, folder / "none", {.adapters = adapters}); });
  problem_of(Code::E1205, [&] { read_adapters(plain); });
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

}  // namespace
}  // namespace megacpp::checkpoint
