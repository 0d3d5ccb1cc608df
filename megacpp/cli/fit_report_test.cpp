// SPDX-License-Identifier: Apache-2.0
// What is shown once the hardware was asked: rows, front and verdict are those of its answers.
#include "megacpp/cli/fit_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace megacpp::cli {
namespace {

using fit::FitVerdict;
using Indices = std::vector<size_t>;

struct PlannedLayout {
  std::string layout;
  int64_t bytes = 0;
  double seconds = 0;
};

/// On a chip of 100 bytes whose compiler was seen to reserve half as much again.
fit::Found found_layout(const PlannedLayout& planned) {
  fit::ChipGroup chip;
  chip.planned = chip.corrected = planned.bytes;
  chip.reservation = {.least = planned.bytes, .expected = planned.bytes, .most = planned.bytes * 3 / 2};
  chip.limit.bytes = 100;
  fit::Found found;
  found.recipe.model.pattern = "A";
  found.recipe.model.depth = 1;
  found.layout = planned.layout;
  found.fit.groups = {chip};
  found.time.compute = planned.seconds;
  found.time.mfu = 0.5;
  return found;
}

/// Two that fit, a faster one that is close, and one that does not fit, as a search leaves them.
FitAnswer answer_of_four() {
  FitAnswer answer;
  answer.slice.name = "toy:1";
  for (const PlannedLayout& planned : {PlannedLayout{"quick", 60, 2}, PlannedLayout{"small", 40, 3},
                                       PlannedLayout{"tight", 90, 1}, PlannedLayout{"large", 120, 1}})
    answer.search.found.push_back(found_layout(planned));
  return answer;
}

Indices front_of(const FitAnswer& answer) { return fit::pareto_front(answer.points()); }

TEST(FitAnswerTest, AsPlannedWhatIsCloseStandsBetween) {
  const FitAnswer answer = answer_of_four();
  EXPECT_EQ(answer.order(), (Indices{0, 1, 2, 3}));
  EXPECT_EQ(front_of(answer), (Indices{1, 0}));
  EXPECT_EQ(answer.verdict(), FitVerdict::fits);
  EXPECT_EQ(answer.memory_of(2).free_text(), "10 B close");
  EXPECT_EQ(answer.memory_of(3).free_text(), "-20 B");
}

// More is expected than the limit, and a compiler may reserve less than it.
TEST(FitAnswerTest, WhatIsCloseAndOverItsLimitIsSaidToBe) {
  FitAnswer answer = answer_of_four();
  fit::ChipGroup& tight = answer.search.found[2].fit.groups[0];
  tight.planned = tight.corrected = 110;
  tight.reservation = {.least = 77, .expected = 110, .most = 165};
  ASSERT_EQ(answer.memory_of(2).verdict, FitVerdict::close);
  EXPECT_EQ(answer.memory_of(2).free_text(), "10 B over, close");
  EXPECT_NE(close_note(answer).find("over: more is expected than the limit"), std::string::npos) << close_note(answer);
}

TEST(FitAnswerTest, WhereNothingFitsTheFirstLineSaysWhatThereIs) {
  FitAnswer answer = answer_of_four();
  answer.search.found.erase(answer.search.found.begin(), answer.search.found.begin() + 3);
  answer.search.found[0].fit.groups[0].reservation.most = 120;
  const std::string text = fit_text(answer, 1);
  EXPECT_NE(text.find("nothing fits: the least that was found needs 120 B, a chip of toy:1 has 100 B\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("to run one"), std::string::npos) << text;
}

// Others may leave a virtual chip nothing: what all need of the machine is shown.
TEST(FitAnswerTest, ChipsThatShareAMachineAreHeldAgainstIt) {
  FitAnswer answer = answer_of_four();
  answer.search.found.erase(answer.search.found.begin(), answer.search.found.begin() + 3);
  fit::ChipGroup& chip = answer.search.found[0].fit.groups[0];
  chip.reservation.most = 120;
  chip.limit = {.bytes = 0, .machine = fit::SharedMachine{.bytes = 100, .needed = 270, .snapshot = 30}};
  EXPECT_EQ(answer.memory_of(0).share_text(), "270 %");
  EXPECT_EQ(answer.memory_of(0).free_text(), "-170 B");
  const std::string text = fit_text(answer, 1);
  EXPECT_NE(text.find("needs 240 B and 30 B for the snapshot of checkpoints, this machine has 100 B\n"),
            std::string::npos)
      << text;
}

TEST(FitAnswerTest, WhatIsCloseAndFasterIsNamedHoweverFarDown) {
  FitAnswer answer = answer_of_four();
  EXPECT_EQ(answer.faster_close(), 2U);
  const std::string text = fit_text(answer, 1);
  EXPECT_NE(text.find("tight"), std::string::npos) << text;
  EXPECT_NE(text.find("the fastest that is close takes 1.00 s a step: tight"), std::string::npos) << text;
  answer.search.found[2].time.compute = 4;
  EXPECT_EQ(answer.faster_close(), std::nullopt) << "slower than what fits";
}

// Without a catalog too: what was asked is in the answer itself.
TEST(FitAnswerTest, MeasuredTimesMakeTheOrderAndTheFrontAnew) {
  FitAnswer answer = answer_of_four();
  answer.confirmed = {{.found = 0, .measured_bytes = 60, .measured_seconds = 5.0}};
  EXPECT_EQ(answer.order(), (Indices{1, 0, 2, 3})) << "it was slower than predicted";
  EXPECT_EQ(front_of(answer), (Indices{1}));
  EXPECT_EQ(answer.step_of(0).seconds_text(), "5.00 s measured");
  EXPECT_DOUBLE_EQ(answer.step_of(0).mfu, 0.2);
  const Json first = fit_json(answer)["candidates"][0];
  EXPECT_EQ(first["layout"], "small");
}

TEST(FitAnswerTest, WhatTheCompilerTookIsNoLongerClose) {
  FitAnswer answer = answer_of_four();
  answer.confirmed = {{.found = 2, .is_compiled = true, .measured_bytes = 95}};
  EXPECT_EQ(answer.order(), (Indices{2, 0, 1, 3}));
  EXPECT_EQ(front_of(answer), (Indices{1, 0, 2}));
  const ShownMemory memory = answer.memory_of(2);
  EXPECT_EQ(memory.verdict, FitVerdict::fits);
  EXPECT_EQ(memory.free_text(), "5 B measured");
  answer.front = front_of(answer);
  const Json json = fit_json(answer);
  EXPECT_EQ(json["candidates"][0]["layout"], "tight");
  EXPECT_EQ(json["candidates"][0]["needed_bytes"], 95);
  EXPECT_EQ(json["candidates"][0]["verdict"], "fits");
  EXPECT_EQ(json["front"], Json({0, 1, 2})) << "places among the candidates as they are printed";
  EXPECT_NE(fit_text(answer, 1).find("5 B measured"), std::string::npos) << fit_text(answer, 1);
}

TEST(FitAnswerTest, WhatTheHardwareRefusedIsNeitherFirstNorOnTheFront) {
  FitAnswer answer = answer_of_four();
  answer.confirmed = {{.found = 0, .is_compiled = true, .measured_bytes = 130, .out_of_memory = "compile"},
                      {.found = 1, .out_of_memory = "runtime allocation"}};
  EXPECT_EQ(answer.order(), (Indices{2, 3, 0, 1}));
  EXPECT_EQ(front_of(answer), (Indices{2}));
  EXPECT_EQ(answer.verdict(), FitVerdict::close) << "nothing is left that surely fits";
  EXPECT_EQ(answer.memory_of(0).free_text(), "-30 B measured");
  EXPECT_EQ(answer.memory_of(1).free_text(), "60 B, ran out");
  EXPECT_EQ(fit_json(answer)["fits"], false);
  EXPECT_EQ(fit_json(answer)["verdict"], "close");
  answer.confirmed.push_back({.found = 2, .out_of_memory = "runtime allocation"});
  EXPECT_EQ(answer.verdict(), FitVerdict::does_not_fit);
  const std::optional<base::Error> refusal = refusal_of(answer);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code(), base::Code::E2001);
  EXPECT_NE(refusal->problem().got.find("3 layouts that may fit as planned"), std::string::npos);
}

// A plan that exceeds the chip, of which a run says otherwise: nothing is refused, as the first row says.
TEST(FitAnswerTest, WhatWasSeenToRunIsNoErrorThoughItsPlanDoesNotFit) {
  FitAnswer answer = answer_of_four();
  answer.search.found.erase(answer.search.found.begin(), answer.search.found.begin() + 3);
  ASSERT_FALSE(answer.search.may_fit());
  const std::optional<base::Error> refusal = refusal_of(answer);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_NE(refusal->problem().got.find("the least that was found needs 120 B"), std::string::npos);
  answer.confirmed = {{.found = 0, .measured_bytes = 95, .measured_seconds = 1.0}};
  EXPECT_EQ(fit_json(answer)["verdict"], "fits");
  EXPECT_FALSE(refusal_of(answer).has_value());
}

// A run that failed for another reason says nothing about memory.
TEST(FitAnswerTest, AnyOtherFailureLeavesARowWhereItStands) {
  FitAnswer answer = answer_of_four();
  answer.confirmed = {{.found = 0, .error = "E1101: data.text: no file"}};
  EXPECT_EQ(answer.order(), (Indices{0, 1, 2, 3}));
}

// An account of memory that was not taken is such a failure: the plan's own bytes and verdict stay.
TEST(FitAnswerTest, WithoutTheCompilersBytesThoseOfThePlanStand) {
  FitAnswer answer = answer_of_four();
  answer.confirmed = {
      {.found = 2, .is_compiled = true, .planned_bytes = 90, .error = "E3201: memory: temp of -5 bytes"}};
  EXPECT_EQ(answer.order(), (Indices{0, 1, 2, 3}));
  EXPECT_EQ(answer.memory_of(2).needed, 90);
  EXPECT_EQ(answer.memory_of(2).verdict, FitVerdict::close);
  EXPECT_FALSE(answer.memory_of(2).is_measured);
  EXPECT_NE(fit_text(answer, 4).find("failed: E3201: memory: temp of -5 bytes"), std::string::npos);
  EXPECT_TRUE(fit_json(answer)["confirmed"][0]["reserved_bytes"].is_null());
}

TEST(FitAnswerTest, RulesOfAnotherCompilerAreSaidBelowWhatItWasAsked) {
  FitAnswer answer = answer_of_four();
  answer.confirmed = {{.found = 0, .is_compiled = true, .measured_bytes = 60}};
  EXPECT_EQ(fit_text(answer, 1).find("rules"), std::string::npos);
  EXPECT_EQ(fit_json(answer)["other_compiler"], "");
  answer.other_compiler = "of toy are of another compiler";
  EXPECT_NE(fit_text(answer, 1).find("rules of toy are of another compiler\n"), std::string::npos);
  EXPECT_EQ(fit_json(answer)["other_compiler"], answer.other_compiler);
}

/// Five layouts, each at three levels of recompute, which all end in the same place.
fit::Refused refused_layouts() {
  fit::Refused refused{.reason = "refused while compiling: E1408: a title: a tensor"};
  for (const char* degree : {"1", "2", "3", "4", "5"})
    for (const char* level : {"none", "selective", "full"})
      refused.layouts.push_back(
          {.settings = {{"layout.tensor_parallel", degree}, {"train.recompute.A", level}}, .got = "7 bytes"});
  return refused;
}

TEST(FitAnswerTest, OfManyThatAreRefusedAFewLayoutsAreShownAndTheRestCounted) {
  FitAnswer answer = answer_of_four();
  EXPECT_EQ(fit_text(answer, 1).find("left out"), std::string::npos);
  answer.search.dropped = {{.reason = "too many", .layouts = 2}};
  answer.search.refused = {refused_layouts()};
  const std::string text = fit_text(answer, 1);
  EXPECT_NE(text.find("left out:\n"
                      "       2  too many\n"
                      "      15  refused while compiling: E1408: a title: a tensor\n"
                      "            --set layout.tensor_parallel=1 --set train.recompute.A=none (7 bytes)\n"
                      "            --set layout.tensor_parallel=2 --set train.recompute.A=none (7 bytes)\n"
                      "            --set layout.tensor_parallel=3 --set train.recompute.A=none (7 bytes)\n"
                      "            and 12 more\n"
                      "everything that may fit"),
            std::string::npos)
      << text;
  answer.search.refused[0].layouts.resize(1);
  EXPECT_EQ(fit_text(answer, 1).find(" more\n"), std::string::npos);
}

TEST(FitAnswerTest, JsonHasEveryLayoutThatIsRefused) {
  FitAnswer answer = answer_of_four();
  answer.search.dropped = {{.reason = "too many", .layouts = 2}};
  answer.search.refused = {refused_layouts()};
  const Json dropped = fit_json(answer)["dropped"];
  ASSERT_EQ(dropped.size(), 2U);
  EXPECT_EQ(dropped[0], (Json{{"reason", "too many"}, {"layouts", 2}}));
  EXPECT_EQ(dropped[1]["reason"], "refused while compiling: E1408: a title: a tensor");
  EXPECT_EQ(dropped[1]["layouts"], 15);
  ASSERT_EQ(dropped[1]["refused"].size(), 15U);
  const std::vector<std::string> last = {"layout.tensor_parallel=5", "train.recompute.A=full"};
  EXPECT_EQ(dropped[1]["refused"][14]["set"], Json(last));
  EXPECT_EQ(dropped[1]["refused"][14]["got"], "7 bytes");
}

TEST(FitAnswerTest, WhereNothingCompilesTheErrorShowsAFewLayouts) {
  FitAnswer answer;
  answer.slice.name = "toy:2";
  answer.search.considered = 4;
  answer.search.dropped = {{.reason = "too many", .layouts = 2}};
  EXPECT_EQ(no_layout(answer).problem().got, "4 products of degrees and no legal one: 2 times too many");
  answer.search.refused = {refused_layouts()};
  const base::Error error = no_layout(answer);
  EXPECT_EQ(error.code(), base::Code::E1401);
  const std::string& got = error.problem().got;
  EXPECT_TRUE(got.starts_with("4 products of degrees and none that compiles: 2 times too many; 15 times refused"))
      << got;
  EXPECT_TRUE(got.ends_with("--set layout.tensor_parallel=3 --set train.recompute.A=none (7 bytes), and 12 more"))
      << got;
}

TEST(FitAnswerTest, ThePictureTellsCloseFromTheRest) {
  FitAnswer answer = answer_of_four();
  answer.front = front_of(answer);
  const std::string picture = scatter_text(answer);
  const std::string points = picture.substr(picture.find('\n'));
  for (const char sign : {'*', '~', 'x'}) EXPECT_NE(points.find(sign), std::string::npos) << sign << picture;
}

}  // namespace
}  // namespace megacpp::cli
