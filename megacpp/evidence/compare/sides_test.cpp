// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/sides.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/file.h"
#include "megacpp/evidence/compare/launches.h"
#include "megacpp/evidence/receipt/store.h"
#include "tests/support/seeded_receipts.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::compare {
namespace {

using testing_support::seeded_receipt;

base::Code refusal_of(const std::vector<receipt::Receipt>& receipts) {
  try {
    sides_of(receipts);
  } catch (const base::Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "not refused";
  return base::Code::E9001;
}

TEST(SidesTest, RunsThatDifferInNothingAreRepeats) {
  const std::vector<std::string> two = {"layout.tensor_parallel=2"};
  const Sides sides = sides_of({seeded_receipt({.name = "a1"}), seeded_receipt({.name = "b1", .overrides = two}),
                                seeded_receipt({.name = "a2"}), seeded_receipt({.name = "b2", .overrides = two})});
  ASSERT_EQ(sides.baseline.size(), 2U);
  ASSERT_EQ(sides.other.size(), 2U);
  EXPECT_EQ(sides.baseline[1].run, "a2");
  EXPECT_EQ(sides.other[1].run, "b2");
}

TEST(SidesTest, TwoRunsAreTheSidesEvenIfTheyAreAlike) {
  const Sides sides = sides_of({seeded_receipt({.name = "a"}), seeded_receipt({.name = "b"})});
  EXPECT_EQ(sides.baseline[0].run, "a");
  EXPECT_EQ(sides.other[0].run, "b");
}

TEST(SidesTest, ARunThatIsNamedTwiceIsNoRepeatOfItself) {
  const testing_support::TemporaryFolder folder;
  for (const char* name : {"a", "b"}) {
    const receipt::Receipt receipt = seeded_receipt({.name = name});
    base::make_folder(folder / name);
    base::write_file_atomically(folder / name / "recipe.yaml", receipt.recipe);
    receipt::write_receipt(receipt, folder / name);
  }
  const std::string a = (folder / "a").string(), b = (folder / "b").string(), all = folder.path().string();
  EXPECT_EQ(read_receipts({a, a, b, b}).receipts.size(), 2U);
  EXPECT_EQ(read_receipts({all, a}).receipts.size(), 2U);
  EXPECT_EQ(read_receipts({a, a}).receipts.size(), 2U) << "of which nothing should be found";
}

TEST(SidesTest, OtherNumbersOfKindsAreRefused) {
  EXPECT_EQ(refusal_of({seeded_receipt({.name = "a"})}), base::Code::E1007);
  EXPECT_EQ(refusal_of({seeded_receipt({.name = "a"}), seeded_receipt({.name = "b"}), seeded_receipt({.name = "c"})}),
            base::Code::E1007);
  EXPECT_EQ(refusal_of({seeded_receipt({.name = "a"}), seeded_receipt({.name = "b", .overrides = {"train.batch=4"}}),
                        seeded_receipt({.name = "c", .overrides = {"train.batch=2"}})}),
            base::Code::E4001);
}

TEST(SidesTest, WhatCannotBeReadIsNamedAndLeftOut) {
  const testing_support::TemporaryFolder folder;
  for (const char* name : {"good", "cut"}) {
    const receipt::Receipt receipt = seeded_receipt({.name = name});
    base::make_folder(folder / name);
    base::write_file_atomically(folder / name / "recipe.yaml", receipt.recipe);
    receipt::write_receipt(receipt, folder / name);
  }
  const std::filesystem::path cut = folder / "cut" / receipt::kReceiptFile;
  base::write_file_atomically(cut, base::read_file(cut).substr(0, 300));
  const ReadReceipts read = read_receipts({folder.path().string(), (folder / "missing").string()});
  ASSERT_EQ(read.receipts.size(), 1U);
  EXPECT_EQ(read.receipts[0].run, "good");
  ASSERT_EQ(read.skipped.size(), 2U);
  EXPECT_EQ(read.skipped[0].path, folder / "cut");
  EXPECT_EQ(read.skipped[1].path, folder / "missing");
}

TEST(SidesTest, LaunchesThatNeverRanAreTakenWhereTheyAreWanted) {
  const testing_support::TemporaryFolder folder;
  base::make_folder(folder / "too_large");
  receipt::write_receipt(seeded_receipt({.name = "too_large"}), folder / "too_large");
  const std::string all = folder.path().string(), one = (folder / "too_large").string();
  EXPECT_EQ(read_receipts({all}).skipped.size(), 1U) << "no run in it";
  EXPECT_EQ(read_launches({all}).receipts.size(), 1U);
  EXPECT_EQ(read_launches({all, one}).receipts.size(), 1U) << "each counts once";
  EXPECT_EQ(read_launches({one}).receipts.size(), 1U);
  EXPECT_EQ(read_launches({(folder / "none").string()}).skipped.size(), 1U);
}

}  // namespace
}  // namespace megacpp::compare
