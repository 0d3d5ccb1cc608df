// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/signature.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "megacpp/program/recipe/parse.h"

namespace megacpp::fit {
namespace {

recipe::Recipe small(const std::vector<std::string>& overrides = {}) {
  return recipe::parse(
      "name: small\n"
      "model:\n  pattern: AE\n  depth: 2\n  hidden: 16\n  vocab: 32\n"
      "  attention: {heads: 2, kv_heads: 2, head_dim: 8}\n"
      "  feed_forward: {activation: swiglu, intermediate: 32, experts: 4, top_k: 1, balance_loss: 0.01}\n"
      "train: {batch: 4, sequence: 16, steps: 3}\n",
      "small.yaml", overrides);
}

TEST(FitSignatureTest, SaysWhatDecidesMemoryAndTime) {
  const catalog::Signature signature =
      signature_of(small({"layout.data_parallel=2", "train.recompute.A=full", "train.recompute.M=full"}), "host:2",
                   {.code_version = "1+ab"});
  EXPECT_EQ(signature.build.code_version, "1+ab");
  EXPECT_EQ(signature.hardware, "host:2");
  EXPECT_EQ(signature.model, "small");
  EXPECT_EQ(signature.model_hash.size(), 16U);
  EXPECT_EQ(signature.layout, "policy=spmd data_parallel=2 zero=1");
  EXPECT_EQ(signature.features, "balance_loss");
  EXPECT_EQ(signature.shape, "batch=4 sequence=16 micro_steps=1 precision=f32 recompute.A=full");
}

TEST(FitSignatureTest, WhatIsTheSameLaunchHasTheSameSignature) {
  const catalog::Signature requested = signature_of(small(), "host:1");
  for (const char* same : {"train.seed=9", "train.steps=7", "layout.chips=1", "layout.zero=1", "model.mamba.heads=4",
                           "train.recompute.R=full", "train.log_every=3", "layout.data_parallel=1", "lora.alpha=8"})
    EXPECT_EQ(signature_of(small({same}), "host:1"), requested) << same;
}

TEST(FitSignatureTest, WhatDiffersHasAnother) {
  const catalog::Signature requested = signature_of(small(), "host:1");
  for (const char* other :
       {"model.hidden=32", "model.depth=4", "layout.zero=3", "layout.policy=fsdp", "train.batch=8", "train.sequence=32",
        "train.micro_steps=2", "train.precision=bf16", "model.z_loss=0.1", "train.recompute.E=selective",
        "layout.dispatcher=allgather", "layout.collectives=fast", "layout.offload=optimizer",
        "layout.offload=activations", "optimizer.name=sgd", "lora.rank=2"})
    EXPECT_NE(signature_of(small({other}), "host:1"), requested) << other;
  EXPECT_NE(signature_of(small({"layout.offload=activations", "layout.offload_blocks=[A]"}), "host:1"),
            signature_of(small({"layout.offload=activations"}), "host:1"));
  EXPECT_NE(signature_of(small(), "host:2"), requested);
  const std::vector<std::string> words = {"placement=xla", "flag=cuda-overlap"};
  EXPECT_EQ(signature_of(small(), "host:1", {}, words).features, "balance_loss placement=xla flag=cuda-overlap");
  EXPECT_EQ(signature_of(small({"hardware.limit=1GiB", "hardware.limits=[0=512MiB]",
                                "hardware.fail_allocation=[chip 0 step load]"}),
                         "host:1")
                .hardware,
            "host:1 limit 1GiB chip 0=512MiB fault chip 0 step load");
  EXPECT_NE(signature_of(small({"model.hidden=32"}), "host:1").model_hash, requested.model_hash);
  const auto with_letter = [](const std::string& width) {
    return signature_of(small({"model.pattern=ADE", "model.depth=3", "model.letters.D.family=E",
                               "model.letters.D.feed_forward.intermediate=" + width, "train.recompute.D=full"}),
                        "host:1");
  };
  EXPECT_NE(with_letter("16").model_hash, with_letter("24").model_hash) << "settings of a letter";
  EXPECT_EQ(with_letter("16").features, "balance_loss letter.D=E") << "a feature of two letters is one";
  EXPECT_TRUE(with_letter("16").shape.ends_with("recompute.D=full")) << with_letter("16").shape;
}

}  // namespace
}  // namespace megacpp::fit
