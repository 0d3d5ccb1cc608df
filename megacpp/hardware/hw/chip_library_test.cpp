// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/hw/chip_library.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "megacpp/core/base/file.h"
#include "megacpp/hardware/hw/slice.h"
#include "tests/support/environment.h"
#include "tests/support/errors.h"

namespace megacpp::hw {
namespace {

namespace fs = std::filesystem;
using base::Code;
using testing_support::problem_of;
using testing_support::Variable;

class ChipLibraryTest : public testing::Test {
 protected:
  ChipLibraryTest()
      : folder_(fs::temp_directory_path() / ("megacpp_hw_" + std::to_string(getpid()) + "_" +
                                             testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(folder_);
  }
  ~ChipLibraryTest() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    base::write_file_atomically(folder_ / name, text);
    return (folder_ / name).string();
  }
  ChipPlaces places() const { return {{folder_}}; }

  /// What is said of a file with this text, which has to be refused.
  base::Problem refused(const std::string& text) {
    const std::string file = write("bad.yaml", text);
    return problem_of(Code::E1603, [&] { find_chip(file, {}); });
  }

  fs::path folder_;
};

constexpr const char* kMine = R"(title: A chip of mine
kind: gpu
memory: {nominal: 16GiB, usable: 15GiB, alignment: 512, bandwidth: 500e9}
compute: {bf16: 50e12}
links:
  - {name: pcie, scope: node, bytes_per_second: 16e9, latency: 5e-6}
slices: {shape: nodes, host: 4}
)";

TEST_F(ChipLibraryTest, AFileIsNamedInTheTarget) {
  const std::string file = write("my-chip.yaml", kMine);
  const Slice slice = parse_target(file + ":8", {.places = {}});
  EXPECT_EQ(slice.chip.name, "my-chip");
  EXPECT_EQ(slice.chip.origin, file);
  EXPECT_EQ(slice.chip.usable_bytes, int64_t{15} << 30);
  EXPECT_EQ(slice.name, file + ":8");
  EXPECT_EQ(slice.sizes, (Sizes{4, 2}));
  EXPECT_EQ(slice.chip.facts[0].source, file);
  problem_of(Code::E1008, [] { parse_target("no-such.yaml:8"); });
}

TEST_F(ChipLibraryTest, AFileInAFolderIsAChipOfItsName) {
  write("my-chip.yaml", kMine);
  EXPECT_EQ(parse_target("my-chip:4", {.places = places()}).chip.title, "A chip of mine");
  EXPECT_EQ(all_chips(places()).size(), all_chips(ChipPlaces{}).size() + 1);
  EXPECT_EQ(problem_of(Code::E1601, [&] { find_chip("my-chp", places()); }).next, "did you mean 'my-chip'?");
}

TEST_F(ChipLibraryTest, FoldersComeFromTheEnvironment) {
  const Variable path("MEGACPP_HW_PATH", "/one:" + folder_.string()), home("HOME", "/home/me"),
      config("XDG_CONFIG_HOME", "");
  const std::vector<fs::path> folders = ChipPlaces::current().folders;
  EXPECT_EQ(folders, (std::vector<fs::path>{"/one", folder_, "/home/me/.config/megacpp/hw"}));
  const Variable elsewhere("XDG_CONFIG_HOME", "/etc/me");
  EXPECT_EQ(ChipPlaces::current().folders.back(), "/etc/me/megacpp/hw");
  write("my-chip.yml", kMine);
  EXPECT_EQ(parse_target("my-chip:4").chips(), 4);
}

TEST_F(ChipLibraryTest, AFileExtendsAChipAndSaysWhatDiffers) {
  write("slow-v6e.yaml", R"(extends: v6e
sources:
  log: {text: our own log, date: 2026-10-01}
memory:
  usable: {value: 30GiB, source: log}
links:
  - {name: ici, bytes_per_second: 200e9}
  - {name: ethernet, scope: cluster, bytes_per_second: 1e9}
)");
  const Chip chip = find_chip("slow-v6e", places()), v6e = find_chip("v6e", {});
  EXPECT_EQ(chip.usable_bytes, int64_t{30} << 30);
  EXPECT_EQ(chip.nominal_bytes, v6e.nominal_bytes);
  EXPECT_EQ(chip.link("ici")->bytes_per_second, 200e9);
  EXPECT_EQ(chip.link("ici")->ports, 4);
  EXPECT_EQ(chip.link("ethernet")->ports, 1);
  EXPECT_EQ(chip.plugin_name, "v6e");
  EXPECT_EQ(chip.slices.valid, v6e.slices.valid);
  std::map<std::string, std::string> sources;
  for (const Fact& fact : chip.facts) sources[fact.name] = fact.source + " " + fact.date;
  EXPECT_EQ(sources["memory.usable"], "our own log 2026-10-01");
  EXPECT_NE(sources["memory.nominal"].find("docs.cloud.google.com"), std::string::npos);
}

TEST_F(ChipLibraryTest, AFileMayStandBeforeABuiltInChipAndExtendIt) {
  write("v6e.yaml", "extends: v6e\nmemory: {usable: 20GiB}\n");
  EXPECT_EQ(find_chip("v6e", places()).usable_bytes, int64_t{20} << 30);
  EXPECT_EQ(find_chip("v6e", {}).usable_bytes, 33'546'039'296);
  EXPECT_EQ(all_chips(places()).size(), all_chips(ChipPlaces{}).size());
}

TEST_F(ChipLibraryTest, ChipsThatExtendEachOtherAreRefused) {
  write("one.yaml", "extends: two\n");
  write("two.yaml", "extends: one\n");
  const base::Problem problem = problem_of(Code::E1603, [&] { find_chip("one", places()); });
  EXPECT_NE(problem.where.find("two.yaml:1"), std::string::npos) << problem.where;
  const base::Problem lost = problem_of(Code::E1601, [&] { find_chip(write("x.yaml", "extends: v6\n"), {}); });
  EXPECT_NE(lost.where.find("x.yaml:1"), std::string::npos) << lost.where;
  EXPECT_EQ(lost.next, "did you mean 'v6e'?");
}

TEST_F(ChipLibraryTest, ABrokenFileHurtsOnlyItsOwnChip) {
  write("broken.yaml", "kind: [\n");
  EXPECT_EQ(find_chip("v6e", places()).name, "v6e");
  problem_of(Code::E1603, [&] { find_chip("broken", places()); });
  const std::vector<ListedChip> all = all_chips(places());
  EXPECT_EQ(all.size(), all_chips(ChipPlaces{}).size() + 1);
  for (const ListedChip& listed : all) {
    ASSERT_EQ(listed.chip.has_value(), listed.name != "broken") << listed.name;
    if (listed.chip) continue;
    EXPECT_NE(listed.why_not->problem().where.find("broken.yaml:"), std::string::npos);
  }
}

TEST_F(ChipLibraryTest, AFileIsFoundByItsAliases) {
  write("my-chip.yaml", std::string(kMine) + "aliases: [mine, our-chip]\n");
  write("broken.yaml", "aliases: [\n");
  const Slice slice = parse_target("mine:8", {.places = places()});
  EXPECT_EQ(slice.chip.name, "my-chip");
  EXPECT_EQ(slice.name, "my-chip:8");
  EXPECT_EQ(problem_of(Code::E1601, [&] { find_chip("our-chp", places()); }).next, "did you mean 'our-chip'?");
  EXPECT_EQ(find_chip(write("other.yaml", "extends: mine\n"), places()).title, "A chip of mine");
  EXPECT_EQ(find_chip("trillium", places()).name, "v6e");
  write("ours.yaml", "extends: v6e\naliases: [trillium]\n");
  EXPECT_EQ(find_chip("trillium", places()).name, "ours") << "the user's own stands before the built-in one";
}

TEST_F(ChipLibraryTest, AFileIsFoundByWhatItsDevicesCallThemselves) {
  write("my-chip.yaml", std::string(kMine) + "device_names: [My Card 16GB, My Card]\n");
  write("broken.yaml", "device_names: [\n");
  EXPECT_EQ(find_chip_of_device("My Card", places())->name, "my-chip");
  EXPECT_EQ(find_chip_of_device("My Card 16GB", places())->title, "A chip of mine");
  EXPECT_FALSE(find_chip_of_device("My Card", {}).has_value());
  write("larger.yaml", "extends: my-chip\n");
  EXPECT_TRUE(find_chip("larger", places()).device_names.empty()) << "one device is not two chips";
  write("ours.yaml", "extends: h200\nmemory: {usable: 100GiB}\ndevice_names: [NVIDIA H200]\n");
  EXPECT_EQ(find_chip_of_device("NVIDIA H200", places())->name, "ours")
      << "the user's own stands before a built-in one";
}

TEST_F(ChipLibraryTest, AFileThatStandsBeforeABuiltInChipHasItsDevices) {
  write("h200.yaml", "extends: h200\nmemory: {usable: 100GiB}\n");
  EXPECT_EQ(find_chip_of_device("NVIDIA H200", places())->usable_bytes, int64_t{100} << 30);
}

TEST_F(ChipLibraryTest, AMalformedFileThatHasTheNameOfADeviceIsRefused) {
  write("my-chip.yaml", "device_names: [My Card]\n");
  const base::Problem problem = problem_of(Code::E1603, [&] { find_chip_of_device("My Card", places()); });
  EXPECT_NE(problem.where.find("my-chip.yaml:1"), std::string::npos) << problem.where;
}

TEST_F(ChipLibraryTest, MalformedFilesAreRefusedWithTheirLine) {
  struct Case {
    std::string text, line, got, next;
  };
  const std::string mine = kMine;
  const auto with = [&](const std::string& old, const std::string& replacement) {
    std::string text = mine;
    return text.replace(text.find(old), old.size(), replacement);
  };
  const std::vector<Case> cases = {
      {"kind: [", ":1", "", "indentation"},
      {"", "", "nothing", "docs/hardware.md"},
      {"- a list", ":1", "a list", "docs/hardware.md"},
      {with("memory:", "memroy:"), ":3", "'memroy'", "did you mean 'memory'?"},
      {with("usable:", "usabel:"), ":3", "'usabel'", "did you mean 'usable'?"},
      {with("15GiB", "17GiB"), ":1", "memory.usable above", "mend"},
      {with("15GiB", "15GoB"), ":3", "memory.usable: '15GoB'", "did you mean '15GiB'?"},
      {with("15GiB", "-1"), ":3", "-1", "memory.usable: What a program may use"},
      {with("15GiB", "1.5"), ":3", "1.5", "memory.usable:"},
      {with("15GiB", "1e40"), ":3", "1e40", "memory.usable:"},
      {with("15GiB", "nan"), ":3", "nan", "memory.usable:"},
      {with("15GiB", "{value: 15GiB, source: page}"), ":3", "'page'", "sources"},
      {with("15GiB", "{source: page}"), ":3", "without value", "value"},
      {with("15GiB", "{value: 15GiB, date: 2026-01-01}"), ":3", "'date'", "remove"},
      {with("16GiB", "[1]"), ":3", "a list", "memory.nominal:"},
      {with("500e9", "500GB"), ":3", "500GB", "memory.bandwidth: Bytes a second"},
      {with("500e9", "500e9, gaps_most: 1.3"), ":3", "'gaps_most' in memory", "write it as xla: {gaps_most: ...}"},
      {mine + "xla: {gaps_most: 0.9}\n", ":8", "xla.gaps_most: '0.9'", "set xla.gaps_most: 1"},
      {mine + "xla: {gaps_most: 2GB}\n", ":8", "2GB", "xla.gaps_most:"},
      {mine + "xla: {loops_gaps_most: 0.9}\n", ":8", "xla.loops_gaps_most: '0.9'", "set xla.loops_gaps_most: 1"},
      {mine + "xla: {code_least: 2e6, code_most: 1e6}\n", ":1", "xla.code_least above", "mend"},
      {mine + "xla: {off_most: 0.1}\n", ":1", "xla.off_most or xla.unrolled_off_most alone", "add the other one"},
      {with("500e9", ".inf"), ":3", "'.inf'", "memory.bandwidth:"},
      {with("500e9", "0"), ":3", "'0'", "memory.bandwidth:"},
      {with("512", "{value: 512, source: {a: b}}"), ":3", "source is a group", "colon"},
      {with("kind: gpu", "kind: [gpu]"), ":2", "kind: a list", "kind:"},
      {with("kind: gpu", "kind: {value: gpu}"), ":2", "kind: a group", "kind:"},
      {with("shape: nodes", "rings_need_all: maybe"), ":7", "slices.rings_need_all: 'maybe'", "slices.rings_need_all:"},
      {with("shape: nodes", "block: 1.5"), ":7", "slices.block: '1.5'", "slices.block:"},
      {with("shape: nodes", "valid: [2x2, big]"), ":7", "slices.valid", "numbers and x"},
      {with("latency: 5e-6", "latancy: 5e-6"), ":6", "'latancy'", "did you mean 'latency'?"},
      {mine + "device_names: NVIDIA H200\n", ":8", "device_names is 'NVIDIA H200'", "[one, two]"},
      {mine + "device_names: ['']\n", ":8", "device_names is ''", "write it"},
      {mine + "device_names: ['My Card ']\n", ":8", "device_names: a list", "call themselves"},
      {mine + "device_name: [My Card]\n", ":8", "'device_name' in the file", "did you mean 'device_names'?"},
      {mine + "tiles: {rows: {64: 8}}\n", ":8", "'64' in tiles.rows", "did you mean '8'?"},
      {mine + "source: page\n", ":8", "'source' in the file", "did you mean 'sources'?"},
      {with("bf16", "bf61"), ":4", "'bf61'", "did you mean 'bf16'?"},
      {with("kind: gpu", "kind: gpo"), ":2", "'gpo'", "did you mean 'gpu'?"},
      {with("kind: gpu\n", ""), ":1", "no kind", "extend"},
      {with("name: pcie, ", ""), ":6", "without name", "name"},
      {with("scope: node", "scope: rack"), ":6", "links.pcie.scope: 'rack'", "scope: What it reaches"},
      {with("host: 4", "host: 4x"), ":7", "'4x'", "numbers"},
      {with("host: 4", "host: 2x2"), ":1", "several dimensions", "node"},
      {with("shape: nodes", "shape: torus"), ":1", "without slices", "list"},
      {with("kind: gpu", "kind: gpu\nkind: gpu"), ":3", "again", "remove"},
      {mine + "tiles: {lanes: 128}\n", ":1", "not whole", "missing"},
      {mine + "reached: {products: 0.7}\n", ":1", "reached.products or reached.traffic alone", "add the other one"},
      {mine + "reached: {products: 1.2, traffic: 0.8}\n", ":8", "reached.products: '1.2'", "reached.products"},
      {mine + "reached: {attention: {96: 0.5}}\n", ":8", "'96' in reached.attention", ""},
      {mine + "reached: {products: 0.7, traffic: 0.8, step_most: 1.2}\n", ":1", "reached.step_least without", "mend"},
      {mine + "reached: {products: 0.7, traffic: 0.8, step_least: 1.3, step_most: 1.2}\n", ":1",
       "above reached.step_most", "mend"},
      {mine + "reached: {step_least: 0.9, step_most: 1.2}\n", ":1", "without the rates", "add them"},
      {mine + "reached: {beside_collectives: 0.9}\n", ":1", "reached.beside_collectives without the rates", "add them"},
      {mine + "reached: {cuda: {products: 0.7}}\n", ":1", "reached.cuda.products or reached.cuda.traffic alone",
       "add the other one"},
      {mine + "reached: {products: 0.7, traffic: 0.8, cuda: {ssd: 0.1}}\n", ":1", "reached.cuda without its rates",
       "add them"},
      {mine + "reached: {cudo: {products: 0.7, traffic: 0.8}}\n", ":8", "'cudo' in reached", "did you mean 'cuda'?"},
      {mine + "sources: {a: {text: b}}\n", ":8", "without date", "missing"},
      {mine + "sources: {a: {text: b, date: today}}\n", ":8", "'today'", "day"},
  };
  for (const Case& one : cases) {
    const base::Problem problem = refused(one.text);
    EXPECT_NE(problem.where.find("bad.yaml" + one.line), std::string::npos) << problem.where << "\n" << one.text;
    EXPECT_NE(problem.got.find(one.got), std::string::npos) << problem.got << "\n" << one.text;
    EXPECT_NE(problem.next.find(one.next), std::string::npos) << problem.next << "\n" << one.text;
    EXPECT_FALSE(problem.wanted.empty()) << one.text;
  }
}

TEST_F(ChipLibraryTest, WhatXlaReservesHasASectionOfItsOwn) {
  const Chip all =
      find_chip(write("all.yaml", kMine + std::string("xla: {code_least: 2e6, code_most: 3e6, gaps_least: 0.8, "
                                                      "gaps_most: 1.3, loops_gaps_most: 1.6, off_most: 0.2, "
                                                      "unrolled_off_most: 0.4, compiler: a build}\n")),
                {});
  EXPECT_EQ(all.xla.code_least, 2'000'000);
  EXPECT_EQ(all.xla.code_most, 3'000'000);
  EXPECT_EQ(all.xla.gaps_least, 0.8);
  EXPECT_EQ(all.xla.gaps_most, 1.3);
  EXPECT_EQ(all.xla.loops_gaps_most, 1.6);
  EXPECT_EQ(all.xla.off_most, 0.2);
  EXPECT_EQ(all.xla.unrolled_off_most, 0.4);
  EXPECT_EQ(all.xla.compiler, "a build");
  const Chip none = find_chip(write("none.yaml", kMine), {});
  EXPECT_EQ(none.xla.code_most, 0);
  EXPECT_EQ(none.xla.off_most + none.xla.loops_gaps_most, 0);
  EXPECT_EQ(none.xla.gaps_least, 1) << "the plan alone is left";
  EXPECT_EQ(none.xla.gaps_most, 1);
  EXPECT_EQ(none.fact("xla.gaps_most"), nullptr) << "nothing stands for what the file does not say";
}

TEST_F(ChipLibraryTest, AFileHasTheRuleOfTheChipItExtendsWithItsOwnNumbers) {
  write("ours.yaml", "extends: v6e\nxla: {unrolled_off_most: 0.5}\n");
  const Chip ours = find_chip("ours", places()), v6e = find_chip("v6e", {});
  EXPECT_EQ(ours.xla.unrolled_off_most, 0.5);
  EXPECT_EQ(ours.xla.off_most, v6e.xla.off_most);
  const Fact* const changed = ours.fact("xla.unrolled_off_most");
  const Fact* const inherited = ours.fact("xla.off_most");
  ASSERT_TRUE(changed != nullptr && inherited != nullptr);
  EXPECT_TRUE(changed->source.ends_with("ours.yaml")) << changed->source;
  EXPECT_EQ(inherited->source, v6e.fact("xla.off_most")->source);
}

TEST_F(ChipLibraryTest, WholeNumbersMayHaveAnExponentAndBytesAUnit) {
  std::string text = kMine;
  text.replace(text.find("16GiB"), 5, "17.2GB")
      .replace(text.find("15GiB"), 5, "16e9")
      .replace(text.find("host: 4"), 7, "host: 8");
  const Chip chip = find_chip(write("my-chip.yaml", text), {});
  EXPECT_EQ(chip.nominal_bytes, 17'200'000'000);
  EXPECT_EQ(chip.usable_bytes, 16'000'000'000);
  EXPECT_EQ(chip.slices.host, (Sizes{8}));
}

// docs/hardware.md promises that its example is a whole file.
TEST_F(ChipLibraryTest, TheExampleOfTheDocumentationIsAWholeFile) {
  const std::string page = base::read_file(fs::path(MEGACPP_SOURCE_DIR) / "docs/hardware.md");
  std::vector<std::string> examples;
  for (size_t at = 0; (at = page.find("```yaml\n", at)) != std::string::npos;) {
    at += 8;
    examples.push_back(page.substr(at, page.find("```", at) - at));
  }
  ASSERT_EQ(examples.size(), 2U);
  const Slice whole = parse_target(write("my-chip.yaml", examples[0]) + ":4x4", {.places = {}});
  EXPECT_EQ(whole.chips(), 16);
  for (const Fact& fact : whole.chip.facts) EXPECT_EQ(fact.date.size(), 10U) << fact.name;
  EXPECT_EQ(parse_target(write("v6e-ours.yaml", examples[1]) + ":2x2", {.places = {}}).chip.kind, ChipKind::tpu);
}

}  // namespace
}  // namespace megacpp::hw
