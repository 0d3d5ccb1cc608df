// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/catalog/signature.h"

#include <gtest/gtest.h>

#include <set>

namespace megacpp::catalog {
namespace {

const Signature kTiny = {.build = {.code_version = "0.1.0"},
                         .hardware = "cpu 8 chips limit 512MiB",
                         .model = "nam56r-tiny",
                         .model_hash = "00ff",
                         .layout = "data=2 expert=2 model=2",
                         .features = "z_loss",
                         .shape = "batch=8 sequence=64"};

// Files outlive programs: a key that changed would make every catalog forget everything.
TEST(SignatureTest, KeysNeverChange) {
  EXPECT_EQ(canonical_text(kTiny),
            "code_version: \"0.1.0\"\nhardware: \"cpu 8 chips limit 512MiB\"\nmodel: \"nam56r-tiny\"\n"
            "model_hash: \"00ff\"\nlayout: \"data=2 expert=2 model=2\"\nfeatures: \"z_loss\"\n"
            "shape: \"batch=8 sequence=64\"\n");
  EXPECT_EQ(key_text(kTiny), "d2f5931e1a955936");
  EXPECT_EQ(subject_text(kTiny), "35089aea5b8c6ad1");
}

TEST(SignatureTest, EveryFieldDecidesTheKeyAndAllButTheBuildTheSubject) {
  std::string Signature::*const fields[] = {&Signature::hardware, &Signature::model,    &Signature::model_hash,
                                            &Signature::layout,   &Signature::features, &Signature::shape};
  std::set<std::string> keys = {key_text(kTiny)}, subjects = {subject_text(kTiny)};
  for (std::string Build::*const field : {&Build::code_version, &Build::platform}) {
    Signature other = kTiny;
    other.build.*field += "x";
    keys.insert(key_text(other));
    EXPECT_EQ(subject_text(other), subject_text(kTiny));
  }
  Signature machine = kTiny;
  machine.build.threads = 2;
  keys.insert(key_text(machine));
  machine.build.threads = 0;
  machine.build.processor = "x";
  keys.insert(key_text(machine));
  EXPECT_EQ(subject_text(machine), subject_text(kTiny));
  for (const auto field : fields) {
    Signature other = kTiny;
    other.*field += "x";
    keys.insert(key_text(other));
    subjects.insert(subject_text(other));
  }
  EXPECT_EQ(keys.size(), 11U);
  EXPECT_EQ(subjects.size(), 7U);
}

TEST(SignatureTest, ABuildNamesWhatItRunsOn) {
  EXPECT_EQ(to_text(Build{.code_version = "0.1.0+aa"}), "0.1.0+aa");
  EXPECT_EQ(to_text(Build{"0.1.0+aa", "plugin cpu 0.6.1", 4, "EPYC"}),
            "0.1.0+aa, plugin cpu 0.6.1, 4 threads a chip of EPYC");
  EXPECT_EQ(to_text(Build{.code_version = "0.1.0+aa", .threads = 1}), "0.1.0+aa, 1 thread a chip");
}

TEST(SignatureTest, TextCannotSlipFromOneFieldIntoTheNext) {
  Signature one, other;
  one.hardware = "a\"\nmodel: \"b";
  other.hardware = "a";
  other.model = "b";
  EXPECT_NE(canonical_text(one), canonical_text(other));
}

}  // namespace
}  // namespace megacpp::catalog
