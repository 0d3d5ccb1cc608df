// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/campaign.h"

#include <gtest/gtest.h>

#include <csignal>
#include <set>
#include <stdexcept>
#include <thread>

#include "megacpp/core/base/file.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/table_names.h"

namespace megacpp::fuzz {
namespace {

void do_as_told(Bytes input) {
  switch (input.empty() ? 0 : input[0]) {
    case 's':
      ::signal(SIGSEGV, SIG_DFL);  // a sanitizer would make an exit of it
      ::raise(SIGSEGV);
      break;
    case 'h':
      std::this_thread::sleep_for(std::chrono::seconds(60));
      break;
    case 'x':
      std::_Exit(9);
    case 't':
      throw std::runtime_error("thrown");
    default:
      break;
  }
}

const Target kTarget{
    .name = "test", .subject = "", .weight = 1, .run = do_as_told, .limit = std::chrono::milliseconds(300)};

const std::string kRobustnessPage = MEGACPP_SOURCE_DIR "/docs/robustness.md";

Input input_of(std::string_view text) { return {text.begin(), text.end()}; }

TEST(CampaignTest, EveryWayToFailIsFoundAndTheOtherCasesRun) {
  const std::vector<Assignment> assignments = {{.target = &kTarget,
                                                .corpus = {input_of("a"), input_of("s1"), input_of("b"), input_of("h1"),
                                                           input_of("x1"), input_of("t1"), input_of("t2")}}};
  std::set<std::string> seen;
  const CampaignReport report = run_campaign(assignments, {.jobs = 2, .on_finding = [&](const Finding& finding) {
                                                             seen.insert(std::string(as_text(finding.input)));
                                                           }});
  EXPECT_EQ(seen, (std::set<std::string>{"s1", "h1", "x1", "t1"}));  // t2 is of the kind of t1
  EXPECT_EQ(report.findings.size(), 4u);
  ASSERT_EQ(report.targets.size(), 1u);
  EXPECT_EQ(report.targets[0].findings, 4u);
  EXPECT_EQ(report.targets[0].cases, 7u);
  EXPECT_EQ(report.targets[0].accepted, 2u);
}

TEST(CampaignTest, MutationsAreTheSameForAnyNumberOfJobs) {
  const auto finding_inputs = [](size_t jobs) {
    const std::vector<Assignment> assignments = {
        {.target = &kTarget, .corpus = {input_of("abc"), input_of("xyz")}, .mutations = 400}};
    std::multiset<std::string> kinds;
    const CampaignReport report = run_campaign(assignments, {.jobs = jobs});
    for (const Finding& finding : report.findings) kinds.insert(finding.text);
    EXPECT_EQ(report.targets[0].cases, 402u);
    return kinds;
  };
  EXPECT_EQ(finding_inputs(1), finding_inputs(3));
}

TEST(CampaignTest, ACampaignEndsInTime) {
  const Target slow{.name = "slow", .subject = "", .weight = 1, .run = [](Bytes) {
                      std::this_thread::sleep_for(std::chrono::milliseconds(100));
                    }};
  const std::vector<Assignment> assignments = {{.target = &slow, .corpus = {}, .mutations = uint64_t{1} << 40}};
  const CampaignReport report = run_campaign(assignments, {.jobs = 2, .total_limit = std::chrono::seconds(1)});
  EXPECT_TRUE(report.findings.empty());
  EXPECT_GT(report.targets[0].cases, 1u);
  EXPECT_LT(report.targets[0].cases, 30u);
}

TEST(CampaignTest, InTurnEveryTargetHasTheTimeForItself) {
  const auto sleeping = [](const char* name) {
    return Target{.name = name, .subject = "", .weight = 1, .run = [](Bytes) {
                    std::this_thread::sleep_for(std::chrono::milliseconds(10));
                  }};
  };
  const Target one = sleeping("one"), two = sleeping("two");
  constexpr uint64_t kEndless = uint64_t{1} << 40;
  const std::vector<Assignment> assignments = {{.target = &one, .corpus = {}, .mutations = kEndless},
                                               {.target = &kTarget, .corpus = {input_of("t1")}},
                                               {.target = &two, .corpus = {}, .mutations = kEndless}};
  const auto begin = std::chrono::steady_clock::now();
  const CampaignReport report = run_in_turn(assignments, {.total_limit = std::chrono::milliseconds(200)});
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(report.targets.size(), 3u);
  EXPECT_EQ(report.targets[0].name, "one");
  EXPECT_EQ(report.targets[2].name, "two");
  for (const size_t endless : {size_t{0}, size_t{2}}) {
    EXPECT_GT(report.targets[endless].cases, 1u);
    EXPECT_GE(report.targets[endless].seconds, 0.1);
  }
  EXPECT_GE(taken.count(), 0.4);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].target, "test");
}

TEST(MutateTest, ACaseIsAFunctionOfItsNumber) {
  const std::vector<Input> corpus = {input_of("name: a\ndepth: 12\n"), input_of("{\"b\": [1, 2]}")};
  std::set<Input> inputs;
  for (uint64_t number = 0; number < 1000; ++number) {
    Random one(7, "recipe", number), two(7, "recipe", number), other(8, "recipe", number);
    const Input input = mutate_any(corpus, one);
    EXPECT_EQ(input, mutate_any(corpus, two));
    inputs.insert(input);
    inputs.insert(mutate_any(corpus, other));
  }
  EXPECT_GT(inputs.size(), 1500u);
}

TEST(TargetTest, EveryTargetIsWholeAndHasACorpus) {
  std::set<std::string> names;
  uintmax_t bytes = 0;
  const std::filesystem::path corpus = MEGACPP_SOURCE_DIR "/tests/fuzz/corpus";
  for (const Target& target : all_targets()) {
    EXPECT_TRUE(names.insert(target.name).second) << target.name;
    EXPECT_FALSE(target.subject.empty()) << target.name;
    EXPECT_GT(target.weight, 0) << target.name;
    EXPECT_FALSE(read_corpus(corpus / target.name).empty()) << target.name;
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(corpus))
    if (entry.is_regular_file()) bytes += entry.file_size();
  EXPECT_LT(bytes, 200'000u) << "inputs that reach nothing new belong elsewhere";
}

/// Those that this build leaves out as well.
std::set<std::string> names_in_list() {
  return {
#define MEGACPP_FUZZ_TARGET(name) #name,
#define MEGACPP_FUZZ_PJRT_TARGET(name) #name,
#include "tests/fuzz/target_list.inc"
#undef MEGACPP_FUZZ_PJRT_TARGET
#undef MEGACPP_FUZZ_TARGET
  };
}

TEST(TargetTest, ATargetIsInThisBuildOrLeftOut) {
  std::multiset<std::string> names(left_out_targets().begin(), left_out_targets().end());
  for (const Target& target : all_targets()) names.insert(target.name);
  const std::set<std::string> list = names_in_list();
  EXPECT_EQ(names, std::multiset<std::string>(list.begin(), list.end()));
}

TEST(TargetTest, TheDocumentationHasEveryTargetAndNoOther) {
  const std::string page = "text `no`\n| target | `no` |\n| --- | --- |\n| `a`, `b` | `no` |\n\n| `no` |\n";
  EXPECT_EQ(testing_support::names_in_table(page, "target"), (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(testing_support::names_in_table(base::read_file(kRobustnessPage), "target"), names_in_list());
}

// The run scripts add their line to the end of the page.
TEST(TargetTest, TheRecordEndsItsPage) {
  const std::string page = base::read_file(kRobustnessPage);
  ASSERT_TRUE(page.ends_with(" |\n"));
  const std::string last = page.substr(page.rfind('\n', page.size() - 2) + 1);
  EXPECT_TRUE(last.starts_with("| 20")) << last;
}

}  // namespace
}  // namespace megacpp::fuzz
