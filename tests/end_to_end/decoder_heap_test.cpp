// SPDX-License-Identifier: Apache-2.0
// A decoder's steps, of one token and of a chunk, take nothing from the heap.
#include <gtest/gtest.h>

#include <vector>

#include "megacpp/program/blocks/parameter.h"
#include "megacpp/program/model/model.h"
#include "megacpp/run/train/decoder.h"
#include "tests/end_to_end/heap_count.h"
#include "tests/support/small_models.h"

namespace megacpp {
namespace {

TEST(DecoderHeapTest, StepsOfOneTokenAndOfChunksAllocateNothing) {
  const recipe::Model model = testing_support::small_model("hybrid", "AEMR");
  checkpoint::TensorMap weights;
  for (const blocks::Parameter& parameter : model::parameters_of(model)) {
    checkpoint::FloatTensor& tensor = weights[parameter.name];
    tensor = {parameter.shape, std::vector<float>(static_cast<size_t>(ir::num_elements(parameter.shape)))};
    blocks::initialise(parameter, 7, 0, tensor.data);
  }
  train::Decoder decoder(model, weights, {.sequences = 2, .length = 16, .prompt = 3, .threads = 2});
  ASSERT_EQ(decoder.chunk(), 3);
  const std::vector<int32_t> chunk = {1, 2, 3, 4, 5, 6}, tokens = {1, 2};
  decoder.read_chunk(chunk);  // the first run of each program warms up
  const int64_t before_chunks = testing_support::heap_allocations();
  EXPECT_GT(before_chunks, 0) << "allocations are counted";
  decoder.read_chunk(chunk);
  decoder.read_chunk(chunk);
  EXPECT_EQ(testing_support::heap_allocations(), before_chunks) << "of chunks";
  decoder.step(tokens);  // takes the state over from the other program
  const int64_t before_steps = testing_support::heap_allocations();
  decoder.step(tokens);
  decoder.step(tokens);
  EXPECT_EQ(testing_support::heap_allocations(), before_steps) << "of tokens";
}

}  // namespace
}  // namespace megacpp
