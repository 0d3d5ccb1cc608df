// SPDX-License-Identifier: Apache-2.0
// The text of generated kernels, run on the CPU: blocks and threads are loops, barriers fall between them. All programs
// are one translation unit, compiled once without optimization; results are compared with the reference of `fused`.
#include "megacpp/machine/cuda/tile_source.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <new>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/process.h"
#include "megacpp/machine/cuda/cuda_backend.h"
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/tile_batch.h"
#include "megacpp/program/ops/sample_values.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tensors.h"

namespace megacpp::runtime::cuda {
namespace {

using ops::Tensor;
using testing_support::is_close;

constexpr ir::DType kF32 = ir::DType::f32, kBf16 = ir::DType::bf16, kI32 = ir::DType::i32, kPred = ir::DType::pred;

// What tile_device_macros() is on a device.
constexpr const char* kCpuMacros = R"(
#include <math.h>
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
static struct { unsigned x; } blockIdx, threadIdx;
#define __device__
#define __forceinline__ inline
#define __global__
#define __grid_constant__
#define __launch_bounds__(threads)
#define __shared__ static
#define EACH_THREAD for (threadIdx.x = 0; threadIdx.x < 256u; ++threadIdx.x)
#define BARRIER
#define WARP_BARRIER
static float __uint_as_float(unsigned bits) { float x; __builtin_memcpy(&x, &bits, 4); return x; }
static unsigned __float_as_uint(float x) { unsigned bits; __builtin_memcpy(&bits, &x, 4); return bits; }
static float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static float reciprocal(float x) { return 1.0f / x; }
static unsigned bf16_bits(float x) {
  const unsigned bits = __float_as_uint(x);
  return x != x ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
static unsigned bf16_pair(float low, float high) { return bf16_bits(high) << 16 | bf16_bits(low); }
)";

struct TileCase {
  std::string name;
  ops::Types operands;
  ir::Attrs attrs;
  std::vector<Tensor> values;
  double tolerance = 1e-5;
  int in_place = -1;  // the operand that result 0 overwrites; -1: none

  ops::Types results() const { return ops::op_def("fused").infer(operands, attrs); }
};

TileCase made(ops::Types operands, ir::Shape shape, std::string program, std::string dtypes = "f32") {
  TileCase c{.name = program + " over " + ir::to_string(shape),
             .operands = std::move(operands),
             .attrs = {{"shape", std::move(shape)}, {"program", std::move(program)}, {"dtypes", std::move(dtypes)}},
             .values = {}};
  for (size_t i = 0; i < c.operands.size(); ++i)
    c.values.push_back(testing_support::random_tensor(c.operands[i], "tile" + std::to_string(i), -2, 3));
  return c;
}

// Every sample of the op, and with bf16 in place of f32.
void add_samples(std::vector<TileCase>& cases) {
  const ops::OpDef& def = ops::op_def("fused");
  for (ops::Sample sample : def.samples())
    for (const bool narrow : {false, true}) {
      for (ir::TensorType& type : sample.operands)
        if (narrow && type.dtype == kF32) type.dtype = kBf16;
      TileCase c{.name = sample.name, .operands = sample.operands, .attrs = sample.attrs, .values = {}};
      c.values = ops::sample_operands(def, sample);
      for (Tensor& value : c.values)
        for (double& element : value.data) element = ir::rounded(value.type.dtype, element);
      if (sample.name == "bf16_store") c.tolerance = 1e-2;
      cases.push_back(std::move(c));
    }
}

// One program with every scalar op, each on numbers it is defined for.
TileCase every_scalar_op() {
  std::string program = "in(0) in(0) in(0) const(3.5) abs(%0) add(%4,%3)", outputs, dtypes;  // %5 is above 3
  int reg = 6;
  for (const ops::ScalarOp& op : ops::scalar_ops()) {
    const bool positive = op.name == "log" || op.name == "rsqrt" || op.name == "sqrt" || op.name == "log1p";
    const std::string first = positive ? "%5" : op.name == "select" ? "%2" : "%0";
    const std::string second = op.name == "div" ? ",%5" : op.name == "select" ? ",%0" : ",%1";
    program += " " + std::string(op.name) + "(" + first + (op.arity > 1 ? second : "") + (op.arity > 2 ? ",%1)" : ")");
    outputs += " out(%" + std::to_string(reg++) + ")";
    dtypes += dtypes.empty() ? "f32" : " f32";
  }
  return made({{kF32, {40}}, {kF32, {40}}, {kPred, {40}}}, {40}, program + outputs, dtypes);
}

void add_elementwise(std::vector<TileCase>& cases) {
  for (const int64_t n : {1, 5, 255, 256, 1026, 4104})
    cases.push_back(made({{kF32, {n}}, {kF32, {n}}}, {n},
                         "in(0) in(0) const(0.5) mul(%0,%2) add(%3,%1) tanh(%4) out(%5) out(%3)", "f32 f32"));
  const ir::Shape shape = {3, 5, 24};
  const std::vector<std::pair<std::string, ir::Shape>> maps = {
      {"in()", {}},        {"in(0)", {3}},       {"in(1)", {5}},       {"in(2)", {24}},
      {"in(0,1)", {3, 5}}, {"in(0,2)", {3, 24}}, {"in(1,2)", {5, 24}}, {"in(2,0)", {24, 3}}};
  const std::vector<ir::DType> dtypes = {kF32, kBf16, kI32, kPred};
  for (size_t m = 0; m < maps.size(); ++m)
    cases.push_back(made({{kF32, shape}, {dtypes[m % 4], maps[m].second}}, shape,
                         "in(0,1,2) " + maps[m].first + " add(%0,%1) out(%2) sum(%2;1) max(%2;1)", "f32 f32 f32"));
  cases.push_back(every_scalar_op());
}

void add_dtypes(std::vector<TileCase>& cases) {
  const ir::Shape shape = {6, 40};
  const ops::Types operands = {{kBf16, shape}, {kI32, shape}, {kPred, shape}};
  cases.push_back(made(operands, shape, "in(0,1) in(0,1) in(0,1) select(%2,%0,%1) out(%3)", "bf16"));
  cases.back().tolerance = 1e-2;
  cases.push_back(made(operands, shape, "in(0,1) in(0,1) in(0,1) add(%1,%2) out(%3) lt(%0,%1) out(%4)", "i32 pred"));
  cases.push_back(made(operands, shape, "in(0,1) in(0,1) in(0,1) add(%0,%1) sum(%3;1) max(%1;1)", "bf16 i32"));
  cases.back().tolerance = 1e-2;
  cases.push_back(made(operands, shape, "in(0,1) in(0,1) in(0,1) sum(%1;2) max(%2;2)", "i32 pred"));
}

void add_folds(std::vector<TileCase>& cases) {
  for (const int64_t n : {1, 3, 64, 2000})
    cases.push_back(made({{kF32, {4, n}}}, {4, n}, "in(0,1) exp(%0) sum(%1;1) max(%0;1)", "f32 f32"));
  cases.push_back(made({{kBf16, {1 << 18}}}, {1 << 18}, "in(0) mul(%0,%0) sum(%1;1) max(%0;1)", "f32 f32"));
  cases.push_back(
      made({{kF32, {2, 40000}}, {kF32, {40000}}}, {2, 40000}, "in(0,1) in(1) mul(%0,%1) out(%2) sum(%2;1)", "f32 f32"));
  cases.push_back(made({{kF32, {3, 0}}}, {3, 0}, "in(0,1) sum(%0;1) max(%0;1) out(%0)", "f32 f32 f32"));
  for (TileCase& c : cases) c.tolerance = std::max(c.tolerance, 2e-5);
}

void add_in_place(std::vector<TileCase>& cases) {
  const ir::Shape shape = {5, 72};
  for (const int operand : {0, 1}) {
    cases.push_back(made({{kF32, shape}, {kF32, shape}}, shape,
                         "in(0,1) in(0,1) mul(%0,%1) neg(%2) out(%3) out(%2) sum(%0;1)", "f32 f32 f32"));
    cases.back().in_place = operand;
  }
}

std::vector<TileCase> all_tile_cases() {
  std::vector<TileCase> cases;
  add_samples(cases);
  add_elementwise(cases);
  add_dtypes(cases);
  add_folds(cases);
  add_in_place(cases);
  return cases;
}

// Kernels of a text with the names of their parameters.
constexpr std::array<std::pair<const char*, const char*>, 4> kKernels = {{{kTileKernel, "Entry"},
                                                                          {kTileCombineKernel, "Entry"},
                                                                          {kTileBatchKernel, "Table"},
                                                                          {kTileCombineBatchKernel, "Table"}}};

// `text` with a namespace of its own for each program, and a function for each that runs one of its kernels.
std::string cpu_text(const std::vector<TileCase>& cases) {
  std::string text = kCpuMacros + tile_helpers();
  for (size_t i = 0; i < cases.size(); ++i) {
    const ops::Types results = cases[i].results();
    const ops::NodeView view{cases[i].operands, results, cases[i].attrs};
    std::string kernels = tile_kernels(plan_tiles(view), view);
    const std::string c_linkage = "extern \"C\" ";
    for (size_t at; (at = kernels.find(c_linkage)) != std::string::npos;) kernels.erase(at, c_linkage.size());
    const std::string space = "program" + std::to_string(i);
    text += "namespace " + space + " {\n" + kernels + "}\nextern \"C\" void run" + std::to_string(i) +
            "(const void* params, unsigned blocks, int kernel) {\n  for (blockIdx.x = 0; blockIdx.x < blocks; "
            "++blockIdx.x) {\n";
    for (size_t k = 0; k < kKernels.size(); ++k) {
      const auto& [name, parameter] = kKernels[k];
      if (kernels.find(" " + std::string(name) + "(") == std::string::npos) continue;
      text += "    if (kernel == " + std::to_string(k) + ") " + space + "::" + name + "(*(const " + space +
              "::" + parameter + "*)params);\n";
    }
    text += "  }\n}\n";
  }
  return text;
}

// The compiled text of all cases.
class CpuText {
 public:
  explicit CpuText(const std::vector<TileCase>& cases) {
    std::ofstream(folder_ / "tiles.cpp") << cpu_text(cases);
    const std::string library = (folder_ / "tiles.so").string();
    const base::ProgramEnd end =
        base::run_program({.words = {"c++", "-std=c++17", "-O0", "-w", "-fno-strict-aliasing", "-ffp-contract=off",
                                     "-fPIC", "-shared", "-o", library, (folder_ / "tiles.cpp").string()}});
    status_ = end.status;
    output_ = end.output;
    if (status_ == 0) handle_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  ~CpuText() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  CpuText(const CpuText&) = delete;
  CpuText& operator=(const CpuText&) = delete;

  int status() const { return status_; }
  const std::string& output() const { return output_; }
  bool is_loaded() const { return handle_ != nullptr; }

  void run(size_t program, const char* kernel, std::span<const uint64_t> params, int64_t blocks) const {
    using Run = void(const void*, unsigned, int);
    const std::string name = "run" + std::to_string(program);
    const auto number = std::ranges::find(kKernels, std::string_view(kernel),
                                          [](const auto& each) { return std::string_view(each.first); }) -
                        kKernels.begin();
    reinterpret_cast<Run*>(dlsym(handle_, name.c_str()))(params.data(), static_cast<unsigned>(blocks),
                                                         static_cast<int>(number));
  }

 private:
  testing_support::TemporaryFolder folder_;
  int status_ = 0;
  std::string output_;
  void* handle_ = nullptr;
};

// Memory as the device has it: aligned, poisoned, with a guard behind.
class TileMemory {
 public:
  explicit TileMemory(int64_t bytes) : bytes_(static_cast<size_t>(bytes)), data_(allocate(bytes_)) {
    std::fill_n(data_.get(), bytes_ + kGuard, std::byte{0xFF});
  }
  std::byte* data() const { return data_.get(); }
  uint64_t address() const { return reinterpret_cast<uint64_t>(data_.get()); }
  bool is_intact() const {
    return std::all_of(data() + bytes_, data() + bytes_ + kGuard, [](std::byte b) { return b == std::byte{0xFF}; });
  }

 private:
  static constexpr size_t kGuard = 64;
  struct Free {
    void operator()(std::byte* data) const { ::operator delete[](data, std::align_val_t{kAlignment}); }
  };
  static std::byte* allocate(size_t bytes) {
    return static_cast<std::byte*>(::operator new[](bytes + kGuard, std::align_val_t{kAlignment}));
  }
  size_t bytes_;
  std::unique_ptr<std::byte[], Free> data_;
};

// A node with memory of its own.
class TileRun {
 public:
  explicit TileRun(const TileCase& c) : results_(c.results()), plan_(plan_tiles({c.operands, results_, c.attrs})) {
    for (size_t i = 0; i < c.values.size(); ++i) {
      testing_support::encode(c.values[i], in_.emplace_back(c.operands[i].bytes()).data());
      tile_.operands.push_back(in_[i].address());
    }
    for (const ir::TensorType& type : results_) tile_.results.push_back(out_.emplace_back(type.bytes()).address());
    if (c.in_place >= 0) tile_.results[0] = tile_.operands[static_cast<size_t>(c.in_place)];
    partials_.emplace_back(plan_.workspace_bytes());
    tile_.workspace = partials_[0].address();
    tile_.table = TableTile{.sizes = plan_.sizes(), .source = "", .max_entries = 1};
  }

  const TilePlan& plan() const { return plan_; }
  const BoundTile& tile() const { return tile_; }

  void run(const CpuText& text, size_t program) const {
    const TileEntry entry =
        tile_entry(plan_.sizes(), {.operands = tile_.operands, .results = tile_.results, .partials = tile_.workspace});
    text.run(program, kTileKernel, entry.used(), plan_.blocks());
    if (plan_.parts > 1) text.run(program, kTileCombineKernel, entry.used(), plan_.rows);
  }

  std::vector<Tensor> tensors() const {
    std::vector<Tensor> tensors;
    for (size_t r = 0; r < results_.size(); ++r) {
      EXPECT_TRUE(out_[r].is_intact()) << "result " << r << " was written behind its end";
      tensors.push_back(testing_support::decode(results_[r], reinterpret_cast<const std::byte*>(tile_.results[r])));
    }
    EXPECT_TRUE(partials_[0].is_intact());
    return tensors;
  }

 private:
  ops::Types results_;
  TilePlan plan_;
  std::vector<TileMemory> in_, out_, partials_;
  BoundTile tile_;
};

std::vector<Tensor> run_case(const CpuText& text, size_t number, const TileCase& c) {
  const TileRun run(c);
  run.run(text, number);
  return run.tensors();
}

TEST(TileSourceTest, EveryProgramEqualsItsReference) {
  const std::vector<TileCase> cases = all_tile_cases();
  const CpuText text(cases);
  if (text.status() == 127) GTEST_SKIP() << "there is no program c++ to compile the text with";
  ASSERT_EQ(text.status(), 0) << text.output();
  ASSERT_TRUE(text.is_loaded()) << dlerror();
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].name);
    const std::vector<Tensor> wanted = ops::evaluate_op("fused", cases[i].values, cases[i].attrs);
    const std::vector<Tensor> got = run_case(text, i, cases[i]);
    for (size_t r = 0; r < wanted.size(); ++r)
      EXPECT_TRUE(is_close(got[r], wanted[r], cases[i].tolerance)) << "result " << r;
  }
}

TilePlan plan_of(const TileCase& c) {
  const ops::Types results = c.results();
  return plan_tiles({c.operands, results, c.attrs});
}

// ---- Tables of several nodes

// Of one program over tensors of several sizes: an optimizer's update, and sums of squares of which some have parts.
std::vector<std::vector<TileCase>> table_cases() {
  std::vector<TileCase> updates, squares;
  for (const ir::Shape& shape : {ir::Shape{4}, ir::Shape{1024}, ir::Shape{3, 1028}, ir::Shape{2, 8, 4096}}) {
    const std::string in = shape.size() == 1 ? "in(0) " : shape.size() == 2 ? "in(0,1) " : "in(0,1,2) ";
    const ir::TensorType type{kF32, shape};
    updates.push_back(made({type, {kF32, {}}, type}, shape,
                           in + "in() mul(%0,%1) " + in + "const(0.5) mul(%3,%4) add(%2,%5) mul(%6,%6) out(%6) out(%7)",
                           "f32 f32"));
    updates.back().in_place = 2;
  }
  for (const ir::Shape& shape : {ir::Shape{1 << 18}, ir::Shape{2048}, ir::Shape{3, 40000}, ir::Shape{4100}})
    squares.push_back(made({{kF32, shape}}, shape,
                           shape.size() == 1 ? "in(0) mul(%0,%0) sum(%1;1)" : "in(0,1) mul(%0,%0) sum(%1;2)"));
  return {updates, squares};
}

void expect_table_equals_each_alone(const CpuText& text, size_t first, const std::vector<TileCase>& cases) {
  std::vector<TileRun> alone(cases.begin(), cases.end()), together(cases.begin(), cases.end());
  std::vector<const BoundTile*> tiles;
  for (const TileRun& run : together) tiles.push_back(&run.tile());
  const TileTable table = make_tile_table(tiles);
  text.run(first, kTileBatchKernel, table.words, table.blocks);
  if (table.combines) text.run(first, kTileCombineBatchKernel, table.words, std::ssize(tiles));
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].name);
    alone[i].run(text, first + i);
    const std::vector<Tensor> wanted = alone[i].tensors(), got = together[i].tensors();
    for (size_t r = 0; r < wanted.size(); ++r) EXPECT_EQ(got[r].data, wanted[r].data) << "result " << r;
  }
}

TEST(TileSourceTest, ATableOfNodesHasTheBitsOfEachAlone) {
  const std::vector<std::vector<TileCase>> groups = table_cases();
  std::vector<TileCase> all;
  for (const std::vector<TileCase>& group : groups) all.insert(all.end(), group.begin(), group.end());
  const CpuText text(all);
  if (text.status() == 127) GTEST_SKIP() << "there is no program c++ to compile the text with";
  ASSERT_EQ(text.status(), 0) << text.output();
  ASSERT_TRUE(text.is_loaded()) << dlerror();
  size_t first = 0;
  for (const std::vector<TileCase>& group : groups) {
    expect_table_equals_each_alone(text, first, group);
    first += group.size();
  }
}

TEST(TileSourceTest, NodesThatDifferInSizesAloneHaveOneText) {
  const auto text_of = [](const TileCase& c) {
    const ops::Types results = c.results();
    const ops::NodeView view{c.operands, results, c.attrs};
    return tile_source(plan_tiles(view), view);
  };
  for (const std::vector<TileCase>& group : table_cases())
    for (const TileCase& c : group) EXPECT_EQ(text_of(c), text_of(group[0])) << c.name;
  const auto sum = [](int64_t n) { return made({{kF32, {n}}}, {n}, "in(0) sum(%0;1)"); };
  EXPECT_NE(text_of(sum(2048)), text_of(sum(2047))) << "another width of reads";
  EXPECT_NE(text_of(sum(2048)), text_of(sum(64))) << "other lanes, so another order of sums";
}

TEST(TileSourceTest, ATableIsFilledToTheParametersOfAKernel) {
  for (const std::vector<TileCase>& group : table_cases()) {
    const ops::Types results = group[0].results();
    const ops::NodeView view{group[0].operands, results, group[0].attrs};
    const size_t words = tile_entry_words(plan_tiles(view), view), most = max_tile_entries(words);
    const TileRun run(group[0]);
    EXPECT_EQ(tile_entry(run.plan().sizes(), {.operands = run.tile().operands, .results = run.tile().results}).count,
              words);
    EXPECT_LE((1 + most * words) * sizeof(uint64_t), kMaxParameterBytes);
    EXPECT_GT((1 + (most + 1) * words) * sizeof(uint64_t), kMaxParameterBytes);
    const std::vector<const BoundTile*> full(most, &run.tile()), more(most + 1, &run.tile());
    EXPECT_EQ(make_tile_table(full).words.size() * sizeof(uint64_t), kMaxParameterBytes);
    EXPECT_THROW(make_tile_table(more), base::Error);
  }
}

TEST(TileBatchTest, ABoundTileTouchesTheBytesOfItsTensorsAndItsPartialSums) {
  const ops::Types operands = {{kF32, {8}}, {kBf16, {8}}}, results = {{kF32, {}}};
  const ir::Attrs attrs;
  std::vector<Address> in = {4096, 8192}, out = {12288};
  std::vector<Address> launched;
  const auto note = [&launched](const Launch& at) {
    launched = {at.operands[0], at.operands[1], at.results[0], at.workspace};
  };
  const BoundTile tile = bind_tile({.run = note}, {operands, results, attrs}, 64, {in, out, 16384, nullptr});
  in.assign(2, 0);  // it has addresses of its own
  tile.run();
  EXPECT_EQ(launched, (std::vector<Address>{4096, 8192, 12288, 16384}));
  const auto bounds = [](const std::vector<ByteRange>& ranges) {
    std::vector<std::pair<uint64_t, uint64_t>> list;
    for (const ByteRange& range : ranges) list.emplace_back(range.begin, range.end);
    return list;
  };
  using Bounds = std::vector<std::pair<uint64_t, uint64_t>>;
  EXPECT_EQ(bounds(tile.reads), (Bounds{{4096, 4096 + 32}, {8192, 8192 + 16}}));
  EXPECT_EQ(bounds(tile.writes), (Bounds{{12288, 12288 + 4}, {16384, 16384 + 64}}));
}

TEST(TileBatchTest, ALaunchThatDoesNothingIsRefused) {
  LaunchList list;
  EXPECT_THROW(list.add(std::function<void()>()), base::Error);
}

TEST(TilePlanTest, ReadsSixteenBytesWhereShapesAllow) {
  const auto vector = [](ir::DType dtype, ir::Shape shape) {
    return plan_of(made({{dtype, shape}}, shape, "in(0,1) exp(%0) out(%1)")).vector;
  };
  EXPECT_EQ(vector(kF32, {4, 64}), 4);
  EXPECT_EQ(vector(kBf16, {4, 64}), 8);
  EXPECT_EQ(vector(kBf16, {4, 6}), 8);  // one dimension of 24
  EXPECT_EQ(vector(kF32, {3, 3}), 1);
}

TEST(TilePlanTest, RowsOfABroadcastOperandStayAligned) {
  const TileCase c = made({{kF32, {4, 6}}, {kF32, {6}}}, {4, 6}, "in(0,1) in(1) add(%0,%1) out(%2)");
  const TilePlan plan = plan_of(c);
  EXPECT_EQ(plan.row.sizes, (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(plan.vector, 2);
}

TEST(TilePlanTest, FewLongRowsAreCutIntoPartsAndManyShortOnesShareABlock) {
  const TilePlan one = plan_of(made({}, {1 << 22}, "const(1) sum(%0;1)"));
  EXPECT_GT(one.parts, 64);
  EXPECT_EQ(one.blocks(), one.parts);
  EXPECT_EQ(one.workspace_bytes(), one.parts * 4);
  EXPECT_GE(one.parts * one.part_vectors, one.row_vectors());
  const TilePlan many = plan_of(made({}, {4096, 8}, "const(1) sum(%0;1)"));
  EXPECT_EQ(many.parts, 1);
  EXPECT_EQ(many.lanes, 1);
  EXPECT_EQ(many.blocks(), 4096 / kTileThreads);
  EXPECT_EQ(many.workspace_bytes(), 0);
}

// Shared, they would keep clusters out of one launch.
TEST(TilePlanTest, PartialSumsOfFourFoldsHaveBytesOfTheirOwn) {
  const TilePlan plan =
      plan_of(made({}, {1 << 26}, "const(1) sum(%0;1) sum(%0;1) sum(%0;1) sum(%0;1)", "f32 f32 f32 f32"));
  EXPECT_EQ(plan.parts, kEnoughBlocks) << "of no longer row are there more";
  EXPECT_LE(plan.workspace_bytes(), cuda_target().separate_bytes);
}

TEST(TilePlanTest, ProgramsOfManyTensorsReadShorterVectors) {
  ops::Types operands(20, {kBf16, {64}});
  std::string program;
  for (size_t i = 0; i < operands.size(); ++i) program += "in(0) ";
  EXPECT_EQ(plan_of(made(operands, {64}, program + "add(%0,%19) out(%20)")).vector, 4);
}

TEST(TileSourceTest, TextIsTheSameForEqualNodes) {
  const TileCase c = made({{kF32, {8}}}, {8}, "in(0) exp(%0) out(%1)");
  const ops::Types results = c.results();
  const ops::NodeView view{c.operands, results, c.attrs};
  EXPECT_EQ(tile_source(plan_tiles(view), view), tile_source(plan_tiles(view), view));
}

}  // namespace
}  // namespace megacpp::runtime::cuda
