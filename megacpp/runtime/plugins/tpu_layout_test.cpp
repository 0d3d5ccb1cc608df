// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/plugins/tpu_layout.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "megacpp/base/file.h"
#include "megacpp/base/json_text.h"

namespace megacpp::runtime::plugins {
namespace {

TEST(TpuLayoutTest, EveryMeasuredArgumentTakesTheBytesTheCompilerSaid) {
  const std::map<std::string, int64_t> element_bytes = {
      {"float32", 4}, {"int32", 4}, {"uint32", 4}, {"bfloat16", 2}, {"int8", 1}, {"bool", 1}, {"float8_e4m3fn", 1}};
  const auto file = std::filesystem::path(MEGACPP_SOURCE_DIR) / "tests/golden/v6e_argument_bytes.jsonl";
  std::istringstream rows(base::read_file(file));
  int count = 0;
  for (std::string line; std::getline(rows, line); ++count) {
    const base::Json row = base::parse_json(line, base::Code::E9001, "v6e_argument_bytes.jsonl");
    ir::Shape shape;
    for (const base::Json& dim : *row.find("shape")->get_if<base::Json::Array>())
      shape.push_back(*dim.get_if<int64_t>());
    const std::string& dtype = *row.find("dtype")->get_if<std::string>();
    EXPECT_EQ(tpu_argument_bytes(shape, element_bytes.at(dtype)), *row.find("bytes")->get_if<int64_t>()) << line;
  }
  EXPECT_EQ(count, 112);
}

// The case XLA's own error page gives: with 40 as the minor dimension it would be 5,242,880.
TEST(TpuLayoutTest, TheOrderThatPadsLeastIsTaken) {
  EXPECT_EQ(tpu_argument_bytes({ir::DType::bf16, {16, 1280, 40}}), 1'638'400);
  EXPECT_EQ(tpu_argument_bytes({ir::DType::f32, {}}), 512);
  EXPECT_EQ(tpu_argument_bytes({ir::DType::f32, {0, 8}}), 0);
}

}  // namespace
}  // namespace megacpp::runtime::plugins
