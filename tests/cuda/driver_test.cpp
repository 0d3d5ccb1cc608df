// SPDX-License-Identifier: Apache-2.0
// What lies between the driver and a chip, on a driver that stands in for NVIDIA's: finding and refusing libraries,
// functions of device code, pinned uploads, and a chip's memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "megacpp/machine/cuda/cuda_device.h"
#include "megacpp/machine/cuda/driver.h"
#include "megacpp/machine/cuda/embedded_cubins.h"
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/nvrtc.h"
#include "megacpp/machine/cuda/tensor_map.h"
#include "megacpp/machine/cuda/upload_ring.h"
#include "megacpp/program/memory/out_of_memory.h"
#include "tests/cuda/stand_in_gpu.h"
#include "tests/support/errors.h"

namespace megacpp::runtime::cuda {
namespace {

using base::Code;
using testing_support::problem_of;
using testing_support::StandInGpu;
using testing_support::TemporaryFolder;

/// Filled with a byte; every 512 bytes begin with their offset.
std::vector<std::byte> counted_bytes(size_t count, std::byte fill) {
  std::vector<std::byte> bytes(count, fill);
  for (size_t i = 0; i + sizeof i <= count; i += 512) std::memcpy(bytes.data() + i, &i, sizeof i);
  return bytes;
}

// ---- The driver ----

TEST(CudaDriverTest, AMachineWithoutADriverIsE1508WithTheWayOut) {
  const TemporaryFolder empty;
  const base::Problem problem = problem_of(Code::E1508, [&] { open_driver(driver_place({.folder = empty.path()})); });
  EXPECT_TRUE(problem.got.starts_with("cannot be loaded: ")) << problem.got;
  EXPECT_NE(problem.next.find("--backend cpu"), std::string::npos) << problem.next;
}

TEST(CudaDriverTest, ALibraryThatIsNoDriverIsE1508) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(std::filesystem::path(MEGACPP_STAND_IN_CUDA) / "libnvrtc.so.13", folder / "libcuda.so.1");
  const base::Problem problem = problem_of(Code::E1508, [&] { open_driver(driver_place({.folder = folder.path()})); });
  EXPECT_EQ(problem.got, "no function cuInit: a driver before CUDA 12.0");
}

TEST(CudaDriverTest, ADriverWithoutDevicesAndATooOldOneAreE1508) {
  const StandInGpu none, old, mismatched;
  none.machine().devices = 0;
  old.machine().driver_version = 11080;
  mismatched.machine().answers["cuInit"] = 803;
  EXPECT_EQ(problem_of(Code::E1508, [&] { none.open(); }).got, "cuInit: CUDA_ERROR_NO_DEVICE (100)");
  EXPECT_EQ(problem_of(Code::E1508, [&] { old.open(); }).got, "a driver for CUDA 11.8");
  const base::Problem problem = problem_of(Code::E1508, [&] { mismatched.open(); });
  EXPECT_NE(problem.next.find("different versions"), std::string::npos) << problem.next;
}

TEST(CudaDriverTest, ADeviceSaysWhatItIs) {
  const StandInGpu stand_in;
  const std::shared_ptr<Gpu> gpu = stand_in.open();
  EXPECT_EQ(gpu->properties().name, "NVIDIA H200");
  EXPECT_EQ(gpu->properties().architecture(), "sm_90a");
  EXPECT_EQ(gpu->properties().multiprocessors, 132);
  EXPECT_EQ(gpu->properties().memory_bytes, int64_t{4} << 30);
  EXPECT_EQ(gpu->free_bytes(), int64_t{4} << 30);
  EXPECT_EQ(version_text(gpu->driver().version), "13.0");
  EXPECT_EQ(device_count(gpu->driver()), 1);
  EXPECT_EQ(free_bytes_of(gpu->driver(), 0), int64_t{4} << 30);
  EXPECT_EQ(free_bytes_of(gpu->driver(), 1), std::nullopt);
}

TEST(CudaDriverTest, TheGpusThatAProcessSeesAreKnownByTheirUuids) {
  const StandInGpu stand_in;
  stand_in.machine().devices = 2;
  const std::shared_ptr<Gpu> gpu = stand_in.open();
  const std::vector<std::string> uuids = visible_gpus(gpu->driver());
  ASSERT_EQ(uuids.size(), 2U);
  EXPECT_EQ(uuids[0], gpu->properties().uuid);
  EXPECT_EQ(uuids[1], "02020202020202020202020202020202");
}

TEST(CudaDriverTest, ResultsHaveTheirNamesAndThoseThatEndAProcessAreKnown) {
  EXPECT_EQ(result_text(2), "CUDA_ERROR_OUT_OF_MEMORY (2)");
  EXPECT_EQ(result_text(12345), "CUDA error (12345)");
  EXPECT_TRUE(is_sticky(700) && is_sticky(719) && is_sticky(214));
  EXPECT_FALSE(is_sticky(2) || is_sticky(1) || is_sticky(12345));
  problem_of(Code::E2004, [] { raise_failed_call("cuMemAlloc_v2", kOutOfMemory); });
  EXPECT_EQ(problem_of(Code::E3204, [] { raise_failed_call("cuX", 719); }).where, "cuX");
}

// ---- Libraries ----

TEST(CudaLibraryTest, AreFoundInTheirFolderWithTheirVersions) {
  const StandInGpu gpu;
  const Library products = open_library(LibraryKind::cublaslt, gpu.libraries());
  EXPECT_EQ(products.file().filename(), "libcublasLt.so.13");
  EXPECT_EQ(version_of(products), "13.1.0");
  EXPECT_EQ(version_of(open_library(LibraryKind::nvrtc, gpu.libraries())), "13.0");
  const base::Problem lacking = problem_of(Code::E1509, [&] { products.function<int()>("cublasLtNothing"); });
  EXPECT_EQ(lacking.got, "no function cublasLtNothing");
  EXPECT_EQ(products.find_symbol("cublasLtNothing"), nullptr);
}

TEST(CudaLibraryTest, OneThatIsNotThereIsE1509WithThePlacesAndThePackage) {
  const TemporaryFolder empty;
  const base::Problem problem =
      problem_of(Code::E1509, [&] { open_library(LibraryKind::cublaslt, {.folder = empty.path()}); });
  EXPECT_NE(problem.got.find((empty / "libcublasLt.so.13").string()), std::string::npos) << problem.got;
  EXPECT_NE(problem.next.find("nvidia-cublas"), std::string::npos) << problem.next;
}

TEST(CudaLibraryTest, TheLoadersOwnPlacesComeFirst) {
  for (const LibraryInfo& info : all_libraries()) {
    const std::vector<std::filesystem::path> places = places_of(info.kind, {});
    ASSERT_GE(places.size(), 2 * info.files.size()) << info.name;
    EXPECT_EQ(places.front(), info.files.front());
    EXPECT_EQ(places[info.files.size()].filename(), info.files.front());
  }
}

// ---- Device code ----

TEST(CudaToolboxTest, FunctionsOfOneCubinShareItsModule) {
  const StandInGpu stand_in;
  const std::shared_ptr<Gpu> gpu = stand_in.open();
  const Function one = gpu->toolbox().function("some", "one"), other = gpu->toolbox().function("some", "other");
  EXPECT_EQ(one.name, "one");
  EXPECT_NE(one.handle, other.handle);
  const Function made = gpu->toolbox().generated("source", "made");
  stand_in.machine().is_loaded = true;  // a second module would be a breach
  gpu->toolbox().generated("source", "made");
  gpu->toolbox().function("some", "third");
  EXPECT_TRUE(stand_in.machine().breaches.empty());
}

TEST(CudaToolboxTest, ProgramsAreCompiledTogetherAndEachOnce) {
  const StandInGpu stand_in;
  const std::shared_ptr<Gpu> gpu = stand_in.open();
  Toolbox& toolbox = gpu->toolbox();
  toolbox.generated("source 3", "made");  // some may be there already
  std::vector<std::string> sources;
  for (int i = 0; i < 120; ++i) sources.push_back("source " + std::to_string(i % 40));
  toolbox.generate(sources);
  ASSERT_NE(toolbox.loaded_compiler(), nullptr);
  EXPECT_EQ(toolbox.loaded_compiler()->compiles() + toolbox.loaded_compiler()->cache_hits(), 40);
  EXPECT_EQ(stand_in.compiles().size(), 40U);
  for (const auto& [source, count] : stand_in.compiles()) EXPECT_EQ(count, 1) << source;
  stand_in.machine().is_loaded = true;  // a module that is not there would be a breach
  for (const std::string& source : sources) EXPECT_EQ(toolbox.generated(source, "made").name, "made");
  EXPECT_TRUE(stand_in.machine().breaches.empty());
}

TEST(CudaToolboxTest, AProgramThatIsRefusedAmongOthersIsE3204) {
  const StandInGpu stand_in;
  const std::shared_ptr<Gpu> gpu = stand_in.open();
  const std::vector<std::string> sources = {"one", stand_in_cuda::kRefusedSource, "other"};
  const base::Problem problem = problem_of(Code::E3204, [&] { gpu->toolbox().generate(sources); });
  EXPECT_NE(problem.where.find("NVRTC 13.0"), std::string::npos) << problem.where;
}

TEST(CudaToolboxTest, LaunchesHandOverTheirStruct) {
  struct Params {
    uint64_t first;
    int32_t count;
    uint64_t second;
  };
  const StandInGpu stand_in;
  const std::shared_ptr<Gpu> gpu = stand_in.open();
  const std::unique_ptr<Borrowed> memory = gpu->toolbox().borrow(4096);
  ASSERT_NE(memory, nullptr);
  const Function function = gpu->toolbox().function("some", "one");
  const Params params{memory->address(), 7, memory->address() + 256};
  launch(function, {.grid = {2}, .block = {128}}, gpu->toolbox().stream(), params);
  launch(function, {.grid = {0}, .block = {128}}, gpu->toolbox().stream(), params);
  ASSERT_EQ(stand_in.machine().operations.size(), 1U) << "a grid of no blocks is not launched";
  const stand_in_cuda::Operation& launched = stand_in.machine().operations[0];
  EXPECT_EQ(launched.name, "one");
  ASSERT_EQ(launched.ranges.size(), 2U);
  EXPECT_EQ(launched.ranges[0].address, params.first);
  EXPECT_EQ(launched.ranges[1].address, params.second);
  EXPECT_EQ(gpu->toolbox().borrow(int64_t{1} << 40), nullptr) << "more than there is";
  EXPECT_GE(gpu->toolbox().seconds_of([&](Stream* stream) { launch(function, {.grid = {1}}, stream, params); }), 0);
}

TEST(CudaToolboxTest, TensorMapsNeedMatchingDimensions) {
  const StandInGpu stand_in;
  const std::shared_ptr<Gpu> gpu = stand_in.open();
  TiledTensor tensor{.address = 4096, .shape = {64, 32}, .strides = {128}, .box = {64, 8}};
  EXPECT_EQ(make_tensor_map(gpu->driver(), tensor).opaque[0], 4096U);
  tensor.strides.clear();
  problem_of(Code::E9001, [&] { make_tensor_map(gpu->driver(), tensor); });
}

TEST(CudaToolboxTest, EveryCubinIsListedOnceAndHasCodeOrIsMissing) {
  size_t missing = 0;
  for (const EmbeddedCubin& cubin : embedded_cubins()) {
    EXPECT_EQ(std::ranges::count(embedded_cubins(), cubin.name, &EmbeddedCubin::name), 1) << cubin.name;
    EXPECT_EQ(embedded_cubin(cubin.name).data(), cubin.code.data());
    missing += cubin.code.empty() ? 1 : 0;
  }
  EXPECT_EQ(missing_cubins().size(), missing);
  EXPECT_TRUE(missing == 0 || missing == embedded_cubins().size()) << "a build has all of them or none";
  EXPECT_TRUE(embedded_cubin("no such file").empty());
}

// ---- A chip's memory ----

void upload(UploadRing& ring, Address to, std::span<const std::byte> from, Stream* stream) {
  ring.fill({.to = to, .bytes = from.size(), .stream = stream}, [&from](size_t begin, std::span<std::byte> piece) {
    std::memcpy(piece.data(), from.data() + begin, piece.size());
  });
}

TEST(CudaUploadRingTest, AnyNumberOfBytesArrivesInOrder) {
  const StandInGpu stand_in;
  const std::shared_ptr<Gpu> gpu = stand_in.open();
  UploadRing ring(gpu->driver());
  const std::vector<std::byte> large = counted_bytes(UploadRing::kBytes + UploadRing::kBytes / 3, std::byte{0x5A});
  const std::unique_ptr<Borrowed> memory = gpu->toolbox().borrow(static_cast<int64_t>(large.size()));
  ASSERT_NE(memory, nullptr);
  stand_in.machine().is_loaded = true;
  upload(ring, memory->address(), large, gpu->toolbox().stream());
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(memory->address()), large.data(), large.size()), 0);
  const std::vector<std::byte> small = counted_bytes(100, std::byte{0x3D});
  for (size_t i = 0; i < UploadRing::kPieces * 2; ++i)
    upload(ring, memory->address() + i * 128, small, gpu->toolbox().stream());
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(memory->address() + 128), small.data(), small.size()), 0);
  EXPECT_TRUE(stand_in.machine().breaches.empty());
}

TEST(CudaUploadRingTest, PiecesAreWrittenInPinnedMemoryOneBehindTheOther) {
  const StandInGpu stand_in;
  const std::shared_ptr<Gpu> gpu = stand_in.open();
  UploadRing ring(gpu->driver());
  const size_t bytes = UploadRing::kBytes + 100;
  const std::unique_ptr<Borrowed> memory = gpu->toolbox().borrow(static_cast<int64_t>(bytes));
  ASSERT_NE(memory, nullptr);
  upload(ring, memory->address(), counted_bytes(3, std::byte{1}), gpu->toolbox().stream());  // the next is aligned
  size_t next = 0, pieces = 0;
  ring.fill({.to = memory->address(), .bytes = bytes, .stream = gpu->toolbox().stream()},
            [&](size_t begin, std::span<std::byte> piece) {
              EXPECT_EQ(begin, next);
              EXPECT_EQ(reinterpret_cast<uintptr_t>(piece.data()) % 64, 0U);
              EXPECT_TRUE(begin + piece.size() == bytes || piece.size() % 64 == 0) << piece.size();
              std::ranges::fill(piece, std::byte{0x3D});
              next += piece.size();
              ++pieces;
            });
  EXPECT_EQ(next, bytes);
  EXPECT_GT(pieces, 1U);
  const auto* const written = reinterpret_cast<const std::byte*>(memory->address());
  EXPECT_TRUE(std::all_of(written, written + bytes, [](std::byte each) { return each == std::byte{0x3D}; }));
}

TEST(CudaDeviceTest, BeginsAsZerosAndMovesBytesBothWays) {
  const StandInGpu stand_in;
  {
    CudaDevice device(stand_in.open(), {.arena_bytes = 1024});
    EXPECT_EQ(device.arena_bytes(), 1024);
    EXPECT_EQ(device.alignment(), kAlignment);
    std::vector<std::byte> read(1024, std::byte{1});
    device.download(read, device.at(0));
    EXPECT_TRUE(std::ranges::all_of(read, [](std::byte each) { return each == std::byte{0}; }));
    const std::vector<std::byte> written = counted_bytes(512, std::byte{0x3D});
    device.upload(device.at(0), written);
    device.copy(device.at(512), device.at(0), 512);
    read.resize(512);
    device.download(read, device.at(512));
    EXPECT_EQ(read, written);
    const float numbers[] = {1, 2, std::numeric_limits<float>::infinity()};
    device.upload(device.at(0), std::as_bytes(std::span(numbers)));
    EXPECT_FALSE(device.all_finite(device.at(0), {ir::DType::f32, {3}}));
    EXPECT_TRUE(device.all_finite(device.at(0), {ir::DType::f32, {2}}));
  }
  EXPECT_TRUE(stand_in.machine().allocated.empty()) << "all is given back";
  EXPECT_TRUE(stand_in.machine().breaches.empty());
}

TEST(CudaDeviceTest, AnArenaThatTheGpuRefusesIsE2003) {
  const StandInGpu stand_in;
  const std::shared_ptr<Gpu> gpu = stand_in.open();
  try {
    CudaDevice device(gpu, {.chip = 3, .arena_bytes = int64_t{8} << 30});
    ADD_FAILURE() << "it was given";
  } catch (const memory::OutOfMemory& error) {
    EXPECT_EQ(error.code(), Code::E2003);
    EXPECT_EQ(error.facts().cls, memory::OomClass::load);
    EXPECT_EQ(error.facts().chip, 3);
    EXPECT_EQ(error.facts().wanted, int64_t{8} << 30);
    EXPECT_EQ(error.facts().limit, int64_t{4} << 30);
  }
}

TEST(CudaDeviceTest, AFailedCaptureLeavesTheStreamAsItWas) {
  const StandInGpu stand_in;
  CudaDevice device(stand_in.open(), {.arena_bytes = 1024});
  device.replay([] {});
  problem_of(Code::E1003, [&] {
    device.replay([] { base::raise(Code::E1003, {.where = "x", .got = "y", .wanted = "z", .next = "w"}); });
  });
  int enqueued = 0;
  device.replay([&] {
    ++enqueued;
    device.copy(device.at(0), device.at(512), 256);
  });
  device.replay([&] { ++enqueued; });
  EXPECT_EQ(enqueued, 1) << "kept from the first time";
  EXPECT_EQ(stand_in.machine().graphs, 1);
  EXPECT_EQ(stand_in.machine().graph_launches, 2);
}

TEST(CudaKernelTableTest, EveryKernelIsOfAnOpAndListedOnce) {
  for (const Kernel& kernel : all_kernels()) {
    EXPECT_NE(ops::find_op(kernel.op), nullptr) << kernel.op;
    EXPECT_EQ(std::ranges::count(all_kernels(), kernel.op, &Kernel::op), 1) << kernel.op;
    EXPECT_EQ(find_kernel(kernel.op), &kernel);
    EXPECT_TRUE(bool(kernel.prepare)) << kernel.op;
  }
}

}  // namespace
}  // namespace megacpp::runtime::cuda
