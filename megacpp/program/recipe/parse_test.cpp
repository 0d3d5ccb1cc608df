// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/parse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/mamba.h"
#include "tests/support/errors.h"

namespace megacpp::recipe {
namespace {

constexpr const char* kSmall = R"(name: small
model:
  pattern: AE
  depth: 4
  hidden: 32
  vocab: 256
  attention:
    heads: 4
    kv_heads: 2
    head_dim: 8
  feed_forward:
    intermediate: 64
train:
  batch: 2
  sequence: 16
  steps: 10
)";

base::Error parse_error(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return testing_support::error_of([&] { parse(yaml, "r.yaml", overrides); });
}

std::string with(std::string old_text, const std::string& new_text) {
  std::string yaml = kSmall;
  return yaml.replace(yaml.find(old_text), old_text.size(), new_text);
}

TEST(ParseTest, ValuesAreReadAndDefaultsFilled) {
  const Recipe recipe = parse(kSmall, "r.yaml");
  EXPECT_EQ(recipe.name, "small");
  EXPECT_EQ(recipe.model.name, "small");
  EXPECT_EQ(recipe.model.config<blocks::Attention>().kv_heads, 2);
  EXPECT_EQ(recipe.model.config<blocks::Attention>().rope_theta, 10000);
  EXPECT_EQ(recipe.optimizer.schedule, "cosine");
  EXPECT_TRUE(recipe.data.text.empty());
  EXPECT_TRUE(std::isinf(recipe.model.config<blocks::Mamba>().dt_limit_high));
}

TEST(ParseTest, PrintedRecipeParsesToAnEqualOne) {
  const std::vector<std::string> overrides = {"model.pattern=AE|M",
                                              "model.mamba.heads=4",
                                              "model.recurrent.width=64",
                                              "optimizer.lr=0.00012345678901234567",
                                              "train.recompute.A=full",
                                              "data.text=[a b.txt, /c/*.h, \"#x\"]",
                                              "name=with: colon",
                                              "model.tie_embeddings=true",
                                              "layout.data_parallel=4",
                                              "layout.reshard_after_forward=2",
                                              "backend=xla",
                                              "xla.plugin=/opt/libtpu.so",
                                              "xla.placement=xla",
                                              "xla.flags=[v6e-dense, xla_a=1, raw:b=c]"};
  const Recipe recipe = parse(kSmall, "r.yaml", overrides);
  EXPECT_EQ(recipe.data.text, (std::vector<std::string>{"a b.txt", "/c/*.h", "#x"}));
  EXPECT_EQ(recipe.xla.flags, (std::vector<std::string>{"v6e-dense", "xla_a=1", "raw:b=c"}));
  const std::string text = print(recipe);
  EXPECT_EQ(parse(text, "printed"), recipe) << text;
  EXPECT_EQ(print(parse(text, "printed")), text);
}

TEST(ParseTest, SectionsOfUnusedFamiliesAreNotPrinted) {
  const std::string text = print(parse(kSmall, "r.yaml"));
  EXPECT_EQ(text.find("mamba:"), std::string::npos);
  EXPECT_NE(text.find("  attention:\n    heads: 4\n"), std::string::npos);
  EXPECT_NE(text.find("train:\n  batch: 2\n"), std::string::npos);
  EXPECT_NE(text.find("  recompute:\n    A: auto\n"), std::string::npos);
}

TEST(ParseTest, UnknownKeyIsRefusedWithLineAndNearestName) {
  const base::Error error = parse_error(with("hidden: 32", "hiden: 32"));
  EXPECT_EQ(error.code(), base::Code::E1001);
  EXPECT_EQ(error.problem().where, "r.yaml:5");
  EXPECT_EQ(error.problem().got, "'model.hiden'");
  EXPECT_EQ(error.problem().next, "did you mean 'model.hidden'?");
}

TEST(ParseTest, WrongKindsAreRefusedWithLineAndWantedKind) {
  const base::Error error = parse_error(with("hidden: 32", "hidden: wide"));
  EXPECT_EQ(error.code(), base::Code::E1002);
  EXPECT_EQ(error.problem().where, "r.yaml:5 model.hidden");
  EXPECT_EQ(error.problem().got, "'wide'");
  EXPECT_EQ(error.problem().wanted, "an integer");
  for (const char* hidden : {"1.5", "[1]", "{a: 1}", "", "1e3", "true"}) {
    EXPECT_EQ(parse_error(with("hidden: 32", std::string("hidden: ") + hidden)).code(), base::Code::E1002) << hidden;
  }
  EXPECT_EQ(parse_error(with("hidden: 32", "hidden: 32\n  tie_embeddings: maybe")).problem().wanted, "true or false");
  EXPECT_EQ(parse_error(with("hidden: 32", "hidden: 32\n  norm_eps: nan")).code(), base::Code::E1002);
  EXPECT_EQ(parse_error(with("train:\n  batch: 2\n  sequence: 16\n  steps: 10\n", "train: 5\n")).code(),
            base::Code::E1002);
  EXPECT_EQ(parse_error(std::string(kSmall) + "data:\n  text: [[a]]\n").code(), base::Code::E1002);
}

TEST(ParseTest, IntegersBeyondSixtyFourBitsAreOutOfRange) {
  const base::Error high = parse_error(kSmall, {"layout.data_parallel=99999999999999999999"});
  EXPECT_EQ(high.code(), base::Code::E1003);
  EXPECT_EQ(high.problem().where, "--set layout.data_parallel");
  EXPECT_EQ(high.problem().got, "99999999999999999999");
  EXPECT_EQ(high.problem().next, "set layout.data_parallel: 65536");
  EXPECT_EQ(parse_error(kSmall, {"layout.zero=-99999999999999999999"}).problem().next, "set layout.zero: -1");
  const base::Error seed = parse_error(kSmall, {"train.seed=99999999999999999999"});
  EXPECT_EQ(seed.code(), base::Code::E1003);
  EXPECT_EQ(seed.problem().wanted, "at least 0, in 64 bits");
  EXPECT_EQ(parse_error(kSmall, {"layout.zero=99999999999999999999x"}).code(), base::Code::E1002);
}

TEST(ParseTest, WordsThatAModeDoesNotHaveAreRefusedWithItsWordsAndTheNearest) {
  struct Row {
    std::string key, word, wanted, next;  // the beginning of next
  };
  for (const Row& row :
       {Row{"layout.policy", "fsd", "spmd, fsdp or megatron", "did you mean 'fsdp'?"},
        Row{"layout.dispatcher", "al2all", "alltoall or allgather", "did you mean 'alltoall'?"},
        Row{"layout.collectives", "fasst", "exact or fast", "did you mean 'fast'?"},
        Row{"layout.offload", "optimiser", "none, optimizer, activations or all", "did you mean 'optimizer'?"},
        Row{"layout.schedule", "1f2b", "gpipe, 1f1b, interleaved or zero_bubble", "did you mean '1f1b'?"},
        Row{"layout.reshard_after_forward", "treu", "true, false or an integer", "did you mean 'true'?"},
        Row{"layout.reshard_after_forward", "2.5", "true, false or an integer", "layout.reshard_after_forward: "},
        Row{"train.precision", "f16", "f32 or bf16", "did you mean 'bf16'?"},
        Row{"train.recompute.M", "fulll", "auto, none, selective or full", "did you mean 'full'?"},
        Row{"xla.loops", "maybe", "auto, on or off", "xla.loops: "},
        Row{"optimizer.muon.scale", "orginal", "match_rms_adamw or original", "did you mean 'original'?"},
        Row{"model.feed_forward.activation", "swigl", "swiglu, relu2, geglu, gelu or clamped_swiglu",
            "did you mean 'swiglu'?"}}) {
    const base::Error error = parse_error(kSmall, {row.key + "=" + row.word});
    EXPECT_EQ(error.code(), base::Code::E1003) << row.key;
    EXPECT_EQ(error.problem().where, "--set " + row.key);
    EXPECT_NE(error.problem().got.find(row.word), std::string::npos) << error.problem().got;
    EXPECT_TRUE(error.problem().wanted.starts_with(row.wanted)) << error.problem().wanted;
    EXPECT_TRUE(error.problem().next.starts_with(row.next)) << error.problem().next;
  }
  EXPECT_EQ(parse_error(with("  steps", "  precision: f16\n  steps")).problem().where, "r.yaml:16 train.precision");
  EXPECT_EQ(parse_error(kSmall, {"layout.policy="}).code(), base::Code::E1002);
}

TEST(ParseTest, AnOverrideMendsAWordOfTheText) {
  const std::string misspelled = with("train:", "layout: {policy: fsd}\ntrain:");
  EXPECT_EQ(parse_error(misspelled).problem().where, "r.yaml:13 layout.policy");
  EXPECT_EQ(parse(misspelled, "r.yaml", std::vector<std::string>{"layout.policy=fsdp"}).layout.policy, Policy::fsdp);
}

TEST(ParseTest, ACacheIsTheUsersNoneOrAFolder) {
  using In = ProgramCacheFolder::In;
  const auto cache = [](const std::string& value) {
    return parse(kSmall, "r.yaml", std::vector<std::string>{"xla.cache=" + value}).xla.cache;
  };
  EXPECT_EQ(cache("auto"), (ProgramCacheFolder{.in = In::users_cache}));
  EXPECT_EQ(cache("off"), (ProgramCacheFolder{.in = In::nowhere}));
  EXPECT_EQ(cache("/tmp/programs"), (ProgramCacheFolder{.in = In::folder, .folder = "/tmp/programs"}));
  for (const char* value : {"auto", "off", "/tmp/programs"}) EXPECT_EQ(text_of(cache(value)), value);
}

TEST(ParseTest, TextThatIsNoMappingIsRefused) {
  EXPECT_EQ(parse_error("").code(), base::Code::E1004);
  EXPECT_EQ(parse_error("- a\n- b\n").code(), base::Code::E1004);
  const base::Error error = parse_error("name: x\nmodel: [1, 2\n");
  EXPECT_EQ(error.code(), base::Code::E1004);
  EXPECT_EQ(error.problem().where.rfind("r.yaml:", 0), 0u);
  EXPECT_EQ(parse_error(with("hidden: 32", "hidden: 32\n  hidden: 64")).code(), base::Code::E1004);
}

TEST(ParseTest, OverridesAloneCheckKeysKindsAndRangesOnly) {
  Recipe recipe;
  apply_overrides(recipe, std::vector<std::string>{"layout.tensor_parallel=2", "layout.reshard_after_forward=false"});
  EXPECT_EQ(recipe.layout.tensor_parallel, 2);
  EXPECT_EQ(text_of(recipe.layout.reshard_after_forward), "false");
  const auto code_of = [&recipe](const char* assignment) {
    return testing_support::error_of([&] { apply_overrides(recipe, std::vector<std::string>{assignment}); }).code();
  };
  EXPECT_EQ(code_of("layout.tensor"), base::Code::E1007);
  EXPECT_EQ(code_of("layout.tensor=2"), base::Code::E1001);
  EXPECT_EQ(code_of("layout.tensor_parallel=two"), base::Code::E1002);
  EXPECT_EQ(code_of("layout.zero=4"), base::Code::E1003);
}

std::vector<Setting> model_settings(const Recipe& recipe) {
  std::vector<Setting> settings = settings_of(recipe);
  std::erase_if(settings,
                [](const Setting& one) { return !one.key.starts_with("model.") && !one.key.starts_with("lora."); });
  return settings;
}

TEST(ParseTest, AModelIsReadFromItsKeysAlone) {
  const Recipe recipe = parse(kSmall, "r.yaml",
                              std::vector<std::string>{"model.pattern=A|D", "model.letters.D.family=E",
                                                       "model.letters.D.feed_forward.intermediate=48", "lora.rank=2",
                                                       "lora.targets=[block*.A.w*, \"*.w_up\"]"});
  std::vector<Setting> settings = model_settings(recipe);
  std::ranges::sort(settings, {}, &Setting::key);  // as a manifest has them
  Model model = parse_model(settings, "manifest.json");
  model.name = recipe.model.name;
  EXPECT_EQ(model, recipe.model);
  settings.push_back({"model.zzz", "1"});
  EXPECT_EQ(testing_support::error_of([&] { parse_model(settings, "manifest.json"); }).code(), base::Code::E1001);
  EXPECT_EQ(
      testing_support::error_of([] {
        parse_model(std::vector<Setting>{{"model.pattern", "A"}, {"model.depth", "99999999999"}}, "manifest.json");
      }).code(),
      base::Code::E1003);
}

TEST(ParseTest, OverridesWinAndAreCheckedLikeTheText) {
  EXPECT_EQ(parse(kSmall, "r.yaml", std::vector<std::string>{"train.steps=3", "train.steps=4"}).train.steps, 4);
  const base::Error unknown = parse_error(kSmall, {"train.stepz=3"});
  EXPECT_EQ(unknown.code(), base::Code::E1001);
  EXPECT_EQ(unknown.problem().where, "--set train.stepz=3");
  EXPECT_EQ(unknown.problem().next, "did you mean 'train.steps'?");
  EXPECT_EQ(parse_error(kSmall, {"train.steps=many"}).code(), base::Code::E1002);
  EXPECT_EQ(parse_error(kSmall, {"train.steps=0"}).problem().where, "--set train.steps");
  EXPECT_EQ(parse_error(kSmall, {"train.steps"}).code(), base::Code::E1007);
  EXPECT_EQ(parse_error(kSmall, {"train=3"}).code(), base::Code::E1002);
}

TEST(ParseTest, ASingleTextServesAsAList) {
  EXPECT_EQ(parse(std::string(kSmall) + "data:\n  text: a.txt\n", "r.yaml").data.text,
            std::vector<std::string>{"a.txt"});
}

TEST(ParseTest, EmptySectionsAreAllowed) {
  EXPECT_EQ(parse(std::string(kSmall) + "data:\n", "r.yaml"), parse(kSmall, "r.yaml"));
}

}  // namespace
}  // namespace megacpp::recipe
