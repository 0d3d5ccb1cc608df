// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/cublaslt.h"

#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cuda/cublaslt_numbers.h"

namespace megacpp::runtime::cuda {

struct LtEntries {
  int (*create)(void** handle);
  int (*destroy)(void* handle);
  size_t (*get_version)();
  int (*matmul_desc_create)(void** description, int compute_type, int scale_type);
  int (*matmul_desc_destroy)(void* description);
  int (*matmul_desc_set)(void* description, int attribute, const void* value, size_t bytes);
  int (*layout_create)(void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading);
  int (*layout_destroy)(void* layout);
  int (*layout_set)(void* layout, int attribute, const void* value, size_t bytes);
  int (*preference_create)(void** preference);
  int (*preference_destroy)(void* preference);
  int (*preference_set)(void* preference, int attribute, const void* value, size_t bytes);
  int (*heuristic)(void* handle, void* description, void* a, void* b, void* c, void* d, void* preference, int most,
                   LtHeuristic* results, int* count);
  int (*check)(void* handle, void* description, void* a, void* b, void* c, void* d, const LtAlgorithm* algorithm,
               LtHeuristic* result);
  int (*config_get)(const LtAlgorithm* algorithm, int attribute, void* value, size_t bytes, size_t* written);
  int (*matmul)(void* handle, void* description, const void* alpha, const void* a, void* a_layout, const void* b,
                void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                const LtAlgorithm* algorithm, void* workspace, size_t workspace_bytes, Stream* stream);
};

namespace {

constexpr size_t kOldestLibrary = 12'00'00;  // the first with kernels for Hopper
constexpr int kLtSuccess = 0;

template <typename Pointer>
void resolve(const Library& library, Pointer& entry, const char* name) {
  entry = library.function<std::remove_pointer_t<Pointer>>(name);
}

LtEntries entries_of(const Library& library) {
  LtEntries entries;
  resolve(library, entries.create, "cublasLtCreate");
  resolve(library, entries.destroy, "cublasLtDestroy");
  resolve(library, entries.get_version, "cublasLtGetVersion");
  resolve(library, entries.matmul_desc_create, "cublasLtMatmulDescCreate");
  resolve(library, entries.matmul_desc_destroy, "cublasLtMatmulDescDestroy");
  resolve(library, entries.matmul_desc_set, "cublasLtMatmulDescSetAttribute");
  resolve(library, entries.layout_create, "cublasLtMatrixLayoutCreate");
  resolve(library, entries.layout_destroy, "cublasLtMatrixLayoutDestroy");
  resolve(library, entries.layout_set, "cublasLtMatrixLayoutSetAttribute");
  resolve(library, entries.preference_create, "cublasLtMatmulPreferenceCreate");
  resolve(library, entries.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  resolve(library, entries.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  resolve(library, entries.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  resolve(library, entries.check, "cublasLtMatmulAlgoCheck");
  resolve(library, entries.config_get, "cublasLtMatmulAlgoConfigGetAttribute");
  resolve(library, entries.matmul, "cublasLtMatmul");
  return entries;
}

std::string version_number(size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

// cublasStatus_t.
std::string status_text(int status) {
  static const std::map<int, std::string> names = {
      {1, "not initialised"},       {3, "allocation failed"}, {7, "invalid value"},
      {8, "architecture mismatch"}, {11, "mapping error"},    {13, "execution failed"},
      {14, "internal error"},       {15, "not supported"},    {16, "licence error"}};
  const auto name = names.find(status);
  return "status " + std::to_string(status) + (name == names.end() ? "" : " (" + name->second + ")");
}

void require_success(int status, const char* call) {
  MEGACPP_REQUIRE(status == kLtSuccess, E3204,
                  ({.where = std::string("cuBLASLt, ") + call,
                    .got = status_text(status),
                    .wanted = "a call that succeeds",
                    .next = "run `megacpp doctor` to see which driver and libraries were found"}));
}

int data_type(ir::DType dtype) {
  const ir::DTypeRecord& type = ir::record(dtype);
  MEGACPP_CHECK(type.cuda) << "a product of " << type.name;
  return *type.cuda;
}

void* make_layout(const LtEntries& entries, const LtMatrix& matrix) {
  void* layout = nullptr;
  require_success(entries.layout_create(&layout, data_type(matrix.dtype), static_cast<uint64_t>(matrix.rows),
                                        static_cast<uint64_t>(matrix.columns), matrix.leading),
                  "cublasLtMatrixLayoutCreate");
  const int32_t batch = static_cast<int32_t>(matrix.batch);
  entries.layout_set(layout, kLtLayoutBatchCount, &batch, sizeof batch);
  entries.layout_set(layout, kLtLayoutBatchStride, &matrix.batch_stride, sizeof matrix.batch_stride);
  return layout;
}

void* make_description(const LtEntries& entries, const LtProblem& problem) {
  void* description = nullptr;
  require_success(entries.matmul_desc_create(&description, kLtCompute32F, kLtF32), "cublasLtMatmulDescCreate");
  const int32_t transposed = kLtTransposed;
  if (problem.transpose_a)
    entries.matmul_desc_set(description, kLtDescriptionTransposeA, &transposed, sizeof transposed);
  if (problem.transpose_b)
    entries.matmul_desc_set(description, kLtDescriptionTransposeB, &transposed, sizeof transposed);
  return description;
}

void* make_preference(const LtEntries& entries, const LtProblem& problem) {
  void* preference = nullptr;
  require_success(entries.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  const uint64_t workspace = static_cast<uint64_t>(problem.workspace_bytes);
  entries.preference_set(preference, kLtPreferenceWorkspace, &workspace, sizeof workspace);
  const uint32_t reductions = kLtReductionInComputeType;
  entries.preference_set(preference, kLtPreferenceReductions, &reductions, sizeof reductions);
  const std::array<int64_t, 4> alignments = {problem.a.alignment, problem.b.alignment, problem.d.alignment,
                                             problem.d.alignment};
  for (size_t i = 0; i < alignments.size(); ++i) {
    const uint32_t bytes = static_cast<uint32_t>(alignments[i]);
    entries.preference_set(preference, kLtPreferenceAlignmentA + static_cast<int>(i), &bytes, sizeof bytes);
  }
  return preference;
}

// Parts of a sum that several blocks add to memory in the order they finish do not repeat.
bool sums_in_order(const LtEntries& entries, const LtAlgorithm& algorithm) {
  int32_t splits = 0;
  uint32_t reduction = 0;
  size_t written = 0;
  if (entries.config_get(&algorithm, kLtConfigSplits, &splits, sizeof splits, &written) != kLtSuccess) return false;
  if (entries.config_get(&algorithm, kLtConfigReduction, &reduction, sizeof reduction, &written) != kLtSuccess)
    return false;
  return splits <= 1 || reduction == kLtReductionInComputeType;
}

std::string matrix_text(const LtMatrix& matrix) {
  return std::string(ir::dtype_name(matrix.dtype)) + " " + std::to_string(matrix.rows) + "x" +
         std::to_string(matrix.columns) + "/" + std::to_string(matrix.leading) + "*" + std::to_string(matrix.batch) +
         "+" + std::to_string(matrix.batch_stride) + "@" + std::to_string(matrix.alignment);
}

}  // namespace

double LtProblem::flops() const {
  return 2.0 * static_cast<double>(d.rows * d.columns) * static_cast<double>(k() * d.batch);
}

std::string to_string(const LtProblem& problem) {
  return matrix_text(problem.a) + (problem.transpose_a ? "' x " : " x ") + matrix_text(problem.b) +
         (problem.transpose_b ? "' -> " : " -> ") + matrix_text(problem.d) + (problem.accumulates ? " added" : "") +
         " in " + std::to_string(problem.workspace_bytes);
}

CublasLt::CublasLt(const Library& library) : entries_(std::make_unique<const LtEntries>(entries_of(library))) {
  const size_t version = entries_->get_version();
  MEGACPP_REQUIRE(version >= kOldestLibrary, E1503,
                  ({.where = library.file().string(),
                    .got = "cuBLASLt " + version_number(version),
                    .wanted = "cuBLASLt " + version_number(kOldestLibrary) + " or later",
                    .next = "install the package nvidia-cublas, or name its folder in cuda.libraries"}));
  require_success(entries_->create(&handle_), "cublasLtCreate");
}

CublasLt::~CublasLt() {
  if (handle_ != nullptr) entries_->destroy(handle_);
}

std::string CublasLt::version() const { return version_number(entries_->get_version()); }

LtProduct::LtProduct(const CublasLt& library, const LtProblem& problem)
    : entries_(*library.entries_),
      handle_(library.handle_),
      problem_(problem),
      description_(make_description(entries_, problem)),
      a_(make_layout(entries_, problem.a)),
      b_(make_layout(entries_, problem.b)),
      d_(make_layout(entries_, problem.d)) {}

LtProduct::~LtProduct() {
  for (void* layout : {a_, b_, d_}) entries_.layout_destroy(layout);
  entries_.matmul_desc_destroy(description_);
}

std::vector<LtAlgorithm> LtProduct::proposals(int most) const {
  void* const preference = make_preference(entries_, problem_);
  std::vector<LtHeuristic> results(static_cast<size_t>(most));
  int count = 0;
  const int status =
      entries_.heuristic(handle_, description_, a_, b_, d_, d_, preference, most, results.data(), &count);
  entries_.preference_destroy(preference);
  std::vector<LtAlgorithm> algorithms;
  if (status != kLtSuccess) return algorithms;  // what it says of problems that it has nothing for
  results.resize(static_cast<size_t>(std::clamp(count, 0, most)));
  for (const LtHeuristic& result : results)
    if (result.status == kLtSuccess && static_cast<int64_t>(result.workspace_bytes) <= problem_.workspace_bytes &&
        sums_in_order(entries_, result.algorithm))
      algorithms.push_back(result.algorithm);
  return algorithms;
}

bool LtProduct::serves(const LtAlgorithm& algorithm) const {
  LtHeuristic result = {};
  return entries_.check(handle_, description_, a_, b_, d_, d_, &algorithm, &result) == kLtSuccess &&
         static_cast<int64_t>(result.workspace_bytes) <= problem_.workspace_bytes && sums_in_order(entries_, algorithm);
}

void LtProduct::run(const LtAlgorithm& algorithm, const LtAddresses& at, Stream* stream) const {
  const float one = 1.0F, beta = problem_.accumulates ? 1.0F : 0.0F;
  const auto pointer = [](Address address) { return reinterpret_cast<void*>(address); };
  require_success(entries_.matmul(handle_, description_, &one, pointer(at.a), a_, pointer(at.b), b_, &beta,
                                  pointer(problem_.accumulates ? at.addend : at.d), d_, pointer(at.d), d_, &algorithm,
                                  pointer(at.workspace), static_cast<size_t>(problem_.workspace_bytes), stream),
                  "cublasLtMatmul");
}

}  // namespace megacpp::runtime::cuda
