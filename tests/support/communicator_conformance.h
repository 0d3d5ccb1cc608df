// SPDX-License-Identifier: Apache-2.0
// Every transport, every kind of call, against an answer worked out element by element. What a chip holds follows from
// its number alone, so that each chip knows what it must receive. Answers are bit for bit: sums of what chips hold are
// exact in any order, except where the test is about transports with a fixed one. A test program includes this once and
// says for which transports: INSTANTIATE_TEST_SUITE_P(..., ConformanceTest, ...).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "megacpp/core/ir/mesh.h"
#include "megacpp/machine/collectives/transport.h"
#include "tests/support/first_chips.h"
#include "tests/support/transports.h"

namespace megacpp::testing_support::conformance {

using collectives::Call;
using collectives::Communicator;
using collectives::Group;
using collectives::kHostThread;
using collectives::Kind;
using collectives::kMaxInFlight;
using collectives::Part;
using collectives::Reduction;
using collectives::Ticket;
using collectives::Transport;
using ir::DType;
using ir::Shape;

inline constexpr std::array kDTypes = {DType::f32, DType::bf16, DType::i32, DType::pred};
inline constexpr std::byte kUntouched{0xA5};

// Of the transport that is tested.
inline Memory allocate(size_t bytes) { return testing::WithParamInterface<TransportRig>::GetParam().allocate(bytes); }

// A tensor of any dtype, whose elements are read and written as doubles; every dtype fits in one. Guarded at its end.
class Tensor {
 public:
  Tensor(DType dtype, Shape shape)
      : dtype_(dtype), shape_(std::move(shape)), bytes_(allocate(size() + static_cast<size_t>(kGuard))) {
    std::fill_n(bytes_.get(), size() + static_cast<size_t>(kGuard), kUntouched);
  }

  void* data() { return bytes_.get(); }
  const Shape& shape() const { return shape_; }
  int64_t elements() const { return ir::num_elements(shape_); }
  bool is_guard_whole() const {
    const std::byte* const guard = bytes_.get() + size();
    return std::all_of(guard, guard + kGuard, [](std::byte b) { return b == kUntouched; });
  }

  double get(int64_t i) const {
    uint64_t bits = 0;
    std::memcpy(&bits, at(i), width());
    return ir::number_of(dtype_, bits);
  }

  void set(int64_t i, double x) {
    const uint64_t bits = ir::bits_of(dtype_, x);
    std::memcpy(at(i), &bits, width());
  }

 private:
  static constexpr int64_t kGuard = 64;
  size_t size() const { return static_cast<size_t>(elements() * ir::dtype_bytes(dtype_)); }
  size_t width() const { return static_cast<size_t>(ir::dtype_bytes(dtype_)); }
  std::byte* at(int64_t i) const { return bytes_.get() + static_cast<size_t>(i) * width(); }

  DType dtype_;
  Shape shape_;
  Memory bytes_;
};

inline double as_stored(DType dtype, double x) { return ir::is_float(dtype) ? ir::rounded(dtype, x) : x; }

enum class Sums : uint8_t { exact, rounded };

// What tells the operands of calls apart, the same on all members.
struct Salt {
  int64_t number = 0;
  Sums sums = Sums::exact;
};

// Element i of what `chip` holds in a part of a call.
inline double value(DType dtype, int64_t chip, Salt salt, int64_t i) {
  uint32_t h = static_cast<uint32_t>(chip * 7919 + salt.number * 104729 + i) * 2654435761u;
  h = (h ^ (h >> 15)) * 2246822519u;
  h ^= h >> 13;
  if (dtype == DType::pred) return (h & 7u) == 0;
  if (dtype == DType::i32) return static_cast<double>(h % 2000001) - 1e6;
  if (salt.sums == Sums::exact) return static_cast<double>(h % 4001) / 16 - 125;
  return static_cast<double>(h % 2000001) / 3e5 - 3;
}

inline Tensor operand(DType dtype, const Shape& shape, int64_t chip, Salt salt) {
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, value(dtype, chip, salt, i));
  return tensor;
}

inline Shape index_of(int64_t element, const Shape& shape) {
  Shape index(shape.size());
  for (size_t d = shape.size(); d-- > 0; element /= shape[d]) index[d] = element % shape[d];
  return index;
}

inline int64_t element_at(const Shape& index, const Shape& shape) {
  int64_t element = 0;
  for (size_t d = 0; d < shape.size(); ++d) element = element * shape[d] + index[d];
  return element;
}

// The element of the result at `index`: the definition of each kind, one element at a time.
inline double answer(const Call& call, const Part& part, Shape index, Salt salt) {
  const Group& group = *call.group;
  const auto input = [&](int64_t member, int64_t element) {
    const int64_t chip = group.members[static_cast<size_t>(member)];
    return as_stored(call.dtype, value(call.dtype, chip, salt, element));
  };
  const auto reduced = [&](int64_t element) {
    double result = input(0, element);
    for (int64_t member = 1; member < group.size(); ++member) {
      const double x = input(member, element);
      if (call.reduction == Reduction::max)
        result = std::max(result, x);
      else
        result = ir::is_float(call.dtype) ? static_cast<double>(static_cast<float>(result) + static_cast<float>(x))
                                          : result + x;
    }
    return result;
  };
  const size_t dim = static_cast<size_t>(part.dim), concat = static_cast<size_t>(part.concat_dim);
  switch (call.kind) {
    case Kind::all_gather: {
      const int64_t member = index[dim] / part.shape[dim];
      index[dim] %= part.shape[dim];
      return input(member, element_at(index, part.shape));
    }
    case Kind::reduce_scatter:
      index[dim] += group.index * (part.shape[dim] / group.size());
      return reduced(element_at(index, part.shape));
    case Kind::all_reduce:
      return reduced(element_at(index, part.shape));
    case Kind::all_to_all: {
      Shape piece = part.shape;
      piece[dim] /= group.size();
      const int64_t member = index[concat] / piece[concat];
      index[concat] %= piece[concat];
      index[dim] += group.index * piece[dim];
      return input(member, element_at(index, part.shape));
    }
    case Kind::permute:
      return input(((group.index - call.shift) % group.size() + group.size()) % group.size(),
                   element_at(index, part.shape));
    default:
      ADD_FAILURE() << "no collective";
      return 0;
  }
}

// A call with its buffers on one chip.
class Exchange {
 public:
  // `call` lacks its pointers.
  Exchange(const Transport& transport, Call call, int64_t chip, Salt salt) : call_(std::move(call)), salt_(salt) {
    const int64_t members = call_.group->size();
    if (const int64_t wanted = transport.workspace_bytes(call_, members); wanted > 0) {
      workspace_ = allocate(static_cast<size_t>(wanted));
      call_.workspace = workspace_.get();
    }
    for (size_t p = 0; p < call_.parts.size(); ++p) {
      Part& part = call_.parts[p];
      in_.push_back(operand(call_.dtype, part.shape, chip, part_salt(p)));
      out_.emplace_back(call_.dtype, result_shape(call_.kind, part, members));
    }
    for (size_t p = 0; p < call_.parts.size(); ++p) {
      call_.parts[p].in = in_[p].data();
      call_.parts[p].out = out_[p].data();
    }
  }

  const Call& call() const { return call_; }
  Call& call() { return call_; }
  Tensor& out(size_t part) { return out_[part]; }

  void expect_answer() const { expect_near(0); }
  void expect_near(double tolerance) const {
    for (size_t p = 0; p < out_.size(); ++p) {
      ASSERT_TRUE(out_[p].is_guard_whole()) << to_string(call_);
      for (int64_t i = 0; i < out_[p].elements(); ++i) {
        const double wanted = answer(call_, call_.parts[p], index_of(i, out_[p].shape()), part_salt(p));
        ASSERT_NEAR(out_[p].get(i), as_stored(call_.dtype, wanted), tolerance)
            << to_string(call_) << ", part " << p << ", element " << i;
      }
    }
  }

 private:
  Salt part_salt(size_t part) const { return {salt_.number * 16 + static_cast<int64_t>(part), salt_.sums}; }

  Call call_;
  Salt salt_;
  Memory workspace_;
  std::vector<Tensor> in_, out_;
};

inline void expect_no_errors(const Outcomes& outcomes) {
  for (const auto& error : outcomes) EXPECT_FALSE(error) << error->what();
}

// Odd sizes, dimensions in every place, several parts: all that makes sense for a kind among n members.
inline std::vector<Call> calls_of(Kind kind, DType dtype, const Group& group) {
  const int64_t n = group.size();
  const bool reduces = kind == Kind::reduce_scatter || kind == Kind::all_reduce;
  const Call basic = {.kind = kind, .group = &group, .dtype = dtype, .where = "node"};
  const auto with = [&basic](std::vector<Part> parts) {
    Call call = basic;
    call.parts = std::move(parts);
    return call;
  };
  const auto part = [](Shape shape, int64_t dim) { return Part{.shape = std::move(shape), .dim = dim}; };
  std::vector<Call> calls = {with({part({n}, 0)}), with({part({3, 2 * n, 5}, 1)}), with({part({2, 3, n}, 2)}),
                             with({part({3 * n, 7}, 0), part({5, n}, 1), part({1, n, 389, 1}, 1)}), with({})};
  if (kind == Kind::all_gather) calls.push_back(with({part({1, 3}, 1), part({0, 2}, 1)}));
  if (kind == Kind::all_reduce || kind == Kind::permute) calls.push_back(with({part({}, 0), part({2049}, 0)}));
  if (kind == Kind::all_to_all) {
    calls.clear();
    for (const int64_t dim : {0, 1, 2})
      for (const int64_t concat : {0, 1, 2}) {
        calls.push_back(with({{.shape = {4, 3, 2}, .dim = dim, .concat_dim = concat},
                              {.shape = {1, 2, 3, 5}, .dim = dim, .concat_dim = concat}}));
        for (Part& cut : calls.back().parts) cut.shape[static_cast<size_t>(dim)] *= n;
      }
    calls.push_back(with({{.shape = {2, n, 3, 5, 7}, .dim = 1, .concat_dim = 3},
                          {.shape = {2, 5, 3, n, 7}, .dim = 3, .concat_dim = 1}}));
  }
  if (kind == Kind::permute)
    for (const int64_t shift : {-1, 0, 1, 2, 9}) {
      calls.push_back(with({part({3, 5}, 0)}));
      calls.back().shift = shift;
    }
  if (reduces) {
    const size_t sums = calls.size();
    for (size_t i = 0; i < sums; ++i) {
      calls.push_back(calls[i]);
      calls.back().reduction = Reduction::max;
    }
    if (dtype == DType::pred) calls.erase(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(sums));
  }
  return calls;
}

inline constexpr std::array kCollectives = {Kind::all_gather, Kind::reduce_scatter, Kind::all_reduce, Kind::all_to_all,
                                            Kind::permute};

class ConformanceTest : public testing::TestWithParam<TransportRig> {
 protected:
  void SetUp() override {
    if (!GetParam().why_not.empty()) GTEST_SKIP() << GetParam().why_not;
  }
  void run(int64_t chips, const ChipBody& body) {
    expect_no_errors(run_on(GetParam().transport, {.chips = chips}, body));
  }
  static Exchange exchange_of(Call call, const Communicator& c, Salt salt) {
    return Exchange(GetParam().transport, std::move(call), c.rank(), salt);
  }
};

TEST_P(ConformanceTest, EveryKindGivesTheSerialAnswer) {
  for (int64_t chips = 1; chips <= 8; ++chips)
    run(chips, [&](Communicator& c) {
      EXPECT_EQ(c.chips(), chips);
      const Group& group = c.create_group(first_chips(chips));
      int64_t salt = 0;
      for (const Kind kind : kCollectives)
        for (const DType dtype : kDTypes)
          for (const Call& call : calls_of(kind, dtype, group)) {
            Exchange exchange = exchange_of(call, c, {++salt});
            c.run(exchange.call(), kHostThread);
            exchange.expect_answer();
          }
    });
}

TEST_P(ConformanceTest, GroupsAlongMeshAxesWorkSideBySide) {
  const ir::Mesh mesh({{"data", 2}, {"context", 2}, {"model", 2}});
  run(mesh.chips(), [&](Communicator& c) {
    int64_t salt = 0;
    for (const char* axes : {"-", "data", "context", "model", "data+model", "model+data", "context+model+data"}) {
      const Group& group = c.create_group(mesh.group(c.rank(), ir::parse_axes(axes, mesh)));
      EXPECT_EQ(group.index, mesh.index_in_group(c.rank(), ir::parse_axes(axes, mesh)));
      for (const Kind kind : kCollectives)
        for (const Call& call : calls_of(kind, DType::f32, group)) {
          Exchange exchange = exchange_of(call, c, {++salt});
          c.run(exchange.call(), kHostThread);
          exchange.expect_answer();
        }
    }
  });
}

TEST_P(ConformanceTest, TheSameMembersAreTheSameGroup) {
  run(3, [](Communicator& c) {
    const Group& group = c.create_group({2, 0, 1});
    EXPECT_EQ(&group, &c.create_group({2, 0, 1}));
    EXPECT_NE(&group, &c.create_group({0, 1, 2}));
    EXPECT_EQ(group.members[static_cast<size_t>(group.index)], c.rank());
  });
}

// Chips finish in different orders: each must go on with what the others wait for.
TEST_P(ConformanceTest, CallsInFlightMayBeFinishedInAnyOrder) {
  const ir::Mesh mesh({{"data", 2}, {"model", 2}});
  run(mesh.chips(), [&](Communicator& c) {
    std::vector<const Group*> groups;
    for (const char* axes : {"data", "model", "model+data"})
      groups.push_back(&c.create_group(mesh.group(c.rank(), ir::parse_axes(axes, mesh))));
    for (int64_t round = 0; round < 20; ++round) {
      std::vector<Exchange> exchanges;
      for (const Kind kind : kCollectives)
        for (const Group* group : groups)
          exchanges.push_back(exchange_of(calls_of(kind, DType::bf16, *group).at(3), c,
                                          {round * 100 + static_cast<int64_t>(exchanges.size())}));
      std::vector<Ticket> tickets;
      for (Exchange& exchange : exchanges) tickets.push_back(c.start(exchange.call(), kHostThread));
      const size_t count = tickets.size(), stride = std::array<size_t, 4>{1, 4, 7, 14}[static_cast<size_t>(c.rank())];
      for (size_t i = 0; i < count; ++i) {
        const size_t chosen = i * stride % count;  // 15 calls: every stride visits all
        c.finish(tickets[chosen], kHostThread);
        exchanges[chosen].expect_answer();
      }
    }
  });
}

TEST_P(ConformanceTest, ResultsMayShareBytesWithOperands) {
  run(5, [](Communicator& c) {
    const Group& group = c.create_group(first_chips(5));
    const auto prepare = [&](Kind kind, Shape shape, int64_t dim) {
      return exchange_of(
          {.kind = kind, .group = &group, .parts = {{.shape = std::move(shape), .dim = dim}}, .where = "in place"}, c,
          {1});
    };
    const auto copy_operand = [](Exchange& exchange, void* to) {
      const Part& part = exchange.call().parts[0];
      std::memcpy(to, part.in, static_cast<size_t>(ir::num_elements(part.shape)) * sizeof(float));
      exchange.call().parts[0].in = to;
    };

    Exchange all_reduce = prepare(Kind::all_reduce, {3, 1031}, 0);
    copy_operand(all_reduce, all_reduce.out(0).data());
    c.run(all_reduce.call(), kHostThread);
    all_reduce.expect_answer();

    Exchange all_gather = prepare(Kind::all_gather, {1, 77, 3}, 1);
    copy_operand(all_gather, static_cast<float*>(all_gather.out(0).data()) + c.rank() * 77 * 3);
    c.run(all_gather.call(), kHostThread);
    all_gather.expect_answer();

    Exchange reduce_scatter = prepare(Kind::reduce_scatter, {1, 5 * 77, 3}, 1);
    float* piece = static_cast<float*>(const_cast<void*>(reduce_scatter.call().parts[0].in)) + c.rank() * 77 * 3;
    void* out = std::exchange(reduce_scatter.call().parts[0].out, piece);
    c.run(reduce_scatter.call(), kHostThread);
    std::memcpy(out, piece, 77 * 3 * sizeof(float));
    reduce_scatter.expect_answer();
  });
}

// Whoever comes last, a sum that rounds has the bits of the group's order, on every member. In any other order it is as
// good: terms are below 4, and this is beyond what 7 of them lose in f32, and one step of bf16.
TEST_P(ConformanceTest, SumsThatRoundDoNotDependOnWhoComesFirst) {
  const bool is_exact = GetParam().transport.properties.has_fixed_order_sums;
  run(7, [is_exact](Communicator& c) {
    const Group& group = c.create_group(first_chips(7));
    int64_t round = 0;
    for (const Kind kind : {Kind::all_reduce, Kind::reduce_scatter})
      for (const DType dtype : {DType::f32, DType::bf16})
        for (const Call& call : calls_of(kind, dtype, group)) {
          Exchange exchange = exchange_of(call, c, {++round, Sums::rounded});
          if (c.rank() == round % 7) std::this_thread::sleep_for(std::chrono::milliseconds(2));
          c.run(exchange.call(), kHostThread);
          exchange.expect_near(is_exact ? 0 : dtype == DType::f32 ? 1e-5 : 0.125);
        }
  });
}

inline Call message(Kind kind, int64_t peer, int64_t tag, Tensor& tensor) {
  Call call = {.kind = kind, .peer = peer, .tag = tag, .parts = {{.shape = tensor.shape()}}, .where = "stage"};
  (kind == Kind::send) ? void(call.parts[0].in = tensor.data()) : void(call.parts[0].out = tensor.data());
  return call;
}

inline void expect_operand(const Tensor& tensor, int64_t chip, Salt salt) {
  ASSERT_TRUE(tensor.is_guard_whole());
  const Tensor wanted = operand(DType::f32, tensor.shape(), chip, salt);
  for (int64_t i = 0; i < tensor.elements(); ++i) ASSERT_EQ(tensor.get(i), wanted.get(i)) << "element " << i;
}

TEST_P(ConformanceTest, MessagesAreMatchedByTagAndThenByAge) {
  run(3, [](Communicator& c) {
    const int64_t next = (c.rank() + 1) % 3, previous = (c.rank() + 2) % 3;
    constexpr std::array<int64_t, 4> kTags = {7, 5, 7, 6};
    std::vector<Tensor> out, in;
    for (const int64_t salt : {0, 1, 2, 3}) {
      out.push_back(operand(DType::f32, {3, 5}, c.rank(), {salt}));
      in.emplace_back(DType::f32, Shape{3, 5});
    }
    std::vector<Call> sends, recvs;
    for (size_t i = 0; i < 4; ++i) sends.push_back(message(Kind::send, next, kTags[i], out[i]));
    for (const size_t i : {3u, 0u, 1u, 2u}) recvs.push_back(message(Kind::recv, previous, kTags[i], in[i]));
    std::vector<Ticket> tickets;
    for (const Call& call : sends) tickets.push_back(c.start(call, kHostThread));
    for (const Call& call : recvs) tickets.push_back(c.start(call, kHostThread));
    // The younger of the two receives of tag 7 is finished first; whoever waits for sends takes its messages meanwhile.
    for (const size_t i : {7u, 0u, 1u, 2u, 3u, 4u, 5u, 6u}) c.finish(tickets[i], kHostThread);
    for (int64_t i = 0; i < 4; ++i) expect_operand(in[static_cast<size_t>(i)], previous, {i});
  });
}

// Forth with tag 1, back with tag 2, while a sum over all stages is in flight.
TEST_P(ConformanceTest, APipelineSendsForthAndBackAmongCollectives) {
  run(4, [](Communicator& c) {
    const Group& group = c.create_group(first_chips(4));
    const bool is_first = c.rank() == 0, is_last = c.rank() == c.chips() - 1;
    for (int64_t micro = 0; micro < 25; ++micro) {
      Exchange sum = exchange_of({.kind = Kind::all_reduce, .group = &group, .parts = {{.shape = {9}}}, .where = "sum"},
                                 c, {micro});
      const Ticket ticket = c.start(sum.call(), kHostThread);
      const Shape shape = {micro + 1, 3};
      Tensor activation = is_first ? operand(DType::f32, shape, 0, {micro}) : Tensor(DType::f32, shape);
      if (!is_first) c.run(message(Kind::recv, c.rank() - 1, 1, activation), kHostThread);
      if (!is_last) c.run(message(Kind::send, c.rank() + 1, 1, activation), kHostThread);
      Tensor gradient = is_last ? operand(DType::f32, shape, 3, {micro}) : Tensor(DType::f32, shape);
      if (!is_last) c.run(message(Kind::recv, c.rank() + 1, 2, gradient), kHostThread);
      if (!is_first) c.run(message(Kind::send, c.rank() - 1, 2, gradient), kHostThread);
      c.finish(ticket, kHostThread);
      expect_operand(activation, 0, {micro});
      expect_operand(gradient, 3, {micro});
      sum.expect_answer();
    }
  });
}

TEST_P(ConformanceTest, AChipMaySendToItself) {
  run(2, [](Communicator& c) {
    Tensor from = operand(DType::f32, {4}, c.rank(), {1}), to(DType::f32, {4});
    const Call send = message(Kind::send, c.rank(), 0, from), recv = message(Kind::recv, c.rank(), 0, to);
    const Ticket sent = c.start(send, kHostThread), received = c.start(recv, kHostThread);
    c.finish(sent, kHostThread);
    c.finish(received, kHostThread);
    expect_operand(to, c.rank(), {1});
  });
}

TEST_P(ConformanceTest, AsManyCallsAsPromisedMayBeInFlight) {
  run(3, [](Communicator& c) {
    const Group& group = c.create_group(first_chips(3));
    for (int round = 0; round < 3; ++round) {
      std::vector<Exchange> exchanges;
      for (int64_t i = 0; i < kMaxInFlight; ++i)
        exchanges.push_back(exchange_of(
            {.kind = Kind::all_gather, .group = &group, .parts = {{.shape = {5}}}, .where = "many"}, c, {i}));
      std::vector<Ticket> tickets;
      for (const Exchange& exchange : exchanges) tickets.push_back(c.start(exchange.call(), kHostThread));
      for (const Ticket ticket : tickets) c.finish(ticket, kHostThread);
      for (const Exchange& exchange : exchanges) exchange.expect_answer();
    }
  });
}

}  // namespace megacpp::testing_support::conformance
