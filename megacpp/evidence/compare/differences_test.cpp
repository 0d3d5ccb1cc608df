// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/differences.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/seeded_receipts.h"

namespace megacpp::compare {
namespace {

using receipt::Receipt;
using testing_support::seeded_receipt;

/// What two runs differ in where the second has these keys and this header.
Differences differences_with(const std::vector<std::string>& keys, const std::function<void(Receipt&)>& change) {
  Receipt other = seeded_receipt({.name = "b", .overrides = keys});
  change(other);
  return differences_of(seeded_receipt({.name = "a"}), other);
}

/// The axis that the field follows from; empty where it is an axis itself.
std::string followed(const Differences& differences, const std::string& field) {
  for (const FieldChange& change : differences.fields)
    if (change.name == field) return change.follows_from;
  ADD_FAILURE() << field << " does not differ";
  return "";
}

TEST(DifferencesTest, AFieldFollowsFromAKeyThatFeedsIt) {
  struct Case {
    const char *key, *field;
    std::function<void(Receipt&)> change;
  };
  const std::vector<Case> cases = {
      {"data.text=[a.txt]", "batch.data", [](Receipt& r) { r.header.batch.data = "a.txt"; }},
      {"layout.tensor_parallel=2", "hardware.chips", [](Receipt& r) { r.header.hardware.chips = 2; }},
      {"hardware.target=v6e:4", "hardware.chip", [](Receipt& r) { r.header.hardware.chip = "v6e"; }},
      {"train.threads=3", "hardware.threads", [](Receipt& r) { r.header.hardware.threads = 3; }},
      {"backend=xla", "hardware.processor", [](Receipt& r) { r.header.hardware.processor.clear(); }},
      {"lora.rank=2", "model.parameters", [](Receipt& r) { r.header.model.parameters = 12; }},
      {"xla.placement=xla", "program.lane", [](Receipt& r) { r.header.program.lane = "xla placement=xla"; }},
      {"layout.zero=0", "program.path", [](Receipt& r) { r.header.program.path = "another"; }},
      {"train.batch=4", "program.recompute", [](Receipt& r) { r.header.program.recompute = "A=auto:full"; }},
      {"optimizer.name=sgd", "program.optimizer", [](Receipt&) {}},
      {"layout.prefetch=3", "program.overlap", [](Receipt&) {}},
      {"layout.bucket_bytes=1000", "program.buckets", [](Receipt&) {}},
      {"optimizer.name=sgd", "program.features", [](Receipt& r) { r.header.program.features = "sgd"; }},
      {"xla.flags=[a=b]", "program.flags", [](Receipt& r) { r.header.program.flags = {"a=b"}; }},
      {"xla.plugin=tpu", "versions.platform", [](Receipt& r) { r.header.versions.platform = "libtpu"; }},
  };
  for (const Case& each : cases) {
    const std::string key = each.key, name = key.substr(0, key.find('='));
    EXPECT_EQ(followed(differences_with({key}, each.change), each.field), name) << key;
  }
}

TEST(DifferencesTest, AFieldThatNoChangedKeyFeedsIsAnAxis) {
  const std::vector<std::function<void(Receipt&)>> changes = {
      [](Receipt& r) { r.header.hardware.processor = "another"; },
      [](Receipt& r) { r.header.versions.code = "0.2.0+2"; },
      [](Receipt& r) { r.header.program.without = {"fuse"}; },
      [](Receipt& r) { r.header.program.watched = {"profile"}; },
  };
  for (const auto& change : changes) {
    const Differences differences = differences_with({"train.batch=4"}, change);
    ASSERT_EQ(differences.axes.size(), 2U);
    EXPECT_EQ(differences.axes[0].name, "train.batch") << "keys first";
    EXPECT_TRUE(differences.is_confounded());
  }
}

TEST(DifferencesTest, OneProcessorIsNoneOfAnotherWhateverTheBackendIs) {
  const Differences differences =
      differences_with({"backend=xla"}, [](Receipt& r) { r.header.hardware.processor = "another"; });
  EXPECT_EQ(followed(differences, "hardware.processor"), "");
}

TEST(DifferencesTest, ANameIsALabel) {
  const Differences differences = differences_with({}, [](Receipt& r) { r.header.model.name = "other"; });
  ASSERT_EQ(differences.fields.size(), 1U);
  EXPECT_TRUE(differences.axes.empty());
  EXPECT_FALSE(differences.is_confounded());
}

// Its keys are not known, and what the headers have is compared all the same.
TEST(DifferencesTest, ARecipeThatCannotBeReadIsLeftToTheHeader) {
  for (const char* recipe : {"", "no_such_key: 1\n", "{"}) {
    const Differences differences = differences_with({"train.batch=4"}, [&](Receipt& r) { r.recipe = recipe; });
    ASSERT_FALSE(differences.axes.empty()) << recipe;
    for (const Change& axis : differences.axes) EXPECT_TRUE(axis.name.starts_with("batch.")) << axis.name;
    EXPECT_TRUE(differences.unmeasured.empty());
  }
}

TEST(DifferencesTest, FamiliesThatDifferConfoundWhateverElseIsAlike) {
  const Differences differences = differences_with({}, [](Receipt& r) { r.header.model.family = "sparse"; });
  EXPECT_TRUE(differences.has_other_family);
  EXPECT_TRUE(differences.is_confounded());
}

TEST(DifferencesTest, FactsCountWhereBothRunsHaveNotedThem) {
  Receipt before = seeded_receipt({.name = "a"}), after = seeded_receipt({.name = "b"});
  before.lineage.items = {{.name = "kernel", .live = "6.1"}, {.name = "sqlite", .live = "3.40"}};
  after.lineage.items = {{.name = "kernel", .live = "6.8"}, {.name = "openblas", .live = "0.3"}};
  const Differences differences = differences_of(before, after);
  ASSERT_EQ(differences.axes.size(), 1U);
  EXPECT_EQ(differences.axes[0], (Change{"lineage.kernel", "6.1", "6.8"}));
  for (const char* known : {"megacpp", "processor", "plugin.cpu", "gpu.driver"}) {
    before.lineage.items = {{.name = known, .live = "1"}};
    after.lineage.items = {{.name = known, .live = "2"}};
    EXPECT_TRUE(differences_of(before, after).axes.empty()) << known << " stands in the header";
  }
}

TEST(DifferencesTest, AChangeReadsFromTheBaselineToTheOther) {
  EXPECT_EQ(to_text({"layout.zero", "1", "2"}), "layout.zero: 1 -> 2");
  EXPECT_EQ(to_text({"hardware.processor", "", "x"}), "hardware.processor: (none) -> x");
  EXPECT_EQ(to_text({"hardware.processor", "x", ""}), "hardware.processor: x -> (none)");
}

}  // namespace
}  // namespace megacpp::compare
