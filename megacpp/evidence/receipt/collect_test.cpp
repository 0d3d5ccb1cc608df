// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/collect.h"

#include <gtest/gtest.h>

#include "megacpp/evidence/receipt/store.h"
#include "megacpp/evidence/receipt/text.h"
#include "tests/support/clean_receipt.h"
#include "tests/support/text.h"

namespace megacpp::receipt {
namespace {

using testing_support::has;

TEST(LineageRecordTest, WhatALaunchAsksForIsOkDriftedOrMissing) {
  const lineage::Lineage found{.lock_file = "recipes/megacpp.lock",
                               .documented = {{"sqlite", "3.39.0"},
                                              {"cores", "8"},
                                              {"plugin.cpu", "xla-cpu-pjrt 0.10"},
                                              {"plugin.cuda", lineage::kNone},
                                              {"collective", "1.2 GB/s"}},
                               .live = {{"sqlite", "3.40.1"},
                                        {"cores", "8"},
                                        {"plugin.cpu", lineage::kNone},
                                        {"plugin.cuda", lineage::kNone},
                                        {"kernel", "6.1"}},
                               .drifts = {{"sqlite", "3.39.0", "3.40.1", "bring it back"},
                                          {"plugin.cpu", "xla-cpu-pjrt 0.10", lineage::kNone, "fetch it"}}};
  const Lineage record = lineage_record(found);
  EXPECT_EQ(record.lock_file, found.lock_file);
  ASSERT_EQ(record.items.size(), 5U) << "one for each that was asked for";
  EXPECT_EQ(record.items[0].state, "drift");
  EXPECT_EQ(record.items[0].documented, "3.39.0");
  EXPECT_EQ(record.items[0].live, "3.40.1");
  EXPECT_EQ(record.items[1].state, "ok");
  EXPECT_EQ(record.items[2].state, "missing");
  EXPECT_EQ(record.items[2].live, "");
  EXPECT_EQ(record.items[3].state, "ok") << "it is not here, as documented";
  EXPECT_EQ(record.items[4].state, "ok") << "nothing is documented of it";
  EXPECT_EQ(record.items[4].documented, "");
}

TEST(LineageRecordTest, PeopleReadWhatDriftedAndWhyNothingWasCompared) {
  Receipt receipt = testing_support::clean_receipt();
  EXPECT_TRUE(has(report_text(receipt), "there is no lock file"));
  receipt.lineage = {.lock_file = "megacpp.lock",
                     .items = {{.name = "sqlite", .documented = "3.39.0", .live = "3.40.1", .state = "drift"}}};
  EXPECT_TRUE(has(report_text(receipt), "drift sqlite: documented 3.39.0, found 3.40.1")) << report_text(receipt);
  receipt.lineage = {.lock_file = "megacpp.lock", .unread = "E1901 lock file is damaged or edited: no JSON"};
  EXPECT_TRUE(has(report_text(receipt), "not compared: E1901")) << report_text(receipt);
  EXPECT_EQ(receipt_from(to_text(receipt), "test").lineage.unread, receipt.lineage.unread);
}

TEST(LineageRecordTest, WithoutALockFileNothingIsDocumented) {
  EXPECT_EQ(lineage_record({}).lock_file, "");
  EXPECT_TRUE(lineage_record({}).items.empty());
}

}  // namespace
}  // namespace megacpp::receipt
