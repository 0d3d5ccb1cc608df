// SPDX-License-Identifier: Apache-2.0
// The text of generated kernels, run on the CPU: blocks and threads are loops, barriers fall between them. All programs
// are one translation unit, compiled once without optimization; results are compared with the reference of `fused`.
#include "megacpp/runtime/cuda/tile_source.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <new>

#include "megacpp/base/process.h"
#include "megacpp/ops/sample_values.h"
#include "megacpp/runtime/cuda/kernel.h"
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
        for (double& element : value.data) element = ops::round_to(value.type.dtype, element);
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

// `text` with a namespace of its own for each program, and a function for each that runs one of its kernels.
std::string cpu_text(const std::vector<TileCase>& cases) {
  std::string text = kCpuMacros + tile_helpers();
  for (size_t i = 0; i < cases.size(); ++i) {
    const ops::Types results = cases[i].results();
    const ops::NodeView view{cases[i].operands, results, cases[i].attrs};
    const TilePlan plan = plan_tiles(view);
    std::string kernels = tile_kernels(plan, view);
    const std::string c_linkage = "extern \"C\" ";
    for (size_t at; (at = kernels.find(c_linkage)) != std::string::npos;) kernels.erase(at, c_linkage.size());
    const std::string space = "program" + std::to_string(i);
    const std::string combine = plan.parts > 1 ? space + "::fused_combine" : space + "::fused";
    text += "namespace " + space + " {\n" + kernels + "}\nextern \"C\" void run" + std::to_string(i) +
            "(const void* params, unsigned blocks, int pass) {\n  for (blockIdx.x = 0; blockIdx.x < blocks; "
            "++blockIdx.x) (pass == 0 ? " +
            space + "::fused : " + combine + ")(*(const " + space + "::Params*)params);\n}\n";
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

  void run(size_t program, const TileParams& params, int64_t blocks, int pass) const {
    using Run = void(const void*, unsigned, int);
    const std::string name = "run" + std::to_string(program);
    reinterpret_cast<Run*>(dlsym(handle_, name.c_str()))(&params, static_cast<unsigned>(blocks), pass);
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

std::vector<Tensor> run_case(const CpuText& text, size_t number, const TileCase& c) {
  const ops::Types results = c.results();
  const TilePlan plan = plan_tiles({c.operands, results, c.attrs});
  std::vector<TileMemory> in, out;
  const TileMemory partials(plan.workspace_bytes());
  TileParams params{.partials = partials.address()};
  for (size_t i = 0; i < c.values.size(); ++i) {
    testing_support::encode(c.values[i], in.emplace_back(c.operands[i].bytes()).data());
    params.operands[i] = in[i].address();
  }
  for (size_t r = 0; r < results.size(); ++r) params.results[r] = out.emplace_back(results[r].bytes()).address();
  if (c.in_place >= 0) params.results[0] = params.operands[static_cast<size_t>(c.in_place)];
  text.run(number, params, plan.blocks(), 0);
  if (plan.parts > 1) text.run(number, params, plan.rows, 1);
  std::vector<Tensor> tensors;
  for (size_t r = 0; r < results.size(); ++r) {
    EXPECT_TRUE(out[r].is_intact()) << "result " << r << " was written behind its end";
    tensors.push_back(testing_support::decode(results[r], reinterpret_cast<const std::byte*>(params.results[r])));
  }
  EXPECT_TRUE(partials.is_intact());
  return tensors;
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
