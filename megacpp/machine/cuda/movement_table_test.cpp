// SPDX-License-Identifier: Apache-2.0
// Tables run on the host, block by block and thread by thread as the device does, against what the transport of the CPU
// backend leaves: every kind and dtype, bit for bit.
#include "megacpp/machine/cuda/movement_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/engine/rendezvous.h"
#include "megacpp/machine/collectives/inproc/move.h"
#include "megacpp/machine/cuda/kernels/collective_body.h"

namespace megacpp::runtime::cuda {
namespace {

uint16_t half_bits(float number) {
  return static_cast<uint16_t>(ir::bits_of(ir::DType::bf16, static_cast<double>(number)));
}

using collectives::Call;
using collectives::Group;
using collectives::Kind;
using collectives::Part;
using collectives::Reduction;
using ir::DType;
using ir::Shape;

constexpr std::array kEveryDType = {DType::f32, DType::bf16, DType::i32, DType::pred};

void run_table(const CollectiveParams& table) {
  for (uint32_t block = 0; block < blocks_of(table); ++block)
    for (uint32_t thread = 0; thread < kCollectiveThreads; ++thread)
      table.combine == Combine::copy ? collective::copy_as_thread(table, block, thread)
                                     : collective::combine_as_thread(table, block, thread);
}

// Bytes that begin `skew` behind a multiple of 256.
class SkewedBuffer {
 public:
  SkewedBuffer(size_t bytes, size_t skew) : bytes_(bytes), room_(bytes + 512, std::byte{0xA5}) {
    const size_t at = reinterpret_cast<uintptr_t>(room_.data()) % 256;
    data_ = room_.data() + (256 - at) % 256 + skew;
  }
  std::byte* data() { return data_; }
  bool operator==(const SkewedBuffer& other) const { return std::memcmp(data_, other.data_, bytes_) == 0; }

 private:
  size_t bytes_;
  std::vector<std::byte> room_;
  std::byte* data_;
};

struct MovementSetting {
  int64_t members = 1;
  size_t skew = 0;       // bytes behind an aligned address at which every tensor begins
  int64_t launches = 1;  // that share the movement, one after the other
};

// What each of so many launches writes.
std::vector<MemberRange> shared_by(int64_t launches, int64_t members) {
  std::vector<MemberRange> ranges;
  for (int64_t i = 0; i < launches; ++i)
    ranges.push_back({.begin = members * i / launches, .end = members * (i + 1) / launches});
  return ranges;
}

// The calls of all members with their buffers, twice: for the table, and for the CPU's transport.
class TwinExchange {
 public:
  TwinExchange(const Call& call, const MovementSetting& setting)
      : writes_(shared_by(setting.launches, setting.members)) {
    for (int64_t index = 0; index < setting.members; ++index)
      groups_.push_back({.members = std::vector<int64_t>(static_cast<size_t>(setting.members)), .index = index});
    for (int64_t index = 0; index < setting.members; ++index) {
      ours_.push_back(call);
      theirs_.push_back(call);
      ours_.back().group = theirs_.back().group = &groups_[static_cast<size_t>(index)];
      for (size_t p = 0; p < call.parts.size(); ++p) add_buffers(p, index, setting);
    }
  }

  void run_and_compare() {
    std::vector<const Call*> ours, theirs;
    for (const Call& call : ours_) ours.push_back(&call);
    for (const Call& call : theirs_) theirs.push_back(&call);
    std::vector<Address> scratch(2 * ours.size());
    for (const MemberRange& writes : writes_)
      tabulate(ours, writes, scratch, [this](const CollectiveParams& table) {
        ++tables;
        run_table(table);
      });
    std::vector<const void*> room(2 * theirs.size());
    for (int64_t step = 1; step <= collectives::steps_of(theirs.front()->kind); ++step)
      for (size_t index = 0; index < theirs.size(); ++index)
        collectives::move_data({.calls = theirs, .index = static_cast<int64_t>(index), .pointers = room}, step);
    for (size_t i = 0; i < results_.size(); ++i)
      EXPECT_TRUE(*results_[i].ours == *results_[i].theirs) << to_string(ours_[0]) << ", result " << i;
  }

  int tables = 0;

 private:
  struct TwinBuffers {
    std::unique_ptr<SkewedBuffer> ours, theirs;
  };

  // Finite numbers of every size, so that sums round and the order of terms shows.
  static void fill(SkewedBuffer& buffer, DType dtype, int64_t elements, uint32_t seed) {
    for (int64_t i = 0; i < elements; ++i) {
      uint32_t h = (seed * 7919 + static_cast<uint32_t>(i)) * 2654435761u;
      h = (h ^ (h >> 15)) * 2246822519u;
      const float number = static_cast<float>(static_cast<int32_t>(h)) / 3e8f;
      const size_t width = static_cast<size_t>(ir::dtype_bytes(dtype));
      std::byte* const at = buffer.data() + static_cast<size_t>(i) * width;
      const uint16_t half = half_bits(number);
      const uint8_t truth = (h & 7u) == 0;
      if (dtype == DType::f32) std::memcpy(at, &number, width);
      if (dtype == DType::bf16) std::memcpy(at, &half, width);
      if (dtype == DType::i32) std::memcpy(at, &h, width);
      if (dtype == DType::pred) std::memcpy(at, &truth, width);
    }
  }

  void add_buffers(size_t p, int64_t index, const MovementSetting& setting) {
    Call &our = ours_.back(), &their = theirs_.back();
    const int64_t elements = ir::num_elements(our.parts[p].shape);
    const int64_t width = ir::dtype_bytes(our.dtype);
    const int64_t result = ir::num_elements(collectives::result_shape(our.kind, our.parts[p], setting.members)) * width;
    const auto twin = [&](int64_t bytes) {
      const size_t size = static_cast<size_t>(bytes);
      return TwinBuffers{std::make_unique<SkewedBuffer>(size, setting.skew),
                         std::make_unique<SkewedBuffer>(size, setting.skew)};
    };
    TwinBuffers in = twin(elements * width), out = twin(result);
    const uint32_t seed = static_cast<uint32_t>(index * 31 + static_cast<int64_t>(p) + 1);
    fill(*in.ours, our.dtype, elements, seed);
    fill(*in.theirs, our.dtype, elements, seed);
    our.parts[p].in = in.ours->data();
    their.parts[p].in = in.theirs->data();
    our.parts[p].out = out.ours->data();
    their.parts[p].out = out.theirs->data();
    operands_.push_back(std::move(in));
    results_.push_back(std::move(out));
  }

  std::vector<MemberRange> writes_;  // by launch
  std::deque<Group> groups_;
  std::vector<Call> ours_, theirs_;  // by index
  std::vector<TwinBuffers> operands_, results_;
};

Part cut_part(Shape shape, int64_t dim, int64_t concat = 0) {
  return {.shape = std::move(shape), .dim = dim, .concat_dim = concat};
}

std::vector<Call> movement_samples(Kind kind, DType dtype, int64_t n) {
  Call call = {.kind = kind, .dtype = dtype, .where = "sample"};
  if (dtype == DType::pred) call.reduction = Reduction::max;
  if (kind == Kind::permute) call.shift = -1;
  std::vector<Call> calls;
  const auto add = [&](std::vector<Part> parts) {
    call.parts = std::move(parts);
    calls.push_back(call);
  };
  add({cut_part({n}, 0, 0)});
  add({cut_part({3, 2 * n, 5}, 1, 2), cut_part({8, 16 * n, 16}, 1, 0), cut_part({4 * n, 3, 64}, 0, 2)});
  add({cut_part({2, 3, 4, 5 * n, 8}, 3, 1), cut_part({0, n}, 1, 0)});
  add({});
  return calls;
}

class MovementTableTest : public testing::TestWithParam<Kind> {};

TEST_P(MovementTableTest, LeavesWhatTheTransportOfTheCpuLeaves) {
  for (const int64_t members : {1, 3, 8})
    for (const size_t skew : {0, 8, 4})
      for (const DType dtype : kEveryDType)
        for (const Call& call : movement_samples(GetParam(), dtype, members))
          TwinExchange(call, {.members = members, .skew = skew}).run_and_compare();
}

TEST_P(MovementTableTest, SeveralLaunchesLeaveWhatOneLeaves) {
  for (const int64_t members : {3, 8})
    for (const int64_t launches : {2, 3})
      for (const size_t skew : {0, 4})
        for (const DType dtype : kEveryDType)
          for (const Call& call : movement_samples(GetParam(), dtype, members))
            TwinExchange(call, {.members = members, .skew = skew, .launches = launches}).run_and_compare();
}

TEST_P(MovementTableTest, SplitsBucketsThatAreLongerThanATable) {
  Call call = {.kind = GetParam(), .dtype = DType::bf16, .shift = 1, .where = "bucket"};
  for (int64_t i = 0; i < 40; ++i) call.parts.push_back(cut_part({2, 4 * (i + 1), 8}, 1, 2));
  TwinExchange exchange(call, {.members = 4, .skew = 0});
  exchange.run_and_compare();
  EXPECT_GT(exchange.tables, 1);
}

INSTANTIATE_TEST_SUITE_P(Kinds, MovementTableTest,
                         testing::Values(Kind::all_gather, Kind::reduce_scatter, Kind::all_reduce, Kind::all_to_all,
                                         Kind::permute),
                         [](const auto& info) { return std::string(collectives::kind_name(info.param)); });

TEST(MovementTableTest, MaximaAreThoseOfTheCpu) {
  for (const DType dtype : kEveryDType)
    for (const Kind kind : {Kind::all_reduce, Kind::reduce_scatter})
      TwinExchange(
          {.kind = kind, .dtype = dtype, .reduction = Reduction::max, .parts = {cut_part({6, 35}, 0)}, .where = "max"},
          {.members = 3})
          .run_and_compare();
}

TEST(MovementTableTest, OneTableMovesAUsualBucketOfAllMembers) {
  Call call = {.kind = Kind::all_gather, .parts = {cut_part({64, 32}, 0), cut_part({7}, 0), cut_part({2, 3}, 1)}};
  call.where = "weights";
  TwinExchange exchange(call, {.members = 8});
  exchange.run_and_compare();
  EXPECT_EQ(exchange.tables, 1);
}

// Where a call works in place every element is read by the thread that overwrites it, or not written at all.
TEST(MovementTableTest, ResultsMayShareBytesWithOperands) {
  constexpr size_t kMembers = 3, kPiece = 40;
  std::vector<std::vector<float>> whole(kMembers, std::vector<float>(kMembers * kPiece));
  std::vector<Group> groups(kMembers);
  int64_t launches = 1;  // one after the other: the last reads what the first has left
  const auto run = [&](Kind kind, auto in, auto out, int64_t elements) {
    std::vector<Call> calls;
    for (size_t index = 0; index < kMembers; ++index) {
      groups[index] = {.members = {0, 1, 2}, .index = static_cast<int64_t>(index)};
      calls.push_back({.kind = kind,
                       .group = &groups[index],
                       .parts = {{.in = in(index), .out = out(index), .shape = {elements}}},
                       .where = "in place"});
      for (size_t i = 0; i < whole[index].size(); ++i)
        whole[index][i] = static_cast<float>(1000 * (index + 1)) + static_cast<float>(i);
    }
    std::vector<const Call*> pointers;
    for (const Call& call : calls) pointers.push_back(&call);
    std::vector<Address> scratch(2 * kMembers);
    for (const MemberRange& writes : shared_by(launches, kMembers)) tabulate(pointers, writes, scratch, run_table);
  };
  const auto all = [&](size_t index) { return whole[index].data(); };
  const auto own = [&](size_t index) { return whole[index].data() + index * kPiece; };

  for (launches = 1; launches <= static_cast<int64_t>(kMembers); ++launches) {
    run(Kind::all_gather, own, all, kPiece);
    for (size_t index = 0; index < kMembers; ++index)
      for (size_t i = 0; i < kMembers * kPiece; ++i)
        ASSERT_EQ(whole[index][i], static_cast<float>(1000 * (i / kPiece + 1)) + static_cast<float>(i));

    run(Kind::all_reduce, all, all, kMembers * kPiece);
    for (size_t index = 0; index < kMembers; ++index)
      for (size_t i = 0; i < kMembers * kPiece; ++i) ASSERT_EQ(whole[index][i], 6000.0f + 3.0f * static_cast<float>(i));

    run(Kind::reduce_scatter, all, own, kMembers * kPiece);
    for (size_t index = 0; index < kMembers; ++index)
      for (size_t i = index * kPiece; i < (index + 1) * kPiece; ++i)
        ASSERT_EQ(whole[index][i], 6000.0f + 3.0f * static_cast<float>(i));
  }
}

// Every result has one launch that writes it, which is that of its member: the others only read there.
TEST(MovementTableTest, ALaunchWritesResultsOfItsMembersAlone) {
  constexpr size_t kMembers = 4, kPiece = 16;
  for (const Kind kind : {Kind::all_gather, Kind::reduce_scatter, Kind::all_to_all, Kind::permute}) {
    std::vector<std::vector<float>> in(kMembers, std::vector<float>(kMembers * kPiece)), out = in;
    std::vector<Group> groups(kMembers);
    std::vector<Call> calls;
    for (size_t index = 0; index < kMembers; ++index) {
      groups[index] = {.members = {0, 1, 2, 3}, .index = static_cast<int64_t>(index)};
      const auto elements = static_cast<int64_t>(kind == Kind::all_gather ? kPiece : kMembers * kPiece);
      calls.push_back({.kind = kind,
                       .group = &groups[index],
                       .parts = {{.in = in[index].data(), .out = out[index].data(), .shape = {elements}}},
                       .where = "apart"});
      calls.back().shift = 1;
    }
    std::vector<const Call*> pointers;
    for (const Call& call : calls) pointers.push_back(&call);
    std::vector<Address> scratch(2 * kMembers);
    const std::array<Address, 2> own = {reinterpret_cast<Address>(out[2].data()),
                                        reinterpret_cast<Address>(out[3].data())};
    int targets = 0;
    tabulate(pointers, {.begin = 2, .end = 4}, scratch, [&](const CollectiveParams& table) {
      for (uint32_t p = 0; p < table.piece_count; ++p)
        for (uint16_t i = 0; i < table.pieces[p].target_count; ++i, ++targets)
          EXPECT_NE(std::ranges::find(own, table.addresses[table.pieces[p].targets + i]), own.end());
    });
    EXPECT_GE(targets, 2) << collectives::kind_name(kind);
  }
}

TEST(MovementTableTest, AMessageIsCopiedWhole) {
  std::vector<float> from(1031), to(1031), second(3, 2.0f), second_to(3);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i) / 3;
  const Call send = {.kind = Kind::send,
                     .parts = {{.in = from.data(), .shape = {1031}}, {.in = second.data(), .shape = {3, 1}}},
                     .where = "out"};
  const Call recv = {.kind = Kind::recv,
                     .parts = {{.out = to.data(), .shape = {1031}}, {.out = second_to.data(), .shape = {3, 1}}},
                     .where = "in"};
  int tables = 0;
  tabulate_message(send, recv, [&](const CollectiveParams& table) {
    ++tables;
    run_table(table);
  });
  EXPECT_EQ(from, to);
  EXPECT_EQ(second, second_to);
  EXPECT_EQ(tables, 1);
}

TEST(MovementTableTest, WhatIsAlignedMovesInWideUnits) {
  alignas(256) static std::array<std::byte, 4096> memory = {};
  const auto unit = [&](size_t skew, int64_t bytes, Combine combine) {
    const std::array<Address, 1> from = {reinterpret_cast<Address>(memory.data() + skew)};
    const std::array<Address, 1> to = {reinterpret_cast<Address>(memory.data() + 2048)};
    uint32_t found = 0;
    const EmitTable emit = [&](const CollectiveParams& table) { found = table.pieces[0].unit_bytes; };
    TableWriter table({.combine = combine, .dtype = DType::bf16}, emit);
    table.add({.sources = from, .targets = to, .runs = whole_run(bytes)});
    table.finish();
    return found;
  };
  EXPECT_EQ(unit(0, 64, Combine::copy), 16u);
  EXPECT_EQ(unit(0, 24, Combine::copy), 8u);
  EXPECT_EQ(unit(4, 64, Combine::copy), 4u);
  EXPECT_EQ(unit(0, 33, Combine::copy), 1u);
  EXPECT_EQ(unit(0, 64, Combine::sum), 16u);
  EXPECT_EQ(unit(0, 24, Combine::sum), 2u) << "one element";
  EXPECT_EQ(unit(0, 0, Combine::copy), 0u) << "nothing to move";
}

}  // namespace
}  // namespace megacpp::runtime::cuda
