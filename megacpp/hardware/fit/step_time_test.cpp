// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/step_time.h"

#include <gtest/gtest.h>

#include <functional>

#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/program/compile/collective_report.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/collective_start.h"
#include "megacpp/program/ops/tier_copy.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/assumptions.h"

namespace megacpp::fit {
namespace {

using ops::ValueId;

// Numbers that divide well: 256 multiplications and additions and 1280 bytes a second.
hw::Slice toys(int64_t chips) {
  hw::Chip chip;
  chip.name = "toy";
  chip.memory_bytes_per_second = 1280;
  chip.peak_flops = {{"f32", 256}};
  chip.links = {{.name = "wire", .scope = hw::LinkScope::node, .bytes_per_second = 128, .latency = 0.5}};
  chip.slices.host = {chips};
  return {"toy:" + std::to_string(chips), chip, {chips, 1}};
}

const ir::TensorType kActivation{ir::DType::f32, {8, 16}}, kWeight{ir::DType::f32, {16, 8}};

/// 2 * 8 * 16 * 8 = 2048 FLOPs: 8 s. (128 + 128 + 64) * 4 = 1280 bytes: 1 s.
void add_product(ops::Builder& builder, const std::string& name = "x") {
  const ValueId x = builder.input(name, kActivation, ir::Role::activation);
  const ValueId w = builder.input(name + ".w", kWeight, ir::Role::weight);
  builder.matmul(x, w);
}

/// 256 bytes summed up over two chips, each of which sends 256: 2 s on the wire and half a second to arrive.
ir::Attrs sum_over_data() {
  return {{"axes", std::string("data")}, {"parts", int64_t{2}}, {"kind", std::string("sum")}};
}
ValueId add_gradient(ops::Builder& builder, const std::string& name = "g") {
  return builder.input(name, {ir::DType::f32, {64}}, ir::Role::gradient);
}
ValueId start_sum(ops::Builder& builder, const std::string& name = "g") {
  ir::Attrs attrs = sum_over_data();
  attrs.set("op", std::string("all_reduce"));
  return builder.one(ops::kStartOp, {add_gradient(builder, name)}, attrs);
}

ir::Graph program(const std::function<void(ops::Builder&)>& write) {
  ir::Graph graph("toy");
  ops::Builder builder(graph);
  write(builder);
  return graph;
}

compile::Compiled compiled_of(std::vector<ir::Graph> programs, const ir::Mesh& mesh = {}, int64_t runs = 1) {
  compile::Compiled compiled;
  compiled.mesh = mesh;
  compiled.stages.resize(1);
  for (size_t p = 0; p < programs.size(); ++p)
    for (int64_t run = 0; run < runs; ++run) compiled.stages[0].step.push_back({.program = p, .micro = run});
  for (ir::Graph& graph : programs) compiled.stages[0].programs.push_back({.graph = std::move(graph)});
  return compiled;
}

StepTime on_two(const std::function<void(ops::Builder&)>& write, int64_t runs = 1) {
  return predict_step(compiled_of({program(write)}, ir::Mesh({{"data", 2}}), runs), toys(2), ir::DType::f32);
}

TEST(StepTimeTest, AProductTakesItsArithmeticOrItsTraffic) {
  compile::Compiled compiled = compiled_of({program([](ops::Builder& b) { add_product(b); })});
  compiled.model_flops = 1024;
  const StepTime bound_by_arithmetic = predict_step(compiled, toys(1), ir::DType::f32);
  EXPECT_DOUBLE_EQ(bound_by_arithmetic.compute, 8);
  EXPECT_DOUBLE_EQ(bound_by_arithmetic.memory, 0);
  EXPECT_DOUBLE_EQ(bound_by_arithmetic.seconds(), 8);
  EXPECT_DOUBLE_EQ(bound_by_arithmetic.mfu, 0.5) << "1024 of the 2048 it could do";
  EXPECT_EQ(bound_by_arithmetic.largest(), StepPart::arithmetic);

  hw::Slice narrow = toys(1);
  narrow.chip.memory_bytes_per_second = 128;
  const StepTime bound_by_memory = predict_step(compiled, narrow, ir::DType::f32);
  EXPECT_DOUBLE_EQ(bound_by_memory.compute, 0);
  EXPECT_DOUBLE_EQ(bound_by_memory.memory, 10);
  EXPECT_DOUBLE_EQ(bound_by_memory.arithmetic, 8) << "which takes its time all the same";
  EXPECT_EQ(bound_by_memory.largest(), StepPart::memory);
}

// Eight packed rows of two experts, whose matrices are 16 x 64.
TEST(StepTimeTest, WhoMakesTheKernelsCounts) {
  const compile::Compiled compiled = compiled_of({program([](ops::Builder& b) {
    const ValueId x = b.input("x", {ir::DType::f32, {1, 1, 8, 16}}, ir::Role::activation);
    const ValueId w = b.input("w", {ir::DType::f32, {2, 16, 64}}, ir::Role::weight);
    const ValueId counts = b.input("counts", {ir::DType::i32, {1, 1, 2}}, ir::Role::activation);
    b.one("ragged_dot", {x, w, counts}, {{"transpose_w", int64_t{0}}});
  })});
  const double ours = predict_step(compiled, toys(1), ir::DType::f32, {.compiler = Compiler::ours}).seconds();
  EXPECT_DOUBLE_EQ(ours, 64) << "2 * 8 * 16 * 64 FLOPs";
  EXPECT_DOUBLE_EQ(predict_step(compiled, toys(1), ir::DType::f32, {.compiler = Compiler::xla}).seconds(), 128);
  EXPECT_DOUBLE_EQ(predict_step(compiled, toys(1), ir::DType::f32).seconds(), ours);
}

TEST(StepTimeTest, OpsAreCountedByTheirProgramsAndAddUpToTheStep) {
  compile::Compiled compiled =
      compiled_of({program([](ops::Builder& b) { add_product(b); }), program([](ops::Builder& b) { add_product(b); })});
  compiled.stages[0].programs[1].kind = compile::ProgramKind::update;
  compiled.stages[0].step.push_back({.program = 0, .micro = 1});
  const StepTime time = predict_step(compiled, toys(1), ir::DType::f32);
  ASSERT_EQ(time.ops.size(), 2U);
  EXPECT_EQ(time.ops[0].program, "micro_step") << "most seconds first";
  EXPECT_EQ(time.ops[0].op, "dot");
  EXPECT_EQ(time.ops[0].calls, 2);
  EXPECT_DOUBLE_EQ(time.ops[0].seconds, 16);
  EXPECT_DOUBLE_EQ(time.ops[0].limit, 16);
  EXPECT_EQ(time.ops[1].program, "update");
  EXPECT_DOUBLE_EQ(time.ops[1].seconds, 8);
  EXPECT_DOUBLE_EQ(time.compute + time.memory, 24);
}

TEST(StepTimeTest, APredictionHasALimitAndARange) {
  const compile::Compiled compiled = compiled_of({program([](ops::Builder& b) { add_product(b); })});
  hw::Slice slice = toys(1);
  const StepTime roofline = predict_step(compiled, slice, ir::DType::bf16);
  EXPECT_TRUE(roofline.is_limit);
  EXPECT_DOUBLE_EQ(roofline.limit, 8);

  slice.chip.reached.products = slice.chip.reached.traffic = 0.5;
  const StepTime open = predict_step(compiled, slice, ir::DType::bf16);
  EXPECT_FALSE(open.is_limit);
  EXPECT_DOUBLE_EQ(open.seconds(), 16);
  EXPECT_DOUBLE_EQ(open.limit, 8);
  EXPECT_DOUBLE_EQ(open.range.least, 8);
  EXPECT_FALSE(open.range.most.has_value()) << "nobody measured a step";
  EXPECT_EQ(open.range.open, OpenEnd::no_steps);

  slice.chip.reached.step_least = 0.75;
  slice.chip.reached.step_most = 1.5;
  const StepTime bounded = predict_step(compiled, slice, ir::DType::bf16);
  EXPECT_DOUBLE_EQ(bounded.range.least, 12);
  EXPECT_DOUBLE_EQ(bounded.range.most.value(), 24);
  const StepTime in_loops = predict_step(compiled, slice, ir::DType::bf16, {.has_loops = true});
  EXPECT_DOUBLE_EQ(in_loops.range.least, 8);
  EXPECT_EQ(in_loops.range.most, std::nullopt);
  EXPECT_EQ(in_loops.range.open, OpenEnd::loops) << "steps were measured unrolled";
  EXPECT_EQ(predict_step(compiled, slice, ir::DType::bf16, {.has_loops = false}).range.most, bounded.range.most);
  slice.chip.reached.step_least = 0.25;
  EXPECT_DOUBLE_EQ(predict_step(compiled, slice, ir::DType::bf16).range.least, 8) << "never below the limit";
  EXPECT_EQ(predict_step(compiled, slice, ir::DType::f32).range.open, OpenEnd::dtype) << "steps were measured in bf16";
}

TEST(StepTimeTest, TheLimitWaitsForLinksToo) {
  const StepTime time = on_two([](ops::Builder& b) {
    b.one("all_reduce", {add_gradient(b)}, sum_over_data());
    add_product(b);
  });
  EXPECT_DOUBLE_EQ(time.limit, 8 + 2.5);
  EXPECT_DOUBLE_EQ(time.exposed_copies, 0) << "of collectives";
}

TEST(StepTimeTest, ReshapesAndInputsAreFree) {
  const compile::Compiled compiled = compiled_of({program([](ops::Builder& b) {
    const ValueId x = b.input("x", kActivation, ir::Role::activation);
    b.reshape(x, {128});
  })});
  EXPECT_EQ(predict_step(compiled, toys(1), ir::DType::f32).seconds(), 0);
}

TEST(StepTimeTest, ACollectiveInTheWayIsWaitedFor) {
  const StepTime time = on_two([](ops::Builder& b) {
    b.one("all_reduce", {add_gradient(b)}, sum_over_data());
    add_product(b);
  });
  EXPECT_DOUBLE_EQ(time.exposed, 2.5);
  EXPECT_DOUBLE_EQ(time.overlapped, 0);
  EXPECT_DOUBLE_EQ(time.seconds(), 8 + 2.5);
  ASSERT_EQ(time.links.size(), 1u);
  EXPECT_EQ(time.links[0].axes, "data");
  EXPECT_EQ(time.links[0].link, "wire");
  EXPECT_EQ(time.links[0].bytes, 256);
  EXPECT_DOUBLE_EQ(time.links[0].seconds, 2.5);
}

TEST(StepTimeTest, WhatIsForOneOtherChipTakesOneTurn) {
  const auto seconds_on = [](int64_t chips, const std::string& op, ir::Attrs attrs) {
    attrs.set("axes", std::string("data"));
    attrs.set("parts", chips);
    const ir::Graph graph = program([&](ops::Builder& b) { b.one(op, {add_gradient(b)}, attrs); });
    return predict_step(compiled_of({graph}, ir::Mesh({{"data", chips}})), toys(chips), ir::DType::f32)
        .links[0]
        .seconds;
  };
  EXPECT_DOUBLE_EQ(seconds_on(4, "permute", {{"shift", int64_t{1}}}), 2 + 0.5);
  EXPECT_DOUBLE_EQ(seconds_on(4, "all_reduce", {{"kind", std::string("sum")}}), 3 + 3 * 0.5);
}

// Four tensors of 256 bytes are as many bytes in one message as in four.
TEST(StepTimeTest, AMessageWaitsOnceHoweverManyTensorsAreInIt) {
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  const StepTime bucket = on_two([&](ops::Builder& b) {
    std::vector<ValueId> gradients;
    for (const std::string& name : names) gradients.push_back(add_gradient(b, name));
    b.node("all_reduce", gradients, sum_over_data());
  });
  const StepTime alone = on_two([&](ops::Builder& b) {
    for (const std::string& name : names) b.one("all_reduce", {add_gradient(b, name)}, sum_over_data());
  });
  EXPECT_EQ(bucket.links.at(0).bytes, 4 * 256);
  EXPECT_EQ(alone.links.at(0).bytes, 4 * 256);
  EXPECT_EQ(bucket.links.at(0).calls, 1);
  EXPECT_EQ(alone.links.at(0).calls, 4);
  EXPECT_DOUBLE_EQ(bucket.links.at(0).seconds, 8 + 0.5);
  EXPECT_DOUBLE_EQ(alone.links.at(0).seconds, 8 + 4 * 0.5);
}

// The same of a model, whose gradients go in buckets of so many bytes: what is paid are the buckets that were made.
TEST(StepTimeTest, LatencyIsPaidForEveryBucketThatIsSent) {
  struct Sent {
    int64_t calls = 0, bytes = 0;
    LinkTime link;
  };
  const Assumptions assumptions = testing_support::test_assumptions("h100:2");
  const auto sent_in = [&](const std::string& buckets) {
    const Estimate estimate =
        make_estimate(testing_support::test_recipe({"layout.data_parallel=2", "layout.zero=1", buckets}), assumptions);
    EXPECT_EQ(estimate.time.links.size(), 1u) << "all of it over data";
    Sent sent{.link = estimate.time.links.at(0)};
    for (const compile::CollectiveTotal& total : compile::collective_totals(estimate.compiled)) {
      sent.calls += total.calls;
      sent.bytes += total.bytes;
    }
    return sent;
  };
  const Sent one = sent_in("layout.bucket_bytes=0"), many = sent_in("layout.bucket_bytes=1");
  EXPECT_LT(one.calls, many.calls) << "else nothing is shown";
  EXPECT_EQ(one.bytes, many.bytes);
  const hw::Link& nvlink = *assumptions.slice.chip.fastest_link();
  for (const Sent& sent : {one, many}) {
    EXPECT_EQ(sent.link.calls, sent.calls);
    EXPECT_EQ(sent.link.bytes, sent.bytes);
    EXPECT_NEAR(
        sent.link.seconds,
        static_cast<double>(sent.bytes) / nvlink.bytes_per_second + static_cast<double>(sent.calls) * nvlink.latency,
        1e-9 * sent.link.seconds);
  }
}

TEST(StepTimeTest, ACollectiveStartedEarlyRunsBesideTheWork) {
  const StepTime hidden = on_two([](ops::Builder& b) {
    const ValueId started = start_sum(b);
    add_product(b);
    b.one(ops::kDoneOp, {started}, sum_over_data());
  });
  EXPECT_DOUBLE_EQ(hidden.exposed, 0);
  EXPECT_DOUBLE_EQ(hidden.overlapped, 2.5);
  EXPECT_DOUBLE_EQ(hidden.seconds(), 8);

  const StepTime queued = on_two([](ops::Builder& b) {
    std::vector<ValueId> started;
    for (const char* name : {"a", "b", "c", "d"}) started.push_back(start_sum(b, name));
    add_product(b);
    for (const ValueId one : started) b.one(ops::kDoneOp, {one}, sum_over_data());
  });
  EXPECT_DOUBLE_EQ(queued.exposed, 2) << "four of them take 10 s on one wire, 8 s of which the product hides";
  EXPECT_DOUBLE_EQ(queued.overlapped, 8);
}

TEST(StepTimeTest, WorkBesideACollectiveIsAsSlowAsTheChipsFileSays) {
  const compile::Compiled compiled = compiled_of({program([](ops::Builder& b) {
                                                   const ValueId started = start_sum(b);
                                                   add_product(b, "x");
                                                   add_product(b, "y");
                                                   b.one(ops::kDoneOp, {started}, sum_over_data());
                                                 })},
                                                 ir::Mesh({{"data", 2}}));
  hw::Slice slice = toys(2);
  slice.chip.reached.products = slice.chip.reached.traffic = 1;
  EXPECT_DOUBLE_EQ(predict_step(compiled, slice, ir::DType::f32).seconds(), 16);
  slice.chip.reached.beside_collectives = 0.8;
  const StepTime slowed = predict_step(compiled, slice, ir::DType::f32);
  EXPECT_DOUBLE_EQ(slowed.compute, 16.5) << "2.5 s of the first product do the work of two";
  EXPECT_DOUBLE_EQ(slowed.limit, 16) << "work at peak rates is beside nothing";
  EXPECT_DOUBLE_EQ(slowed.ops.front().seconds, 16.5);
  slice.chip.reached.step_least = 0.75, slice.chip.reached.step_most = 1.25;
  const StepTime exchanges = predict_step(compiled, slice, ir::DType::bf16);
  EXPECT_EQ(exchanges.range.open, OpenEnd::links) << "steps were measured on one chip";
  EXPECT_EQ(exchanges.range.most, std::nullopt);
}

TEST(StepTimeTest, AProgramCountsAsOftenAsTheStepRunsIt) {
  const auto write = [](ops::Builder& b) {
    b.one("all_reduce", {add_gradient(b)}, sum_over_data());
    add_product(b);
  };
  const StepTime thrice = on_two(write, 3);
  EXPECT_DOUBLE_EQ(thrice.compute, 24);
  EXPECT_DOUBLE_EQ(thrice.arithmetic, 24);
  EXPECT_DOUBLE_EQ(thrice.exposed, 7.5);
  EXPECT_EQ(thrice.links[0].bytes, 3 * 256);
  EXPECT_EQ(thrice.links[0].calls, 3);
}

// Two stages, one micro-batch: 8 s forward, handed over, 8 s on the last stage, handed back, 8 s backward.
TEST(StepTimeTest, StagesWaitForWhatIsHandedOver) {
  const auto attrs = [](int64_t peer, int64_t tag) {
    return ir::Attrs{{"axes", std::string("stage")}, {"peer", peer}, {"tag", tag}};
  };
  const auto send = [&](int64_t peer, int64_t tag) {
    return program([&](ops::Builder& b) { b.node("send", {add_gradient(b)}, attrs(peer, tag)); });
  };
  const auto receive = [&](int64_t peer, int64_t tag) {
    return program([&](ops::Builder& b) {
      ir::Attrs all = attrs(peer, tag);
      all.set("dtype", std::string("f32"));
      all.set("shape", std::vector<int64_t>{64});
      b.one("recv", {}, all);
    });
  };
  const ir::Graph pass = program([](ops::Builder& b) { add_product(b); });
  compile::Compiled compiled;
  compiled.mesh = ir::Mesh({{"stage", 2}});
  compiled.stages.resize(2);
  const auto run = [&](size_t stage, const ir::Graph& graph, compile::ProgramKind kind) {
    compile::StagePrograms& chip = compiled.stages[stage];
    chip.step.push_back({.program = chip.programs.size()});
    chip.programs.push_back({.kind = kind, .graph = graph});
  };
  using enum compile::ProgramKind;
  run(0, pass, forward);
  run(0, send(1, 0), send_activations);
  run(0, receive(1, 1), receive_cotangents);
  run(0, pass, backward);
  run(0, pass, update);
  run(1, receive(-1, 0), receive_activations);
  run(1, pass, forward);
  run(1, send(-1, 1), send_cotangents);
  const StepTime time = predict_step(compiled, toys(2), ir::DType::f32);
  EXPECT_DOUBLE_EQ(time.compute, 24) << "the first stage: forward, backward and its update";
  EXPECT_DOUBLE_EQ(time.exposed, 0) << "what is sent is not waited for";
  EXPECT_DOUBLE_EQ(time.bubble, 2.5 + 8 + 2.5);
  ASSERT_EQ(time.links.size(), 1u);
  EXPECT_DOUBLE_EQ(time.overlapped, 2.5) << "what it sends";
  EXPECT_EQ(time.largest(), StepPart::arithmetic);
}

TEST(StepTimeTest, LinksThatCarryNothingAreNotListed) {
  EXPECT_TRUE(predict_step(compiled_of({program([](ops::Builder& b) {
                                         ir::Attrs alone = sum_over_data();
                                         alone.set("parts", int64_t{1});
                                         b.one("all_reduce", {add_gradient(b)}, alone);
                                       })},
                                       ir::Mesh({{"data", 1}})),
                           toys(1), ir::DType::f32)
                  .links.empty());
}

/// 256 bytes from the host's memory, which are waited for, and a product.
compile::Compiled with_a_copy() {
  return compiled_of({program([](ops::Builder& b) {
    const ValueId moment = add_gradient(b, "moment");
    ops::place_input(b.graph().node(b.graph().value(moment).producer), ir::Tier::host);
    const ValueId copied = b.one(ops::kCopyStartOp, {moment}, ops::copy_to(ir::Tier::device));
    b.one(ops::kCopyDoneOp, {copied});
    add_product(b);
  })});
}

TEST(StepTimeTest, CopiesFromTheHostTakeTheRateOfItsLink) {
  hw::Slice slice = toys(1);
  slice.chip.links.push_back({.name = "pcie", .scope = hw::LinkScope::node, .bytes_per_second = 64});
  const StepTime time = predict_step(with_a_copy(), slice, ir::DType::f32);
  EXPECT_DOUBLE_EQ(time.exposed, 4);
  EXPECT_EQ(time.unpriced_bytes, 0);
}

// 256 bytes to the host and back, a product of 8 s beside either way.
TEST(StepTimeTest, CopiesBesideWorkAreHiddenUpToTheRateOfTheirLink) {
  const compile::Compiled compiled = compiled_of({program([](ops::Builder& b) {
    const ValueId away = b.one(ops::kCopyStartOp, {add_gradient(b, "kept")}, ops::copy_to(ir::Tier::host));
    add_product(b, "forward");
    const ValueId stored = b.one(ops::kCopyDoneOp, {away});
    const ValueId back = b.one(ops::kCopyStartOp, {stored}, ops::copy_to(ir::Tier::device));
    add_product(b, "backward");
    b.one(ops::kCopyDoneOp, {back});
  })});
  hw::Slice slice = toys(1);
  slice.chip.links.push_back({.name = "pcie", .scope = hw::LinkScope::node, .bytes_per_second = 64});
  slice.chip.reached.products = slice.chip.reached.traffic = 1;
  slice.chip.reached.step_least = 0.75, slice.chip.reached.step_most = 1.25;
  const StepTime hidden = predict_step(compiled, slice, ir::DType::bf16);
  EXPECT_DOUBLE_EQ(hidden.exposed, 0) << "4 s beside 8";
  EXPECT_DOUBLE_EQ(hidden.range.most.value(), 20);
  EXPECT_DOUBLE_EQ(hidden.overlapped, 8);
  slice.chip.links.back().bytes_per_second = 16;
  const StepTime waiting = predict_step(compiled, slice, ir::DType::bf16);
  EXPECT_DOUBLE_EQ(waiting.exposed, 16) << "16 s beside 8, twice";
  EXPECT_DOUBLE_EQ(waiting.exposed_copies, 16);
  EXPECT_DOUBLE_EQ(waiting.range.least, waiting.limit);
  EXPECT_EQ(waiting.range.most, std::nullopt) << "steps that waited give no range";
  EXPECT_EQ(waiting.range.open, OpenEnd::copies);
  EXPECT_DOUBLE_EQ(waiting.overlapped, 16);
}

TEST(StepTimeTest, AStageThatWaitsForCopiesLeavesTheEndOpenWhereAnotherIsSlower) {
  compile::Compiled compiled = with_a_copy();
  compiled.stages.push_back(compiled_of({program([](ops::Builder& b) {
                              add_product(b, "first");
                              add_product(b, "second");
                            })}).stages[0]);
  hw::Slice slice = toys(2);
  slice.chip.links.push_back({.name = "pcie", .scope = hw::LinkScope::node, .bytes_per_second = 64});
  slice.chip.reached.products = slice.chip.reached.traffic = 1;
  slice.chip.reached.step_least = 0.75, slice.chip.reached.step_most = 1.25;
  const StepTime time = predict_step(compiled, slice, ir::DType::bf16);
  EXPECT_DOUBLE_EQ(time.seconds(), 16) << "the other stage waits 4 s and computes 8";
  EXPECT_DOUBLE_EQ(time.exposed_copies, 0);
  EXPECT_EQ(time.range.most, std::nullopt);
  EXPECT_EQ(time.range.open, OpenEnd::copies);
}

// A rate that nobody gave is no rate of infinity: what takes its time unseen is counted, and nothing bounds the step.
TEST(StepTimeTest, CopiesOverALinkThatTheChipsFileLacksAreCountedAndLeaveTheEndOpen) {
  hw::Slice slice = toys(1);
  slice.chip.reached.products = slice.chip.reached.traffic = 0.5;
  slice.chip.reached.step_least = 0.75, slice.chip.reached.step_most = 1.25;
  const StepTime time = predict_step(with_a_copy(), slice, ir::DType::bf16);
  EXPECT_EQ(time.unpriced_bytes, 256);
  EXPECT_EQ(time.range.most, std::nullopt);
}

StepTime of_schedule(const std::vector<std::string>& settings) {
  std::vector<std::string> all = {"layout.pipeline_parallel=4", "train.batch=1",    "train.micro_steps=8",
                                  "train.sequence=64",          "model.pattern=AE", "model.depth=16"};
  all.insert(all.end(), settings.begin(), settings.end());
  const recipe::Recipe recipe = recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml", all);
  const hw::HostRates rates{.matrix_flops = 1e11, .bytes_per_second = 1e13, .cores = 2, .memory = int64_t{1} << 34};
  return make_estimate(
             recipe,
             {.slice = hw::parse_target("host:4", {.host_rates = [&] { return rates; }}),
              .kernels = {.name = "any",
                          .runs = [](std::string_view, const ops::NodeView&) { return base::Decision::yes(); },
                          .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; }}})
      .time;
}

TEST(StepTimeTest, TheScheduleDecidesTheBubble) {
  const StepTime gpipe = of_schedule({"layout.schedule=gpipe"}), one = of_schedule({"layout.schedule=1f1b"}),
                 interleaved = of_schedule({"layout.schedule=interleaved", "layout.virtual_stages=2"}),
                 zero = of_schedule({"layout.schedule=zero_bubble"});
  EXPECT_NEAR(gpipe.bubble, one.bubble, 0.01 * one.seconds());
  EXPECT_LT(interleaved.bubble, 0.8 * one.bubble);
  EXPECT_LT(zero.bubble, 0.8 * one.bubble);
  EXPECT_LT(interleaved.seconds(), one.seconds());
  EXPECT_LT(zero.seconds(), one.seconds());
}

// A backend that runs neighbouring elementwise programs together launches those that are alike once, and its own word
// bounds what a small node takes.
TEST(StepTimeTest, KernelsThatRunTogetherAreLaunchedOnce) {
  const std::vector<std::string> bf16 = {"train.precision=bf16"};
  const recipe::Recipe recipe = recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml", bf16);
  Assumptions assumptions = testing_support::test_assumptions("h200:1");
  assumptions.kernels_run_there = true;
  assumptions.slice.chip.reached.launch = 1;
  const Estimate estimate = make_estimate(recipe, assumptions);
  const auto seconds = [&](const Assumptions& of) {
    return predict_step(estimate.compiled, of, ir::DType::bf16).seconds();
  };
  const double apart = seconds(assumptions);
  assumptions.kernels.separate_bytes = 1;
  const double together = seconds(assumptions);
  EXPECT_LT(together, apart - 50) << "the update of every parameter is the same program";
  assumptions.kernels.least_seconds = [](std::string_view op, const ops::NodeView&) {
    return op == "cross_entropy" ? 5.0 : 0.0;
  };
  EXPECT_NEAR(seconds(assumptions), together + 5, 1e-3);
}

}  // namespace
}  // namespace megacpp::fit
