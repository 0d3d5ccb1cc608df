// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/sweep/sweep.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/evidence/receipt/store.h"
#include "megacpp/evidence/sweep/sweep_result.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/errors.h"
#include "tests/support/seeded_receipts.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::sweep {
namespace {

void ignore(size_t, size_t, const Trial&) {}

class SweepTest : public testing::Test {
 protected:
  SweepRequest request(const std::string& axis, size_t repeats = 3) const {
    return {.recipe = recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml"),
            .axis = parse_axis(axis),
            .repeats = repeats,
            .folder = folder_ / "sweep"};
  }

  /// Leaves the receipt of a run whose arithmetic takes half the time with two chips.
  TrialEnd train(const TrialRequest& asked) {
    asked_.push_back(asked.overrides.front());
    const bool is_halved = asked.overrides.front() == "layout.tensor_parallel=2";
    const receipt::Receipt receipt = testing_support::seeded_receipt({.name = asked.run.filename().string(),
                                                                      .overrides = asked.overrides,
                                                                      .arithmetic = is_halved ? 0.04 : 0.08,
                                                                      .seed = asked_.size()});
    base::make_folder(asked.run);
    base::write_file_atomically(asked.run / "recipe.yaml", receipt.recipe);
    receipt::write_receipt(receipt, asked.run);
    return {};
  }

  testing_support::TemporaryFolder folder_;
  std::vector<std::string> asked_;
};

TEST_F(SweepTest, EveryValueIsRepeatedInTurnAndComparedWithTheFirst) {
  const Sweep sweep = run_sweep(
      request("layout.tensor_parallel=1,2"), [this](const TrialRequest& asked) { return train(asked); }, ignore);
  const std::string one = "layout.tensor_parallel=1", two = "layout.tensor_parallel=2";
  EXPECT_EQ(asked_, (std::vector<std::string>{one, two, two, one, one, two}));
  const std::vector<ValueResult> results = results_of(sweep);
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].runs.size(), 3U);
  EXPECT_FALSE(results[0].against_first.has_value());
  ASSERT_TRUE(results[1].against_first && results[1].against_first->effect);
  EXPECT_EQ(results[1].against_first->effect->finding, stats::Finding::lower);
  EXPECT_EQ(results[1].against_first->effect->confidence, stats::kConfidence) << "the only comparison";
}

TEST_F(SweepTest, AStoppedSweepGoesOnWithWhatIsLeft) {
  const auto stopping = [this](const TrialRequest& asked) {
    return asked_.size() < 2 ? train(asked) : TrialEnd{.status = base::kInterruptedStatus};
  };
  const Sweep part = run_sweep(request("train.batch=4,8"), stopping, ignore);
  EXPECT_TRUE(part.was_stopped);
  EXPECT_EQ(progress_text(part), "2 of 6 runs");
  const Sweep whole = run_sweep(
      request("train.batch=4,8"), [this](const TrialRequest& asked) { return train(asked); }, ignore);
  EXPECT_FALSE(whole.was_stopped);
  EXPECT_EQ(asked_.size(), 6U) << "each was run once";
  EXPECT_EQ(progress_text(whole), "6 runs");
}

TEST_F(SweepTest, AValueThatIsRefusedIsNotRepeatedAndHidesNoOther) {
  size_t refused = 0;
  const auto refusing = [&](const TrialRequest& asked) {
    if (asked.overrides.front() != "layout.tensor_parallel=3") return train(asked);
    ++refused;
    return TrialEnd{.status = 2, .error = "E1402 heads or groups cannot be split"};
  };
  const Sweep sweep = run_sweep(request("layout.tensor_parallel=1,3"), refusing, ignore);
  EXPECT_EQ(refused, 1U);
  EXPECT_EQ(progress_text(sweep), "4 runs") << "of the value that was refused no more are made";
  const std::vector<ValueResult> results = results_of(sweep);
  EXPECT_EQ(results[0].runs.size(), 3U);
  EXPECT_EQ(results[1].errors, std::vector<std::string>{"exit status 2: E1402 heads or groups cannot be split"});
}

TEST_F(SweepTest, OtherSweepsAndDamagedFilesAreRefused) {
  const auto fine = [this](const TrialRequest& asked) { return train(asked); };
  run_sweep(request("train.batch=4,8", 1), fine, ignore);
  EXPECT_THROW(run_sweep(request("train.batch=4,16", 1), fine, ignore), base::Error);
  SweepRequest other = request("train.batch=4,8", 1);
  other.recipe.train.sequence = 64;
  EXPECT_THROW(run_sweep(other, fine, ignore), base::Error);
  const std::string file = folder_ / "sweep" / "sweep.json", whole = base::read_file(file);
  const auto replaced = [&whole](const std::string& part, const std::string& by) {
    const size_t at = whole.find(part);
    EXPECT_NE(at, std::string::npos) << part << whole;
    return at == std::string::npos ? whole : std::string(whole).replace(at, part.size(), by);
  };
  for (const std::string& text :
       {std::string("{\"axis\": 3}"), std::string("{}"), std::string("[]"), std::string("{\"axis\""),
        replaced("\"repeats\": 1", "\"repeats\": 1000000000000"), replaced("\"repeats\": 1", "\"repeats\": -1"),
        replaced("\"repeats\": 1", "\"repeats\": \"1\""), replaced("\"value\": 0", "\"value\": 7"),
        replaced("\"repeat\": 0", "\"repeat\": 1e3"), replaced("\"status\": 0", "\"status\": -4294967296"),
        replaced("\"run\":", "\"ran\":"), replaced("\"error\": \"\"", "\"error\": 3")}) {
    base::write_file_atomically(file, text);
    testing_support::problem_of(base::Code::E1008, [&] { run_sweep(request("train.batch=4,8", 1), fine, ignore); });
  }
  EXPECT_THROW(run_sweep(request("train.batch=4,many", 1), fine, ignore), base::Error);
}

TEST(TrialRunnerTest, TheErrorOfACommandIsOneLine) {
  EXPECT_EQ(error_line("step 1\nerror E1402 heads cannot be split\n  where:  x\n  got:    3 of 4\n  wanted: 2\n"),
            "E1402 heads cannot be split: 3 of 4");
  EXPECT_EQ(error_line("one\nlast\n"), "last");
}

TEST(TrialRunnerTest, ATrialIsAProgramOfItsOwn) {
  const TrialEnd end = program_runner("false", [] { return false; })({.recipe = "r", .overrides = {}, .run = "d"});
  EXPECT_EQ(end.status, 1);
  EXPECT_EQ(program_runner("true", [] { return true; })({.recipe = "r", .overrides = {}, .run = "d"}).status,
            base::kInterruptedStatus);
}

}  // namespace
}  // namespace megacpp::sweep
