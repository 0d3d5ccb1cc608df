// SPDX-License-Identifier: Apache-2.0
// Layouts on 2 to 8 chips that change no result, as rows of layout_rows.h, for every backend that runs them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace megacpp::testing_support {

// What both recipes can do: A and E blocks, 4 query heads over 2 key-value heads.
inline const std::vector<std::string> kCommonLayouts = {
    // data
    "data_parallel=2",
    "data_parallel=3",  // 4 sequences over 3 chips
    "data_parallel=5 train.batch=7",
    "data_parallel=7 train.batch=8 train.micro_steps=1",
    "data_parallel=8 train.batch=8 train.micro_steps=1",
    // optimizer state, gradients, weights
    "data_parallel=4 zero=0",
    "data_parallel=4 zero=0 train.micro_steps=1",
    "data_parallel=4 zero=1",
    "data_parallel=3 zero=1 train.micro_steps=1 model.tie_embeddings=true",
    "data_parallel=4 zero=2",
    "data_parallel=4 zero=3",
    "data_parallel=3 zero=3 model.tie_embeddings=true",
    "data_parallel=4 zero=3 reshard_after_forward=false",
    "data_parallel=4 zero=3 reshard_after_forward=2",
    "data_parallel=6 zero=3 reshard_after_forward=3 train.batch=6",
    "data_parallel=4 policy=fsdp",
    "data_parallel=4 policy=megatron",
    "data_parallel=3 policy=megatron zero=2 bucket_bytes=65536",
    "data_parallel=2 tensor_parallel=2 policy=fsdp",
    "data_parallel=2 tensor_parallel=2 policy=megatron",
    "data_parallel=2 tensor_parallel=2 policy=megatron bucket_bytes=65536 train.micro_steps=1",
    // another optimizer
    "data_parallel=4 zero=1 optimizer.name=sgd",
    "data_parallel=4 zero=1 optimizer.name=muon optimizer.eps=1e-6",
    "data_parallel=2 tensor_parallel=2 zero=3 optimizer.name=muon optimizer.eps=1e-6 optimizer.muon.scale=original "
    "optimizer.muon.nesterov=false train.micro_steps=1",
    "pipeline_parallel=2 data_parallel=2 zero=2 optimizer.name=muon optimizer.eps=1e-6 model.tie_embeddings=true",
    "data_parallel=2 tensor_parallel=2 zero=3 optimizer.name=sgd train.micro_steps=1",
    "pipeline_parallel=2 data_parallel=2 zero=2 optimizer.name=sgd optimizer.momentum=0.5 model.tie_embeddings=true",
    // tensor
    "tensor_parallel=2",
    "tensor_parallel=2 sequence_parallel=false",
    "tensor_parallel=2 model.tie_embeddings=true",
    "tensor_parallel=4",  // 2 chips share a key-value head
    "tensor_parallel=4 sequence_parallel=false model.vocab=259",
    "tensor_parallel=4 model.vocab=258 model.tie_embeddings=true",
    "tensor_parallel=4 model.feed_forward.intermediate=90",
    "tensor_parallel=2 model.feed_forward.intermediate=91 model.attention.qk_norm=true",
    // context
    "context_parallel=2",
    "context_parallel=2 load_balance=false",
    "context_parallel=2 context_attention=alltoall",
    "context_parallel=3 train.sequence=36",
    "context_parallel=4 model.attention.window=7",
    "context_parallel=4 load_balance=false model.attention.window=7",
    "context_parallel=4 load_balance=false model.attention.window=12 model.attention.document_mask=true",
    "context_parallel=4 model.attention.document_mask=true model.tie_embeddings=true",
    "context_parallel=2 model.attention.sparse_block=4 model.attention.sparse_local=2 model.attention.sparse_global=1",
    "context_parallel=5 train.sequence=40 load_balance=false",
    "context_parallel=8 train.sequence=48",
    // pairs
    "data_parallel=2 tensor_parallel=2",
    "data_parallel=2 tensor_parallel=2 sequence_parallel=false",
    "data_parallel=2 tensor_parallel=4 zero=2",
    "data_parallel=3 tensor_parallel=2 zero=3 model.vocab=257",
    "data_parallel=4 tensor_parallel=2 zero=3 reshard_after_forward=2",
    "data_parallel=2 context_parallel=2",
    "data_parallel=2 context_parallel=2 zero=3 model.tie_embeddings=true",
    "data_parallel=2 context_parallel=2 zero=0 context_attention=alltoall",
    "context_parallel=2 tensor_parallel=2",
    "context_parallel=2 tensor_parallel=2 sequence_parallel=false",
    "context_parallel=2 tensor_parallel=2 context_attention=alltoall model.attention.kv_heads=4",
    "context_parallel=2 tensor_parallel=4 model.attention.document_mask=true",
    // triples
    "data_parallel=2 context_parallel=2 tensor_parallel=2 zero=3",
    "data_parallel=2 context_parallel=2 tensor_parallel=2 sequence_parallel=false zero=0 load_balance=false",
    // recompute
    "data_parallel=2 tensor_parallel=2 zero=3 train.recompute.A=full train.recompute.E=full train.recompute.M=full "
    "train.recompute.R=full",
    "context_parallel=2 tensor_parallel=2 train.recompute.A=selective train.recompute.E=selective "
    "train.recompute.M=selective train.recompute.R=selective",
};

inline const std::vector<std::string> kStages = {
    "pipeline_parallel=2",
    "pipeline_parallel=2 schedule=gpipe",
    "pipeline_parallel=2 schedule=zero_bubble",
    "pipeline_parallel=2 schedule=interleaved virtual_stages=2",
    "pipeline_parallel=3 train.micro_steps=4 model.tie_embeddings=true",
    "pipeline_parallel=4 schedule=interleaved virtual_stages=3 train.micro_steps=4",
    "pipeline_parallel=5 schedule=gpipe train.micro_steps=3",
    "pipeline_parallel=3 schedule=gpipe train.micro_steps=24 train.batch=1 train.sequence=16",  // many sends in flight
    "pipeline_parallel=7 schedule=zero_bubble",
    "pipeline_parallel=8 train.micro_steps=1",
    "pipeline_parallel=2 data_parallel=2 zero=0",
    "pipeline_parallel=2 data_parallel=2 zero=3 model.tie_embeddings=true",
    "pipeline_parallel=2 data_parallel=2 zero=3 reshard_after_forward=false schedule=interleaved virtual_stages=2",
    "pipeline_parallel=2 data_parallel=4 zero=3 reshard_after_forward=2 schedule=zero_bubble train.micro_steps=3",
    "pipeline_parallel=2 data_parallel=2 zero=1 train.micro_steps=1 model.tie_embeddings=true",
    "pipeline_parallel=2 tensor_parallel=2",
    "pipeline_parallel=2 context_parallel=2",
    "pipeline_parallel=2 data_parallel=2 tensor_parallel=2",
    "pipeline_parallel=2 data_parallel=2 tensor_parallel=2 sequence_parallel=false zero=2 schedule=zero_bubble",
    "pipeline_parallel=2 data_parallel=2 context_parallel=2 schedule=interleaved virtual_stages=2",
    "pipeline_parallel=2 context_parallel=2 tensor_parallel=2 zero=3",
    "pipeline_parallel=2 data_parallel=2 policy=fsdp schedule=gpipe",
    "pipeline_parallel=2 data_parallel=2 policy=megatron schedule=interleaved virtual_stages=2",
};

// Heads of the dense recipe alone: 8 chips share 2 key-value heads; counts that are not powers of two.
inline const std::vector<std::string> kDenseLayouts = {
    "tensor_parallel=8 model.attention.heads=8 model.attention.head_dim=16",
    "tensor_parallel=3 model.attention.heads=6 model.attention.kv_heads=3 train.sequence=36",
    "tensor_parallel=6 model.attention.heads=6 model.attention.kv_heads=3 sequence_parallel=false",
    "tensor_parallel=5 model.attention.heads=5 model.attention.kv_heads=1 sequence_parallel=false model.vocab=256",
    "tensor_parallel=7 model.attention.heads=7 model.attention.kv_heads=7 train.sequence=28",
    "context_parallel=4 context_attention=alltoall model.attention.heads=8 model.attention.kv_heads=4",
    "context_parallel=7 train.sequence=28",
    "data_parallel=2 tensor_parallel=3 model.attention.heads=6 model.attention.kv_heads=3 train.sequence=36 zero=3",
};

// The hybrid's experts: 4, of which a token takes 2.
inline const std::vector<std::string> kExpertLayouts = {
    "expert_parallel=2",
    "expert_parallel=2 dispatcher=allgather",
    "expert_parallel=4",
    "expert_parallel=4 dispatcher=allgather model.tie_embeddings=true",
    "expert_parallel=3 model.feed_forward.experts=6 train.batch=5",
    "expert_parallel=2 model.feed_forward.capacity_factor=0",
    "expert_parallel=4 model.feed_forward.capacity_factor=0 dispatcher=allgather",
    "expert_parallel=4 model.feed_forward.routing=expert_choice model.feed_forward.capacity_factor=1",
    "expert_parallel=2 model.feed_forward.bias_rate=0.01 model.feed_forward.scoring=sigmoid",
    "expert_parallel=2 model.feed_forward.balance_over=model model.feed_forward.balance_loss=0.1",
    "data_parallel=2 model.feed_forward.routing=expert_choice model.feed_forward.capacity_factor=1",
    "tensor_parallel=2 model.feed_forward.capacity_factor=0",
    "tensor_parallel=2 expert_tensor_parallel=1",
    "tensor_parallel=4 expert_tensor_parallel=2",
    "expert_parallel=2 tensor_parallel=2",
    "expert_parallel=2 tensor_parallel=2 sequence_parallel=false dispatcher=allgather",
    "expert_parallel=2 tensor_parallel=2 expert_tensor_parallel=1",
    "expert_parallel=2 tensor_parallel=4 expert_tensor_parallel=2",
    "expert_parallel=2 context_parallel=2",
    "expert_parallel=2 context_parallel=2 dispatcher=allgather model.feed_forward.capacity_factor=0",
    "data_parallel=2 expert_parallel=2",
    "data_parallel=2 expert_parallel=2 zero=0",
    "data_parallel=2 expert_parallel=2 zero=2 dispatcher=allgather",
    "data_parallel=2 expert_parallel=2 zero=3",
    "data_parallel=2 expert_parallel=2 tensor_parallel=2",
    "data_parallel=2 expert_parallel=2 tensor_parallel=2 zero=3 sequence_parallel=false",
    "data_parallel=2 expert_parallel=2 tensor_parallel=2 expert_tensor_parallel=1 zero=2",
    "data_parallel=2 expert_parallel=2 context_parallel=2 dispatcher=allgather zero=3",
    "expert_parallel=2 context_parallel=2 tensor_parallel=2 policy=fsdp",
    "data_parallel=3 expert_parallel=2 train.batch=8 policy=megatron",
};

inline const std::vector<std::string> kExpertStages = {
    "pipeline_parallel=2 expert_parallel=2",
    "pipeline_parallel=2 expert_parallel=2 tensor_parallel=2 schedule=zero_bubble",
    "pipeline_parallel=2 data_parallel=2 expert_parallel=2 zero=3 schedule=interleaved virtual_stages=2",
};

// Blocks of one family that differ in what is split.
inline const std::vector<std::string> kLetterLayouts = {
    "tensor_parallel=2",
    "tensor_parallel=4",  // A shares a key-value head between 2 chips, G between 4
    "context_parallel=2",
    "context_parallel=2 load_balance=false train.recompute.D=full train.recompute.G=selective",
    "data_parallel=2 zero=3",
    "expert_parallel=2 tensor_parallel=2",
    "data_parallel=2 expert_parallel=2 tensor_parallel=2 zero=3",
    "pipeline_parallel=2 data_parallel=2",
};

// Documents of which several share a sequence, and that cross the runs it is split into.
inline const std::string kDocumentMasks =
    "model.attention.document_mask=true model.mamba.document_mask=true model.recurrent.document_mask=true ";
inline const std::vector<std::string> kDocumentLayouts = {
    "data_parallel=2",
    "tensor_parallel=2",
    "context_parallel=2",
    "context_parallel=4",
    "context_parallel=4 load_balance=false",
    "context_parallel=2 context_attention=alltoall train.recompute.M=full train.recompute.R=full",
    "context_parallel=2 tensor_parallel=2 sequence_parallel=false",
    "data_parallel=2 context_parallel=2 tensor_parallel=2 zero=3",
    "pipeline_parallel=2 context_parallel=2 model.depth=8",
};

inline const std::vector<std::string> kRouterLayouts = {
    "expert_parallel=2",
    "data_parallel=2 expert_parallel=2 zero=3 dispatcher=allgather",
    "tensor_parallel=2 expert_tensor_parallel=1 model.letters.F.feed_forward.bias_rate=0.01",
    "pipeline_parallel=2 expert_parallel=2",
};

// Adapters beside every matrix of every family: whole beside split ones, on either side of a matrix; and a frozen base.
inline constexpr std::string_view kAdapters = "lora.rank=3 lora.alpha=6 ";

inline const std::vector<std::string> kAdapterLayouts = {
    "data_parallel=3",
    "data_parallel=4 zero=0",
    "data_parallel=4 zero=0 train.micro_steps=1",
    "data_parallel=4 zero=1 train.micro_steps=1",
    "data_parallel=4 zero=2",
    "data_parallel=4 zero=3",
    "data_parallel=4 zero=3 reshard_after_forward=false",
    "data_parallel=4 zero=3 reshard_after_forward=2 model.tie_embeddings=true",
    "data_parallel=4 policy=fsdp",
    "data_parallel=3 policy=megatron",
    "tensor_parallel=2",
    "tensor_parallel=2 sequence_parallel=false train.micro_steps=1",
    "tensor_parallel=4",
    "data_parallel=2 tensor_parallel=2 zero=3 optimizer.name=muon optimizer.eps=1e-6",
    "context_parallel=2",
    "context_parallel=2 context_attention=alltoall",
    "data_parallel=2 context_parallel=2 tensor_parallel=2 zero=3",
    "expert_parallel=2",
    "expert_parallel=2 tensor_parallel=2 expert_tensor_parallel=1",
    "expert_parallel=2 tensor_parallel=2 dispatcher=allgather",
    "data_parallel=2 expert_parallel=2 zero=3 model.feed_forward.bias_rate=0.01 model.feed_forward.scoring=sigmoid",
    "data_parallel=2 tensor_parallel=2 train.recompute=full",
    "pipeline_parallel=2",
    "pipeline_parallel=2 schedule=zero_bubble model.tie_embeddings=true",
    "pipeline_parallel=2 data_parallel=2 zero=3",
    "pipeline_parallel=2 tensor_parallel=2 data_parallel=2 zero=1",
    // Adapters in the second stage of five: no cotangent goes to the first, and the last three only pass one on.
    "pipeline_parallel=5 model.pattern=EAMER lora.targets=[block*.A.w*]",
    "data_parallel=2 tensor_parallel=2 lora.targets=[block*.wq,block*.w_down,block*.out_proj,block*.input_gate.weight]",
};

}  // namespace megacpp::testing_support
